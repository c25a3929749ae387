"""ListTrainingJobs over SageMaker's pages and the queue's jobs, in any order and page size."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import boto3
import pytest
from botocore.exceptions import ClientError

import slotq
from slotq.local.training.plane import Plane
from slotq.local.training.request_check import PlaneError
from slotq.local.training.training_plans import TrainingPlan, Window
from slotq.local.training.virtual_runner import VirtualClock, VirtualRunner, Work
from slotq.session.answers import list_training_jobs
from slotq_core.timestamps import iso
from tests.unit.client.fake_aws import REQUEST
from tests.unit.client.fake_queue import (
    ENDPOINT,
    FakeQueue,
    attempt,
    client_of,
    ended,
    running,
    waiting,
)

MINUTE = 60_000
START = 1_790_000_000_000


@cache
def boto_session():
    """One session for all tests of this file, because reading AWS's service models takes long."""
    return boto3.Session()


class Account:
    """SageMaker's training plane and the queue's jobs. A line of the story each minute."""

    def __init__(self, queue):
        self.queue = queue
        self.clock = VirtualClock(START)
        self.runs = {}
        runner = VirtualRunner(
            clock=self.clock, work_of=lambda job, _: Work(runtime=self.runs.get(job))
        )
        self.plane = Plane(clock=self.clock, runner=runner, emit=lambda _: None)
        open_plan = Window(begins=START, ends=START + 1000 * MINUTE, instances=4)
        kind = REQUEST["ResourceConfig"]["InstanceType"]
        plan = TrainingPlan(name="plan", instance_type=kind, windows=(open_plan,))
        self.plane.set_plans([plan])
        self.minute = 0

    def answer(self, model, params, **_):
        try:
            said = self.plane.handle(model.name, json.loads(params["body"]))
        except PlaneError as error:
            said = {"Error": {"Code": error.code, "Message": error.message}}
            return SimpleNamespace(status_code=400, headers={}), said
        return SimpleNamespace(status_code=200, headers={}), said

    def trains(self, name, *, seconds=None, **changes):
        """A training job of SageMaker's, that ends after these seconds."""
        self.runs[name] = None if seconds is None else 1000 * seconds
        stops = {"MaxRuntimeInSeconds": 86_400}
        request = REQUEST | {"TrainingJobName": name, "StoppingCondition": stops} | changes
        self.plane.handle("CreateTrainingJob", request)
        self._pass_a_minute()

    def queued(self, job):
        """The queue's job, which enters now."""
        moment = iso(self.clock.now())
        self.queue.jobs[job.name] = job.model_copy(
            update={"entry_time": moment, "changed_at": moment}
        )
        self._pass_a_minute()

    def _pass_a_minute(self):
        self.minute += 1
        until = START + self.minute * MINUTE
        while (due := self.plane.next_due()) is not None and due <= until:
            self.clock.set(due)
            self.plane.advance()
        self.clock.set(until)


@pytest.fixture
def queue():
    return FakeQueue()


@pytest.fixture
def account(queue):
    return Account(queue)


@pytest.fixture
def sagemaker(http, account):
    slotq.install(boto_session(), queue=client_of(http), endpoint=ENDPOINT)
    client = boto_session().client("sagemaker")
    client.meta.events.register_last("before-call.sagemaker", account.answer)
    return client


def pages(client, **asked):
    found = client.get_paginator("list_training_jobs").paginate(**asked)
    return [page["TrainingJobSummaries"] for page in found]


def rows(client, **asked):
    return [row for page in pages(client, **asked) for row in page]


def names(client, **asked):
    return [row["TrainingJobName"] for row in rows(client, **asked)]


PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/plan"
STORY = ["other-1", "waits-1", "other-2", "gone", "waits-2", "other-3", "other-4", "waits-3"]


@pytest.fixture
def story(account):
    tell(account)


def tell(account):
    """Training jobs of SageMaker's, jobs that wait, and one that was cancelled before a start."""
    for name in STORY:
        if name.startswith("other"):
            account.trains(name, seconds=None if name == "other-2" else 10)
        elif name == "gone":
            account.queued(ended("cancelled", number=0, name=name, training_job=None))
        else:
            account.queued(waiting(1, name=name))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("order", ["Ascending", "Descending", None])
def test_all_jobs_are_listed_once_by_their_creation(sagemaker, story, size, order):
    asked = {} if order is None else {"SortOrder": order}
    found = pages(sagemaker, PaginationConfig={"PageSize": size}, **asked)
    assert all(len(page) <= size for page in found)
    listed = [row["TrainingJobName"] for page in found for row in page]
    assert listed == (STORY[::-1] if order == "Descending" else STORY)
    times = [row["CreationTime"] for page in found for row in page]
    assert all((one < two) != (order == "Descending") for one, two in pairwise(times))


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("order", ["Ascending", "Descending"])
def test_all_jobs_are_listed_once_by_name_and_by_status(sagemaker, story, size, order):
    asked = {"SortOrder": order, "PaginationConfig": {"PageSize": size}}
    assert names(sagemaker, SortBy="Name", **asked) == sorted(STORY, reverse=order == "Descending")
    found = rows(sagemaker, SortBy="Status", **asked)
    statuses = [row["TrainingJobStatus"] for row in found]
    assert statuses == sorted(statuses, reverse=order == "Descending")
    assert sorted(row["TrainingJobName"] for row in found) == sorted(STORY)


def test_sagemakers_own_order_is_kept_where_none_is_asked_for(sagemaker, story, account):
    """Whatever its default is."""
    handle = account.plane.handle
    account.plane.handle = lambda operation, request: handle(
        operation, {"SortOrder": "Descending"} | request
    )
    assert names(sagemaker, PaginationConfig={"PageSize": 2}) == STORY[::-1]


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"NameContains": "WAITS"}, ["waits-1", "waits-2", "waits-3"]),
        ({"StatusEquals": "InProgress"}, ["waits-1", "other-2", "waits-2", "waits-3"]),
        ({"StatusEquals": "Stopped"}, ["gone"]),
        ({"StatusEquals": "Completed"}, ["other-1", "other-3", "other-4"]),
        ({"StatusEquals": "Deleting"}, []),
        (
            {
                "CreationTimeAfter": iso(START + 2 * MINUTE),
                "CreationTimeBefore": iso(START + 5 * MINUTE),
            },
            ["other-2", "gone", "waits-2", "other-3"],
        ),
        ({"LastModifiedTimeAfter": iso(START + 6 * MINUTE)}, ["other-4", "waits-3"]),
        ({"LastModifiedTimeBefore": iso(START + MINUTE)}, ["other-1", "waits-1"]),
        ({"WarmPoolStatusEquals": "InUse"}, ["kept"]),
        ({"TrainingPlanArnEquals": PLAN}, ["planned"]),
    ],
)  # fmt: skip
def test_filters_apply_to_sagemakers_jobs_and_the_queues(sagemaker, account, size, asked, expected):
    tell(account)
    if {"WarmPoolStatusEquals", "TrainingPlanArnEquals"} & asked.keys():
        resources = REQUEST["ResourceConfig"]
        account.trains("kept", ResourceConfig=resources | {"KeepAlivePeriodInSeconds": 60})
        account.trains("planned", ResourceConfig=resources | {"TrainingPlanArn": PLAN})
    assert names(sagemaker, PaginationConfig={"PageSize": size}, **asked) == expected


EVICTED = attempt(1, outcome="evicted", stop_cause="evicted")


def twice(state, **fields):
    """A job whose first training job was stopped for another job, and which has run again."""
    again = attempt(2, ended_at=None if state == "running" else iso(START + 9 * MINUTE))
    make = running if state == "running" else ended
    given = {} if state == "running" else {"state": state}
    return make(number=2, evictions=1, attempts=[EVICTED, again], **given, **fields)


CASES = {
    "waiting": (waiting(1, state="preempted", attempts_begun=1, attempts=[EVICTED]), "InProgress"),
    "running": (twice("running"), "InProgress"),
    "completed": (twice("completed"), "Completed"),
    "failed": (twice("failed", message="no luck"), "Failed"),
    "cancelled": (twice("cancelled"), "Stopped"),
    "time box": (twice("failed", cause="max_runtime"), "Stopped"),
}


@pytest.mark.parametrize("case", CASES)
def test_list_and_describe_agree_on_a_job_that_was_evicted(sagemaker, account, case):
    job, status = CASES[case]
    account.trains("job1")
    account.plane.handle("StopTrainingJob", {"TrainingJobName": "job1"})
    account.queued(job)
    again = "job1-qstamp-2-abcdef"
    if job.attempts_begun == 2:
        account.trains(again, seconds=10 if case == "completed" else None)
        if case in {"cancelled", "time box"}:
            account.plane.handle("StopTrainingJob", {"TrainingJobName": again})
    account.trains("other", seconds=10)
    shown = sagemaker.describe_training_job(TrainingJobName="job1")
    assert shown["TrainingJobStatus"] == status
    by_name = {row["TrainingJobName"]: row for row in rows(sagemaker)}
    assert by_name["job1"]["TrainingJobStatus"] == status
    assert ("TrainingEndTime" in by_name["job1"]) == (status != "InProgress")
    for wanted in ("InProgress", "Completed", "Failed", "Stopped"):
        found = names(sagemaker, StatusEquals=wanted, PaginationConfig={"PageSize": 1})
        assert (found.count("job1"), "job1" in found) == (
            (1, True) if wanted == status else (0, False)
        )
        assert ("other" in found) == (wanted == "Completed")


def test_a_job_on_a_node_is_listed_although_sagemaker_has_no_training_job_of_it(sagemaker, account):
    on_node = attempt(1, node="node-1", ended_at=iso(START))
    account.queued(ended(name="sixth", gpus=1, attempts=[on_node]))
    (row,) = rows(sagemaker)
    shown = sagemaker.describe_training_job(TrainingJobName="sixth")
    assert row["TrainingJobStatus"] == shown["TrainingJobStatus"] == "Completed"


def test_a_job_that_stops_for_good_is_stopping_in_both(sagemaker, account):
    account.trains("job1")
    account.plane.handle("StopTrainingJob", {"TrainingJobName": "job1"})
    account.trains("job1-qstamp-2-abcdef")
    last = attempt(2, stop_cause="cancelled")
    account.queued(running(2, state="stopping", attempts=[EVICTED, last]))
    account.plane.knobs.grace_seconds = 3600.0
    account.plane.handle("StopTrainingJob", {"TrainingJobName": "job1-qstamp-2-abcdef"})
    shown = sagemaker.describe_training_job(TrainingJobName="job1")
    (row, _) = rows(sagemaker)
    assert shown["TrainingJobStatus"] == row["TrainingJobStatus"] == "Stopping"


def test_a_token_that_nobody_gave_is_refused(sagemaker, story):
    for token in ("slotq:7", "slotq:e30x", "slotq:" + "WzFd"):
        with pytest.raises(ClientError, match="NextToken"):
            sagemaker.list_training_jobs(NextToken=token)


def test_jobs_that_leave_and_come_between_pages_break_nothing(sagemaker, story, account):
    first = sagemaker.list_training_jobs(MaxResults=3)
    account.plane.handle("DeleteTrainingJob", {"TrainingJobName": "other-1"})
    del account.queue.jobs["waits-1"]
    account.queued(waiting(1, name="waits-4"))
    found = [row["TrainingJobName"] for row in first["TrainingJobSummaries"]]
    token = first["NextToken"]
    while token:
        page = sagemaker.list_training_jobs(MaxResults=3, NextToken=token)
        found += [row["TrainingJobName"] for row in page["TrainingJobSummaries"]]
        token = page.get("NextToken")
    assert found == [*STORY, "waits-4"]


def test_a_list_that_is_not_whole_says_so(http, story, account, monkeypatch):
    said = []
    monkeypatch.setattr(list_training_jobs, "MOST", 2)
    aws = boto3.Session()
    slotq.install(aws, queue=client_of(http), endpoint=ENDPOINT, say=said.append)
    client = aws.client("sagemaker")
    client.meta.events.register_last("before-call.sagemaker", account.answer)
    client.list_training_jobs()
    assert len(said) == 1
    assert "made from 2 of the queue's jobs" in said[0]

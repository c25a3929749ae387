"""Verbs for many jobs: the number of requests, and each job's outcome."""

from __future__ import annotations

import json

import pytest

from slotq.errors import (
    CannotReach,
    InvalidRequest,
    NoSuchJob,
    NotAllowed,
    TooLate,
    TooManySubmissions,
    Unavailable,
)
from tests.least_request import least_request
from tests.unit.client.fake_queue import (
    FakeAnswer,
    FakeHttp,
    FakeQueue,
    client_of,
    ended,
    no_connection,
    running,
    waiting,
)

NO_METHOD = FakeAnswer(405, '{"version": 1, "code": "no_such_method", "message": "use GET here"}')
NOT_YOURS = FakeAnswer(403, '{"Message": "User: ada is not authorized to perform: it"}')


@pytest.fixture
def queue():
    """job0 to job249 wait."""
    return FakeQueue(*(waiting(n + 1, name=f"job{n}") for n in range(250)))


@pytest.fixture
def client(http, clock):
    return client_of(http, clock=clock)


def calls(http):
    return [(each.method, each.url.partition("/prod")[2]) for each in http.sent]


def sizes(http):
    return [len(json.loads(each.body)["changes"]) for each in http.sent]


@pytest.mark.parametrize(
    ("do", "state"),
    [
        (lambda jobs: jobs.cancel(), "cancelled"),
        (lambda jobs: jobs.hold(), "held"),
        (lambda jobs: jobs.release(), "pending"),
        (lambda jobs: jobs.set_priority(7), "pending"),
        (lambda jobs: jobs.move(["p4", "p5"]), "pending"),
        (lambda jobs: jobs.transfer("speech"), "pending"),
    ],
)
def test_jobs_are_sent_a_hundred_at_a_time(client, http, queue, do, state):
    outcomes = do(client.many(queue.jobs))
    assert calls(http) == [("PATCH", "/jobs")] * 3
    assert sizes(http) == [100, 100, 50]
    assert [it.name for it in outcomes] == [f"job{n}" for n in range(250)]
    assert {it.job.state for it in outcomes} == {state}


def test_jobs_that_the_queue_had_no_time_for_are_sent_again(client, http, queue):
    queue.reaches = 40
    outcomes = client.many(queue.jobs).hold()
    assert sizes(http) == [100, 100, 100, 100, 90, 50, 10]
    assert {it.job.state for it in outcomes} == {"held"}


def test_a_queue_without_any_time_is_given_up(client, http, queue):
    queue.reaches = 0
    with pytest.raises(Unavailable):
        client.many(queue.jobs).hold()
    assert len(http.sent) == 1


def test_each_refused_job_has_its_error(client, queue):
    queue.jobs["job9"] = ended(name="job9")
    queue.jobs["runs"] = running(name="runs")
    names = ["job1", "job9", "nobody", "runs", "no name", "job2", "job1"]
    outcomes = client.many(names).hold()
    kinds = [type(it.error) for it in outcomes]
    none = type(None)
    assert kinds == [none, TooLate, NoSuchJob, TooLate, InvalidRequest, none]
    assert "has ended" in str(outcomes[1].error)


def test_job_objects_are_accepted(client):
    jobs = [*client.list(["pending"])[:2], *client.jobs()[2:4]]
    assert [it.job.state for it in client.many(jobs).cancel()] == ["cancelled"] * 4


def test_one_job_uses_the_single_request(client, http):
    client.many(["job1"]).hold()
    assert calls(http) == [("PATCH", "/jobs/job1")]


@pytest.mark.parametrize("answer", [NO_METHOD, NOT_YOURS])
def test_without_the_right_or_the_route_each_job_has_a_request(client, http, queue, answer):
    """An older queue or policy allows only single requests, which go on working."""
    http.troubles = [answer]
    outcomes = client.many(["job1", "job2", "nobody"]).cancel()
    assert calls(http)[1:] == [("DELETE", f"/jobs/{n}") for n in ("job1", "job2", "nobody")]
    assert [type(it.error) for it in outcomes] == [type(None), type(None), NoSuchJob]


def test_a_caller_without_either_right_gets_the_refusal(client, http):
    http.forbidden = {"PATCH", "DELETE"}
    with pytest.raises(NotAllowed):
        client.many(["job1", "job2"]).cancel()


def test_a_connection_lost_half_way_loses_no_outcome(client, http, queue):
    def send(request):
        if len(http.sent) == 2:
            http.troubles = [no_connection()] * 5
        return type(http).send(http, request)

    http.send = send
    outcomes = client.many(queue.jobs).hold()
    assert [it.error is None for it in outcomes] == [True] * 200 + [False] * 50
    assert isinstance(outcomes[-1].error, CannotReach)
    http.troubles = [no_connection()] * 5
    with pytest.raises(CannotReach):
        client.many(queue.jobs).hold()


def test_each_job_requeues_its_own_attempt(client, http, queue):
    for number in (2, 3):
        name = f"run{number}"
        queue.jobs[name] = running(number, name=name)
    http.sent.clear()
    outcomes = client.many(["run2", "job1", "run3"]).requeue()
    assert http.sent[1].method == "PATCH"
    assert json.loads(http.sent[1].body)["changes"] == [
        {"name": "run2", "give_up": 2},
        {"name": "run3", "give_up": 3},
    ]
    assert [it.job.state for it in outcomes] == ["stopping", "pending", "stopping"]
    assert client.many([]).cancel() == []


@pytest.mark.parametrize("answer", [None, NO_METHOD])
def test_only_jobs_still_in_the_state_are_changed(client, http, queue, answer):
    queue.jobs["job1"] = running(name="job1")
    http.troubles = [answer] if answer else []
    outcomes = client.many(["job0", "job1", "job2"], states=["pending"]).cancel()
    assert [type(it.error) for it in outcomes] == [type(None), TooLate, type(None)]
    assert queue.jobs["job1"].state == "running"
    (alone,) = client.many(["job1"], states=["pending"]).cancel()
    assert isinstance(alone.error, TooLate)


@pytest.fixture
def failed(queue):
    """fail0 to fail249 have failed."""
    names = [f"fail{n}" for n in range(250)]
    for name in names:
        queue.jobs[name] = ended("failed", name=name)
        queue.requests[name] = least_request(name)
    return names


def test_a_retry_is_a_request_for_each_hundred(client, http, queue, failed):
    outcomes = client.many(failed).retry(priority=7)
    assert (calls(http), sizes(http)) == ([("PATCH", "/jobs")] * 3, [100, 100, 50])
    assert [it.name for it in outcomes] == failed
    assert [it.job.name for it in outcomes] == [f"{name}-r2" for name in failed]
    assert {it.job.priority for it in outcomes} == {7}


def test_each_retry_that_is_refused_is_an_error_of_its_own(client, queue, failed):
    queue.jobs["fine"] = ended(name="fine")
    outcomes = client.many(["fail1", "job1", "fine", "nobody", "fail2"]).retry()
    kinds = [type(it.error) for it in outcomes]
    none = type(None)
    assert kinds == [none, InvalidRequest, InvalidRequest, NoSuchJob, none]


@pytest.mark.parametrize("names", [["fail1"], ["fail1", "fail2"]])
def test_a_request_that_is_not_shown_whole_is_not_retried(client, queue, failed, names):
    queue.withheld = ["Environment"]
    for outcome in client.many(names).retry():
        assert isinstance(outcome.error, NotAllowed)
        assert "only that person may see its Environment" in str(outcome.error)


@pytest.mark.parametrize("answer", [NO_METHOD, NOT_YOURS])
def test_where_it_may_not_it_retries_job_by_job(client, http, queue, failed, answer):
    http.troubles = [answer]
    outcomes = client.many(["fail1", "job1", "fail2"]).retry()
    assert [it.job and it.job.name for it in outcomes] == ["fail1-r2", None, "fail2-r2"]
    assert calls(http)[-1] == ("POST", "/add-job")


class FullMinute(FakeHttp):
    """A queue with room for 60 submissions, which says when to come again: in 30 seconds."""

    def __init__(self, queue):
        super().__init__(queue)
        queue.room = 60

    def send(self, request):
        if request.url.endswith("/add-job") and self.queue.room == 0:
            self.sent.append(request)
            body = '{"version": 1, "code": "too_many_submissions", "message": "60 a minute"}'
            return FakeAnswer(429, body, {"Retry-After": "30"})
        return super().send(request)


def test_retries_beyond_this_minute_wait_for_the_next(clock, queue, failed):
    def next_minute():
        queue.room = 60

    http, clock.after_sleep = FullMinute(queue), next_minute
    outcomes = client_of(http, clock=clock).many(failed[:100]).retry()
    assert [it.job.name for it in outcomes] == [f"{name}-r2" for name in failed[:100]]
    assert clock.slept == [30]
    bulk = [each for each in http.sent if each.method == "PATCH"]
    assert [len(json.loads(each.body)["changes"]) for each in bulk] == [100, 39]


def test_retries_that_wait_in_vain_are_refused(clock, queue, failed):
    http = FullMinute(queue)
    outcomes = client_of(http, clock=clock).many(failed[:100]).retry()
    assert [it.error is None for it in outcomes] == [True] * 60 + [False] * 40
    assert {type(it.error) for it in outcomes[60:]} == {TooManySubmissions}
    assert sum(clock.slept) == 180

"""A job as an object: its verbs, and waiting for it."""

from __future__ import annotations

import pytest

from slotq.errors import NameTaken, NoSuchJob, NotAllowed, NotCompleted, TooLate
from slotq_core.model.jobs import JobState
from slotq_core.wire.resubmission import MOST_NAMES, names_to_try, next_names
from tests.least_request import least_request
from tests.unit.client.fake_queue import (
    Clock,
    FakeHttp,
    FakeQueue,
    attempt,
    client_of,
    ended,
    running,
    waiting,
)

REQUEST = least_request("job1", Tags=[{"Key": "priority", "Value": "1"}])


@pytest.fixture
def queue():
    return FakeQueue()


@pytest.fixture
def client(queue):
    return client_of(FakeHttp(queue))


@pytest.fixture
def job(client):
    client.submit(REQUEST)
    return client.get("job1")


def test_a_job_has_its_views_fields(job):
    assert (job.name, job.state, job.priority, job.place) == ("job1", JobState.PENDING, 1, 1)
    assert (job.reason, job.ended) == ("the pool is full", False)
    assert repr(job) == "<job job1: pending>"


def test_an_unknown_job_is_an_error(client):
    with pytest.raises(NoSuchJob):
        client.get("job9")


def test_verbs_change_the_job(job, queue):
    assert job.hold().state is JobState.HELD
    assert job.refresh().reason == "the pool is full"
    assert job.release().state is JobState.PENDING
    assert job.set_priority(7).priority == 7
    job.move(["p4", "p5"])
    tags = {tag["Key"]: tag["Value"] for tag in queue.requests["job1"]["Tags"]}
    assert tags == {"priority": "7", "slotq:pools": "p4,p5"}
    assert job.transfer("speech").view.project == "speech"


def test_a_clone_has_the_same_request_under_a_new_name(job, queue):
    clone = job.clone("job2", priority=4)
    assert (clone.name, clone.priority) == ("job2", 4)
    assert queue.requests["job2"] == REQUEST | {
        "TrainingJobName": "job2",
        "Tags": [{"Key": "priority", "Value": "4"}],
    }


def test_a_partly_withheld_request_is_not_cloned(job, client, queue):
    queue.requests["job1"] = REQUEST | {"Environment": {"TOKEN": "s3cr3t"}}
    queue.withheld = ["Environment"]
    with pytest.raises(NotAllowed, match="only that person may see its Environment"):
        job.clone("job2")
    assert "job2" not in queue.requests
    assert "Environment" not in client.jobs.request("job1")


def test_a_verb_that_is_too_late_is_an_error_and_changes_nothing(job, queue):
    queue.jobs["job1"] = ended()
    for verb in (job.cancel, job.hold, job.release, lambda: job.set_priority(3)):
        with pytest.raises(TooLate):
            verb()
    assert queue.jobs["job1"] == ended()


def test_the_client_lists_jobs_as_objects(job, client):
    assert [each.name for each in client.list()] == ["job1"]
    assert client.list(["running"]) == []


def test_wait_and_result_return_at_the_end(job, queue):
    clock, said = Clock(), []
    done = [attempt(1, artifact="s3://out/job1/output/model.tar.gz", outcome="completed")]
    queue.script(waiting(1), running(), ended(attempts=done), ended(attempts=done))
    artifact = job.result(say=said.append, clock=clock, sleep=clock.sleep)
    assert artifact == "s3://out/job1/output/model.tar.gz"
    assert said[-1] == "job1: completed after 1 attempt"
    assert [each.outcome for each in job.history()] == ["completed"]


def test_the_result_of_an_unsuccessful_job_is_an_error(job, queue):
    clock = Clock()
    queue.jobs["job1"] = ended("failed", message="AlgorithmError: exit code 1")
    with pytest.raises(NotCompleted, match="job1 is failed: AlgorithmError"):
        job.result(say=print, clock=clock, sleep=clock.sleep)


def test_a_wait_can_have_a_timeout(job):
    clock = Clock()
    with pytest.raises(TimeoutError, match="within 12 s"):
        job.wait(12, say=print, clock=clock, sleep=clock.sleep)
    assert clock.now == 12
    assert job.refresh().state is JobState.PENDING


def test_tags_can_be_added(client, job):
    assert client.jobs.add_tags("job1", {"team": "vision"}) == {"priority": "1", "team": "vision"}
    assert client.jobs.request("job1")["Tags"][-1] == {"Key": "team", "Value": "vision"}


def test_a_running_attempt_is_requeued(job, queue):
    queue.jobs["job1"] = running(2)
    assert job.requeue().state is JobState.STOPPING
    queue.jobs["job1"] = ended()
    with pytest.raises(TooLate):
        job.requeue()


def test_a_retry_is_a_new_job(job, queue):
    queue.jobs["job1"] = ended("failed")
    again = job.retry(priority=8)
    assert (again.name, again.priority, job.name) == ("job1-r2", 8, "job1")
    assert job.retry("own").name == "own"


def test_names_of_retries_fit_sagemakers_limit():
    names = next_names("x" * 63)
    assert [next(names), next(names)] == ["x" * 60 + "-r2", "x" * 60 + "-r3"]
    assert next(next_names("train-r9")) == "train-r10"
    assert next(next_names("a-r1")) == "a-r1-r2"
    assert next(next_names("x" * 59 + "-yyy")) == "x" * 59 + "-r2"


def test_a_name_without_a_free_retry_name_is_an_error(client, job, queue):
    queue.jobs["job1"] = ended("failed")
    for name in names_to_try("job1"):
        queue.requests[name] = {"TrainingJobName": name}
    with pytest.raises(NameTaken, match=f"up to job1-r{MOST_NAMES + 1} are taken; choose a name"):
        client.jobs.retry("job1")

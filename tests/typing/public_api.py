"""The public API as its users type it: `make check` runs mypy over this, and `make validate` once
more against the installed wheels. It is never run."""

from datetime import UTC, datetime
from typing import Any, assert_type

import slotq
from slotq import (
    QueueClient,
    QueuedJob,
    QueueTrainingJobSession,
    Sweep,
    direct,
    install,
    print_queue_state,
)
from slotq.errors import NotCompleted, Outdated, Refused, SlotQError
from slotq_core.model.jobs import JobState
from slotq_core.wire.document.views import AppliedView
from slotq_core.wire.groups.views import GroupView
from slotq_core.wire.record import ChangeView
from slotq_core.wire.scenario.views import ScenarioView
from slotq_core.wire.views.about import FindingView
from slotq_core.wire.views.jobs import AttemptView, JobView
from slotq_core.wire.views.pools import PoolsView, PoolView
from slotq_core.wire.views.usage import AttemptsPageView


def the_queue(request: dict[str, Any]) -> None:
    queue = install(priority=5, pools=["p5", "p4"], preemptible=False, min_runtime=600)
    assert_type(queue, QueueClient)
    session = QueueTrainingJobSession(priority=5, pools="p5", default_bucket="ours")
    assert_type(session.queue, QueueClient)
    assert_type(queue.with_settings(retries=2), QueueClient)
    assert_type(QueueClient("https://queue/prod", region="eu-west-1"), QueueClient)
    assert_type(queue.submit(request), JobView)
    assert_type(queue.jobs.view("job1"), JobView)
    running: list[JobView] = queue.jobs(["running"], limit=5)
    assert_type(queue.jobs().more, bool)
    since = datetime(2026, 11, 20, tzinfo=UTC)
    running += queue.jobs(submitter="ada", pool="p5", since=since)
    assert_type(queue.jobs.requeue("job1"), JobView)
    assert_type(queue.jobs.retry("job1", priority=3), JobView)
    assert_type(queue.service.about().caller, str)
    print_queue_state(queue, states=None)
    assert_type(queue.jobs.request("job1"), dict[str, Any])
    assert_type(queue.jobs.add_tags("job1", {"team": "vision"}), dict[str, str])
    assert_type(queue.service.doctor(fix=True), list[FindingView])
    assert_type(slotq.__version__, str)


def after_others(queue: QueueClient, session: QueueTrainingJobSession, job: QueuedJob) -> None:
    with queue.after("prepare", job, after_any="clean"), session.after("group:grid"), direct():
        queue.submit({})


def the_pools(queue: QueueClient) -> None:
    assert_type(queue.pools(), list[PoolView])
    assert_type(queue.pools.view(), PoolsView)
    assert_type(queue.pools.view().revision, int)
    assert_type(queue.pools.set("p5", {"slots": 4}, revision=3), PoolsView)
    assert_type(queue.pools.remove("p5"), PoolsView)
    assert_type(queue.configuration.changes(limit=5), list[ChangeView])
    assert_type(queue.pools()[0].settings.reserve_after, int | None)


def the_nouns(queue: QueueClient, request: dict[str, Any]) -> None:
    assert_type(queue.jobs.cancel("job1"), JobView)
    assert_type(queue.groups.submit("grid", [request], max_parallel=1), GroupView)
    with queue.batch() as batch:
        queue.submit(request)
    assert_type(batch.jobs, list[JobView])
    assert_type(queue.submit_many([request])[0].error, SlotQError | None)
    assert_type(queue.groups.view("grid", attempts=True).jobs, list[JobView])
    assert_type(queue.sweeps.get("grid"), Sweep)
    assert_type(queue.projects.set("vision", {"quota": 4}), AppliedView)
    assert_type(queue.configuration.document().revision, int)
    assert_type(queue.configuration(), PoolsView)
    assert_type(queue.usage.attempts(pool="p5"), AttemptsPageView)
    assert_type(queue.service.scenario(), ScenarioView)


def earlier_names(queue: QueueClient) -> None:
    assert_type(queue.cancel("job1"), JobView)  # type: ignore[deprecated]
    assert_type(queue.set_pool("p5", {"slots": 4}), PoolsView)  # type: ignore[deprecated]


def a_job(queue: QueueClient) -> str:
    job = queue.get("job1")
    assert_type(job, QueuedJob)
    assert_type(queue.list(), list[QueuedJob])
    assert_type(job.state, JobState)
    assert_type(job.place, int | None)
    assert_type(job.hold().set_priority(3).move("p4").release(), QueuedJob)
    assert_type(job.transfer("speech"), QueuedJob)
    assert_type(job.history(), list[AttemptView])
    assert_type(job.clone("job2", priority=1), QueuedJob)
    assert_type(job.requeue(), QueuedJob)
    assert_type(job.retry(), QueuedJob)
    try:
        return job.result(timeout=60)
    except NotCompleted as error:
        raise SlotQError(str(error)) from error
    except Outdated as error:
        assert_type(error.field, str)
        assert_type(isinstance(error, Refused), bool)
        raise

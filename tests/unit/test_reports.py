"""Reports of training scripts, through the whole queue: progress, stalls, and what an eviction
cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.adapters.eventbridge import warnings
from slotq_core.model.jobs import JobState
from slotq_core.model.pools import OnStall
from slotq_core.model.reports import resumption
from slotq_core.operations.attempts import listening
from slotq_core.operations.jobs.lookup import KEPT
from slotq_core.ports.stored import Change
from slotq_core.usage.attempt_use import use_of
from slotq_core.wire.views.jobs import job_view
from tests.queue_world import QueueWorld, pool, request

MIN = 60_000
PLACE = "s3://bucket/checkpoints"
ALL_DAY = 86_400_000


def world(*pools, slots: int = 1, **fields) -> QueueWorld:
    made = QueueWorld(*(pools or (pool(slots=slots, **fields),)), runtime=ALL_DAY)
    made.submit("job1", checkpoints=PLACE, priority=1)
    made.deliver()
    return made


def progress(queue: QueueWorld, name: str = "job1"):
    (status,) = queue.manager.jobs.with_progress([queue.manager.jobs.status(name)])
    return job_view(status.job, report=status.report, eta=status.eta).progress


def last(queue: QueueWorld, name: str = "job1"):
    return queue.manager.jobs.status(name).attempts[-1]


def test_a_running_job_has_the_place_of_its_checkpoints():
    """Before its end: only then can anybody read its report."""
    assert last(world()).checkpoints == PLACE


def test_progress_is_told_of_running_jobs_that_report():
    queue = world()
    assert progress(queue) is None
    queue.later(10)
    queue.report(
        "job1",
        40,
        of=100,
        metrics={"loss": 0.5},
        first={"step": 30, "at": queue.clock.now() - 10_000},
    )
    told = progress(queue)
    assert told is not None
    assert (told.step, told.of, told.metrics, told.saved) == (40, 100, {"loss": 0.5}, None)
    assert told.eta_seconds == 60
    queue.submit("job2", checkpoints=PLACE)
    assert progress(queue, "job2") is None


def test_a_report_is_read_once_in_some_seconds():
    queue = world()
    queue.report("job1", 1)
    for _ in range(20):
        progress(queue)
    assert queue.scripts.reads == 1
    queue.report("job1", 2)
    queue.clock.set(queue.clock.now() + KEPT)
    told = progress(queue)
    assert told is not None and told.step == 2


def test_a_list_reads_the_reports_of_running_jobs_alone():
    queue = world(slots=2)
    for name in ("job2", "waits", "waits2"):
        queue.submit(name, checkpoints=PLACE)
    queue.deliver()
    shown = queue.manager.jobs.with_progress(queue.manager.jobs.statuses())
    assert len(shown) == 4
    assert queue.scripts.reads == 2


def test_without_s3_a_job_is_shown_all_the_same():
    queue = world()
    queue.report("job1", 1)
    queue.scripts.out_of_reach = True
    assert progress(queue) is None


def evict(queue: QueueWorld) -> None:
    queue.submit("urgent", priority=9)
    queue.manager.passes.run()


def test_an_eviction_reads_the_last_report_once():
    queue = world()
    queue.later(600)
    evict(queue)
    saved = {"step": 4200, "epoch": 0, "at": queue.clock.now(), "seconds": 1.0}
    queue.report("job1", 4210, of=9000, checkpoint=saved)
    queue.later(3)
    attempt = last(queue)
    assert (attempt.step, attempt.steps, attempt.saved_step) == (4210, 9000, 4200)
    assert resumption(attempt).startswith("resumes from step 4,200, saved ")
    assert queue.scripts.reads == 1
    assert queue.job("job1").reports


def test_without_a_report_the_eviction_lost_at_most_what_it_ran():
    queue = world()
    queue.later(41 * 60)
    evict(queue)
    queue.later(3)
    assert resumption(last(queue)) == "loses up to 41 min of work: it reported no checkpoint"
    assert use_of(queue.job("job1"), last(queue)).lost_at_most


def test_without_s3_an_eviction_goes_on():
    queue = world()
    queue.scripts.out_of_reach = True
    evict(queue)
    queue.later(3)
    assert queue.job("job1").state is JobState.PREEMPTED


def test_a_report_of_a_save_lowers_the_lost_work():
    queue = world()
    queue.later(600)
    evict(queue)
    queue.report("job1", 5, checkpoint={"step": 5, "at": queue.clock.now() - 100_000})
    queue.later(3)
    attempt = last(queue)
    assert attempt.checkpoint_at is not None and attempt.ended_at is not None
    use = use_of(queue.job("job1"), attempt)
    assert (use.lost_since, use.lost_at_most) == (attempt.checkpoint_at, False)
    assert attempt.ended_at - attempt.checkpoint_at >= 100_000


def test_the_end_of_other_jobs_reads_nothing():
    queue = world()
    queue.report("job1", 1)
    queue.manager.changes.cancel("job1", by="ann")
    queue.later(3)
    assert queue.job("job1").state is JobState.CANCELLED
    assert queue.scripts.reads == 0


def test_a_tick_reads_nothing_unless_a_pool_asks():
    queue = world()
    queue.report("job1", 1)
    queue.manager.tick()
    assert queue.scripts.reads == 0


def test_a_silent_script_is_warned_of_once():
    queue = world(stall_after=30 * MIN)
    queue.report("job1", 1)
    queue.manager.tick()
    assert queue.job("job1").attempt.silent_since is None
    queue.clock.set(queue.clock.now() + 30 * MIN)
    before = queue.job("job1")
    queue.manager.tick()
    after = queue.job("job1")
    assert after.attempt.stalled_at == queue.clock.now()
    assert job_view(after).stalled_since is not None
    ((code, text),) = warnings(Change(before=before, after=after), after)
    assert code == "stalled" and "30 min" in text
    version = after.version
    for _ in range(3):
        queue.clock.set(queue.clock.now() + MIN)
        queue.manager.tick()
    assert queue.job("job1").version == version, "one warning, one write"
    queue.report("job1", 2)
    queue.manager.tick()
    assert job_view(queue.job("job1")).stalled_since is None


@pytest.mark.parametrize(("retries", "state"), [(0, JobState.FAILED), (1, JobState.RUNNING)])
def test_a_silent_script_is_stopped_where_the_pool_says_so(retries, state):
    queue = QueueWorld(pool(stall_after=30 * MIN, on_stall=OnStall.EVICT), runtime=ALL_DAY)
    queue.submit("job1", checkpoints=PLACE, retries=str(retries))
    queue.deliver()
    queue.report("job1", 1, checkpoint={"step": 1, "at": queue.clock.now()})
    queue.manager.tick()
    queue.clock.set(queue.clock.now() + 30 * MIN)
    queue.manager.tick()
    queue.deliver()
    job = queue.job("job1")
    assert job.state is state
    assert job.retries == 0
    first = queue.manager.jobs.status("job1").attempts[0]
    assert first.outcome == "stalled"
    assert resumption(first) == "resumes from step 1 and loses 30 min of work"
    if not retries:
        assert job.cause == "stalled" and "nothing for 30 min" in job.message


def test_s3_that_does_not_answer_stalls_nobody():
    queue = world(stall_after=30 * MIN, stall_unreported=True, on_stall=OnStall.EVICT)
    queue.scripts.out_of_reach = True
    for _ in range(5):
        queue.clock.set(queue.clock.now() + 30 * MIN)
        queue.manager.tick()
    assert queue.job("job1").state is JobState.RUNNING


def test_a_crash_between_the_silence_and_the_decision_is_made_good():
    queue = world(stall_after=30 * MIN, on_stall=OnStall.EVICT)
    queue.report("job1", 1)
    queue.clock.set(queue.clock.now() + 30 * MIN)
    queue.manager.periodic.listen()  # The handler dies here.
    assert queue.job("job1").state is JobState.RUNNING
    queue.another_manager().passes.run()
    assert queue.job("job1").state is JobState.STOPPING


def gang(**rules) -> QueueWorld:
    """A server and three clients that run, and one job beside them."""
    queue = QueueWorld(pool(slots=5), runtime=ALL_DAY)
    queue.submit("job1", checkpoints=PLACE)
    members = [request(name, checkpoints=PLACE) for name in ("server", "a", "b", "c")]
    queue.submit_group("g", *members, ends_with="server", **rules)
    queue.deliver()
    assert set(queue.states().values()) == {"running"}
    return queue


def ticks(queue: QueueWorld, minutes: int, *reporting: str) -> None:
    """Let the tick come each minute, while these report."""
    for _ in range(minutes):
        queue.clock.set(queue.clock.now() + MIN)
        for name in reporting:
            queue.report(name, 1)
        queue.manager.tick()
        queue.deliver()


def test_a_silent_member_counts_against_its_gang():
    queue = gang(min_members=3, heartbeat=2 * MIN)
    ticks(queue, 2, "server", "a", "b", "c", "job1")
    ticks(queue, 1, "server", "a", "b")
    assert queue.job("c").state is JobState.RUNNING
    ticks(queue, 1, "server", "a", "b")
    lost = queue.job("c")
    assert (lost.state, lost.cause) == (JobState.FAILED, "stalled")
    assert "nothing for 2 min" in lost.message
    assert {queue.states()[name] for name in ("server", "a", "b", "job1")} == {"running"}
    ticks(queue, 2, "server", "a")
    assert queue.states() == {
        "server": "cancelled", "a": "cancelled", "b": "failed", "c": "failed", "job1": "running"
    }  # fmt: skip
    assert queue.job("a").cause == "group_ended"
    assert "too few of its group g" in queue.job("a").message


def test_who_never_reports_has_no_heartbeat():
    queue = gang(heartbeat=MIN)
    ticks(queue, 5)
    assert set(queue.states().values()) == {"running"}


def test_without_s3_no_heartbeat_is_missed():
    queue = gang(heartbeat=MIN)
    ticks(queue, 1, "server", "a", "b", "c")
    queue.scripts.out_of_reach = True
    ticks(queue, 5)
    assert set(queue.states().values()) == {"running"}


def test_a_crash_between_the_heartbeat_and_the_decision_is_made_good():
    queue = gang(min_members=3, heartbeat=MIN)
    ticks(queue, 1, "server", "a", "b", "c")
    queue.clock.set(queue.clock.now() + MIN)
    for name in ("server", "a", "b"):
        queue.report(name, 2)
    queue.manager.periodic.listen()  # The handler dies here.
    assert queue.job("c").state is JobState.RUNNING
    queue.another_manager().passes.run()
    assert queue.job("c").state is JobState.STOPPING


def test_a_tick_loads_for_heartbeats_only_while_a_group_with_one_may_run():
    queue, loads = gang(), []
    load = queue.store.worlds.load

    def counted(now):
        loads.append(now)
        return load(now)

    queue.store.worlds.load = counted
    for expected in (1, 0, 0):
        queue.manager.periodic.listen()
        assert (len(loads), queue.scripts.reads) == (expected, 0)
        loads.clear()
    for name in ("server", "a", "b", "c", "job1"):
        queue.manager.changes.cancel(name, by="ann")
    queue.deliver()
    queue.submit_group("h", request("d", checkpoints=PLACE), heartbeat=MIN)
    queue.deliver()
    loads.clear()
    before = queue.scripts.reads
    for expected in (1, 2):
        queue.manager.periodic.listen()
        assert (len(loads), queue.scripts.reads - before) == (expected, expected)


def test_saves_decide_who_is_evicted_where_the_pool_reads_them():
    for reads, victim in ((False, "older"), (True, "job1")):
        queue = QueueWorld(pool(slots=2, read_reports=reads), runtime=ALL_DAY)
        queue.submit("job1", checkpoints=PLACE)
        queue.deliver()
        queue.later(600)
        queue.submit("older", checkpoints=PLACE)
        queue.deliver()
        queue.later(600)
        queue.report("job1", 1, checkpoint={"step": 1, "at": queue.clock.now()})
        queue.manager.tick()
        evict(queue)
        assert queue.job(victim).state is JobState.STOPPING


def test_many_running_jobs_take_turns(monkeypatch):
    monkeypatch.setattr(listening, "MOST_READ", 2)
    queue = QueueWorld(pool(slots=5, stall_after=30 * MIN), runtime=ALL_DAY)
    names = [f"job{n}" for n in range(5)]
    for name in names:
        queue.submit(name, checkpoints=PLACE)
    queue.deliver()
    for name in names:
        queue.report(name, 1)
    for ticks in range(1, 5):
        queue.clock.set(queue.clock.now() + MIN)
        queue.manager.tick()
        assert queue.scripts.reads == 2 * ticks
    assert all(queue.job(name).reports for name in names)


def test_an_old_attempt_without_a_place_goes_on():
    """A job that ran when the queue was updated."""
    queue = world(stall_after=30 * MIN)
    job = queue.job("job1")
    bare = replace(job, attempt=replace(job.attempt, checkpoints=""))
    queue.store.decisions.commit([Change(before=job, after=bare)])
    queue.manager.tick()
    assert progress(queue) is None
    evict(queue)
    queue.later(3)
    assert queue.job("job1").state is JobState.PREEMPTED

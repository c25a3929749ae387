"""The manager with the real adapter and our training plane: verbs, crashes, refusals, races."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from slotq.local.training.virtual_runner import VirtualClock
from slotq_core.adapters.memory.jobs import MemoryJobs
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.errors import Conflict, NameTaken, NeverFits, Unavailable
from slotq_core.model.attempts import AttemptOutcome
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.reasons import BehindInLine
from slotq_core.names import training_job_name
from slotq_core.operations import status
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.operations.jobs import lookup
from slotq_core.ports.training import Observation, Phase
from tests.queue_world import INSTANCE_TYPE, QueueWorld, evicting, pool, request

LIFETIME = HANDLER_LIFETIME / 1000


def test_a_submitted_job_runs_and_completes():
    world = QueueWorld()
    status = world.submit("job1")
    assert (status.job.state, status.place, status.reason) == (JobState.PENDING, None, None)
    assert world.woken == 1
    status = world.manager.jobs.status("job1")
    assert (status.place, status.reason.code) == (1, "next_pass")
    world.deliver()
    assert world.states() == {"job1": "running"}
    world.later(100)
    (attempt,) = world.manager.jobs.status("job1").attempts
    assert world.states() == {"job1": "completed"}
    assert (attempt.training_job, attempt.outcome) == ("job1", AttemptOutcome.COMPLETED)
    assert attempt.artifact.startswith("s3://bucket/out/job1/")


def test_an_evicted_job_resumes_under_a_new_training_job_name():
    world = evicting()
    world.later(0)
    assert world.states() == {"job1": "preempted", "job2": "running"}
    world.later(100)
    assert world.states() == {"job1": "running", "job2": "completed"}
    assert set(world.training_jobs()) == {"job1", "job2", training_job_name("job1", 2)}
    first, second = world.manager.jobs.status("job1").attempts
    assert (first.outcome, first.stop.by) == (AttemptOutcome.EVICTED, "job2")
    assert second.training_job == training_job_name("job1", 2)


def test_the_same_submission_again_is_the_same_job():
    world = QueueWorld()
    first = world.submit("job1")
    assert world.submit("job1") == first
    world.deliver()
    assert world.submit("job1").job.state is JobState.RUNNING
    assert len(world.training_jobs()) == 1


def test_the_same_submission_is_known_though_its_pool_would_refuse_it_now():
    world = QueueWorld(pool(slots=4))
    first = world.submit("job1", slots=4)
    world.store.configuration.change([pool(slots=2)], who="test", now=world.clock.now())
    assert world.submit("job1", slots=4) == first
    with pytest.raises(NeverFits):
        world.submit("job2", slots=4)
    with pytest.raises(NameTaken, match="another job named 'job1' is pending"):
        world.submit("job1", slots=3)


def test_no_pass_is_asked_for_while_somebody_holds_the_lease():
    world = QueueWorld(pool(slots=3))
    now = world.clock.now()
    generation = world.store.scheduler.take_lease("another", now=now, until=now + 40_000)
    world.submit("job1")
    assert world.woken == 0
    assert not world.store.scheduler.end_lease("another", generation=generation)
    world.clock.set(now + 40_000)
    world.submit("job2")
    assert world.woken == 1, "the holder has died"


def test_an_event_calls_for_a_pass_if_decisions_may_change():
    world = QueueWorld()
    world.submit("job1")
    world.manager.passes.run()

    def calls(phase, **fields):
        seen = Observation(training_job="job1", phase=phase, at=world.clock.now(), **fields)
        return world.manager.observe(seen).calls_for_pass

    assert not calls(Phase.STARTING)
    assert not calls(Phase.STARTING, pending=True)
    health = world.store.health.pool("p").health
    world.store.health.set("p", replace(health, errors=1))
    assert calls(Phase.RUNNING), "the pool is well again"
    assert not calls(Phase.RUNNING)
    assert calls(Phase.COMPLETED)
    assert not calls(Phase.COMPLETED)


def test_an_event_that_confirms_a_create_calls_for_a_pass():
    """A victim may be evicted only once its create is confirmed."""
    world = QueueWorld()
    world.submit("job1")
    world.plane.knobs.lose_answers = 3
    world.manager.passes.run()
    seen = Observation(training_job="job1", phase=Phase.STARTING, at=world.clock.now())
    assert world.manager.observe(seen).calls_for_pass
    assert world.job("job1").attempt.created
    assert not world.manager.observe(seen).calls_for_pass


def test_places_are_listed_only_where_all_waiting_jobs_are_known(monkeypatch):
    for module in (lookup, status):
        monkeypatch.setattr(module, "MOST_LISTED", 3)
    world = QueueWorld()
    for number in range(3):
        world.submit(f"job{number}")
    world.manager.passes.run()
    assert [it.place for it in world.manager.jobs.statuses()] == [None, 1, 2]
    assert [it.place for it in world.manager.jobs.statuses([JobState.PENDING])] == [1, 2]
    world.submit("job3")
    world.submit("job4")
    listed = world.manager.jobs.statuses([JobState.PENDING])
    assert [it.place for it in listed] == [None] * 3
    head = world.manager.jobs.status("job1").reason.sentence()
    assert {it.reason.sentence() for it in listed} == {
        head,
        f"other jobs are ahead of it; job1, the first of its line, waits: {head}",
    }
    assert world.manager.jobs.status("job4").place == 4


def test_a_name_belongs_to_one_submission():
    world = QueueWorld()
    world.submit("job1")
    with pytest.raises(NameTaken, match="another job named 'job1' is pending"):
        world.submit("job1", priority=3)
    world.deliver()
    world.later(100)
    with pytest.raises(NameTaken, match=r"has ended \(completed\)"):
        world.submit("job1")


def test_a_foreign_training_job_of_that_name_fails_the_job_at_its_start():
    world = QueueWorld()
    world.client.create_training_job(**request("job1"))
    assert world.submit("job1").job.state is JobState.PENDING
    world.manager.passes.run()
    job = world.job("job1")
    assert (job.state, job.cause) == (JobState.FAILED, "name_taken")
    assert "not from this queue" in job.message
    assert world.training_jobs() == {"job1": "InProgress"}


def test_the_next_handler_finishes_a_create_with_a_lost_answer():
    world = QueueWorld()
    world.submit("job1")
    world.plane.knobs.lose_answers = 3
    world.manager.passes.run()
    assert world.job("job1").state is JobState.STARTING
    assert not world.job("job1").attempt.created
    world.plane.knobs.lose_answers = 0
    world.events.clear()
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)
    world.manager.passes.run()
    assert world.job("job1").attempt.created
    assert list(world.training_jobs()) == ["job1"]


def test_the_next_handler_sends_a_stop_that_was_never_sent():
    world = QueueWorld()
    world.submit("job1", priority=1)
    world.deliver()
    world.submit("job2", priority=2)
    world.plane.knobs.throttle = 1
    world.manager.passes.run()
    assert world.training_jobs() == {"job1": "InProgress"}
    world.later(1)
    assert world.job("job1").state is JobState.STOPPING
    world.later(LIFETIME)
    assert world.states() == {"job1": "preempted", "job2": "running"}


def test_a_missed_end_is_seen_when_the_stop_is_repeated():
    world = evicting()
    world.plane.knobs.lose_events = 100
    world.plane.advance()
    world.events.clear()
    job = world.job("job1")
    lost = replace(job.attempt, stop=replace(job.attempt.stop, sent=False))
    world.store.decisions.commit([_change(job, replace(job, attempt=lost))])
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)
    world.manager.passes.run()
    assert world.job("job1").state is JobState.PREEMPTED


def test_a_capacity_error_backs_the_pool_off_and_the_job_keeps_its_place():
    world = QueueWorld()
    world.submit("job1")
    world.plane.knobs.refuse_creates = 1
    world.deliver()
    job, until = world.job("job1"), world.clock.now() + 30_000
    assert (job.state, job.cause) == (JobState.PENDING, "no_capacity")
    assert "account-level service limit" in job.message
    reason = world.manager.jobs.status("job1").reason
    assert (reason.code, reason.until) == ("pool_backs_off", until)
    assert world.manager.passes.run().wake_at == until
    world.later(30)
    assert world.states() == {"job1": "running"}
    assert world.store.health.pool("p").health.errors == 0
    assert world.job("job1").entry_time == job.entry_time
    names = [attempt.training_job for attempt in world.manager.jobs.status("job1").attempts]
    assert names == ["job1", training_job_name("job1", 2)]


def test_a_late_capacity_error_does_the_same():
    world = QueueWorld()
    world.submit("job1")
    world.plane.knobs.fail_provisioning = 1
    world.deliver()
    assert world.states() == {"job1": "pending"}
    world.later(30)
    assert world.states() == {"job1": "running"}


def test_the_next_acceptable_pool_is_tried_during_a_back_off():
    world = QueueWorld(pool("p"), pool("q"))
    world.submit("job1")
    world.plane.knobs.refuse_creates = 1
    world.deliver()
    assert world.job("job1").attempt.pool == "q"


def test_after_a_back_off_one_job_at_a_time_probes_the_pool():
    world = QueueWorld(pool(slots=3))
    world.plane.knobs.refuse_creates = 1
    world.submit("low")
    world.deliver()
    world.submit("high", priority=1)
    world.submit("middle")
    world.plane.knobs.start_seconds = 20
    world.later(30)
    assert world.states() == {"high": "starting", "low": "pending", "middle": "pending"}
    assert world.manager.jobs.status("low").reason.code == "pool_is_probed"
    world.later(20)
    assert world.states() == {"high": "running", "low": "starting", "middle": "starting"}


def test_a_pending_probe_closes_its_pool_for_ten_minutes_only():
    world = QueueWorld(pool(slots=3))
    world.plane.knobs.refuse_creates = 1
    world.submit("first", priority=1)
    world.deliver()
    world.submit("second")
    world.plane.knobs.stick_pending = 1
    world.later(30)
    assert world.states() == {"first": "starting", "second": "pending"}
    assert world.manager.passes.run().wake_at == world.clock.now() + 600_000
    world.later(600)
    assert world.states() == {"first": "starting", "second": "running"}


def test_a_fault_of_sagemaker_backs_the_job_off():
    world = QueueWorld()
    world.submit("job1", retries="0")
    world.plane.knobs.fail_internally = 1
    world.deliver()
    job = world.job("job1")
    assert (job.state, job.not_before) == (JobState.BACKOFF, world.clock.now() + 30_000)
    assert world.manager.jobs.status("job1").reason.code == "backing_off"
    world.later(30)
    assert world.states() == {"job1": "running"}
    assert world.job("job1").faults == 0


def test_an_account_limit_below_the_pool_is_learned_and_retried_later():
    world = QueueWorld(pool(slots=4), runtime=10_000_000)
    world.plane.knobs.limits = {INSTANCE_TYPE: 2}
    for n in range(4):
        world.submit(f"job{n}")
    world.deliver()
    world.later(30)
    assert Counter(world.states().values()) == {"running": 2, "pending": 2}
    health = world.store.health.pool("p").health
    assert health.learned == 2
    assert "is 2 Instances" in health.message
    creates = world.plane.calls["CreateTrainingJob"]
    world.later(600)
    assert world.plane.calls["CreateTrainingJob"] == creates
    world.plane.knobs.limits = {}
    world.later(1800)
    world.later(600)
    assert Counter(world.states().values()) == {"running": 4}


def test_a_start_pending_too_long_goes_to_the_next_pool():
    world = QueueWorld(pool("p", pending_timeout=600_000), pool("q"))
    world.plane.knobs.stick_pending = 1
    world.submit("job1")
    world.deliver()
    assert world.states() == {"job1": "starting"}
    assert world.manager.passes.run().wake_at == world.clock.now() + 600_000
    world.later(600)
    assert world.states() == {"job1": "running"}
    assert world.job("job1").attempt.pool == "q"
    first, _ = world.manager.jobs.status("job1").attempts
    assert first.outcome is AttemptOutcome.NO_CAPACITY
    assert world.store.health.pool("p").health.errors == 1


def test_the_maximum_runtime_ends_the_job():
    world = QueueWorld(runtime=200_000_000)
    world.submit("job1", retries="3")
    world.deliver()
    world.later(86_400)
    job = world.job("job1")
    assert (job.state, job.cause) == (JobState.FAILED, "max_runtime")


def test_a_training_job_with_another_token_is_not_ours():
    world = QueueWorld()
    world.submit("job1")
    world.deliver()
    foreign = Observation(training_job="job1", phase=Phase.COMPLETED, at=0, token="another")
    world.manager.observe(foreign)
    assert world.states() == {"job1": "running"}


def test_a_rejected_request_fails_the_job_with_sagemakers_message():
    world = QueueWorld()
    world.submit("job1")
    world.plane.knobs.refuse_region = 1
    world.deliver()
    assert world.job("job1").state is JobState.FAILED
    assert "not available in this region" in world.job("job1").message


def test_repeated_late_and_foreign_events_change_nothing():
    world = evicting()
    world.later(0)
    before = world.job("job1"), world.job("job2")
    for phase in Phase:
        for name in ("job1", "nobody"):
            world.manager.observe(Observation(training_job=name, phase=phase, at=0))
    assert (world.job("job1"), world.job("job2")) == before


def test_a_stop_outside_the_queue_ends_the_job():
    world = QueueWorld()
    world.submit("job1")
    world.deliver()
    world.client.stop_training_job(TrainingJobName="job1")
    world.deliver()
    assert world.states() == {"job1": "stopped"}


def test_a_conflict_makes_the_pass_load_and_plan_again():
    world = QueueWorld(pool(slots=2))
    world.submit("job1")
    world.submit("job2")
    commit = world.store.decisions.commit
    refusals = iter([Conflict("someone was faster")] * 3)

    def contended(changes, *, seen=None, **_):
        for refusal in refusals:
            raise refusal
        return commit(changes, seen=seen)

    world.store.decisions.commit = contended
    world.deliver()
    assert world.states() == {"job1": "running", "job2": "running"}


def test_a_pass_that_uses_up_its_budget_requests_another():
    world = QueueWorld(pool(slots=5))
    for n in range(5):
        world.submit(f"job{n}")
    woken = world.woken
    slow_calls(world.clock, world)
    result = world.manager.passes.run()
    assert 0 < len(result.decisions) < 5
    assert world.woken == woken + 1
    world.manager.passes.run()
    assert len(world.training_jobs()) == 5


def test_a_large_eviction_takes_several_transactions():
    world = QueueWorld(pool(slots=50), store=MemoryStore(most_changes=20))
    for n in range(50):
        world.submit(f"small{n:02d}")
    world.deliver()
    world.submit("big", priority=1, slots=50)
    world.deliver()
    assert world.job("big").state is JobState.RUNNING
    assert {s for name, s in world.states().items() if name != "big"} == {"preempted"}


def test_the_list_is_in_queue_order():
    world = evicting()
    world.submit("job3", priority=9, slots=1)
    world.submit("job4", priority=1)
    world.manager.passes.run()
    listed = [(s.job.name, s.job.state.value, s.place) for s in world.manager.jobs.statuses()]
    assert listed == [
        ("job1", "stopping", None),
        ("job3", "pending", 1),
        ("job2", "pending", 2),
        ("job4", "pending", 3),
    ]
    head = world.manager.jobs.status("job4").reason
    assert head.code == "no_free_slots"
    world.submit("job5", priority=1)
    assert world.manager.jobs.status("job5").reason == BehindInLine(
        ahead=3, head="job4", head_waits=head
    )


def test_one_handler_serves_a_burst_of_submissions():
    world = QueueWorld(pool(slots=100))
    for n in range(50):
        world.submit(f"job{n:02d}")
    world.manager.passes.run(holder="one")
    assert set(world.states().values()) == {"starting"}
    assert (
        world.store.scheduler.take_lease("one", now=world.clock.now(), until=world.clock.now() + 1)
        == 50
    )
    busy = world.manager.passes.run(holder="two")
    assert (busy.busy, busy.decisions) == (True, ())


def test_later_passes_of_a_burst_find_nothing_to_do(monkeypatch):
    world = QueueWorld(pool(slots=100))
    for n in range(50):
        world.submit(f"job{n:02d}")
    looks, load = [], world.store.worlds.load

    def looking(now):
        looks.append(now)
        return load(now)

    monkeypatch.setattr(world.store.worlds, "load", looking)
    results = [world.manager.passes.run(holder=f"pass{n}", only_news=True) for n in range(50)]
    assert [result.busy for result in results] == [False] + [True] * 49
    assert len(looks) == 1, "after clean starts there is nothing to look at again"
    world.submit("more")
    assert world.manager.passes.run(holder="next", only_news=True).decisions


def test_a_failed_or_cut_pass_is_repeated_without_news():
    world = QueueWorld()
    world.submit("job1")
    assert world.manager.passes.run(holder="short", budget=0, only_news=True).unfinished
    load, world.store.worlds.load = world.store.worlds.load, refuse
    with pytest.raises(Unavailable):
        world.manager.passes.run(holder="fails", only_news=True)
    world.store.worlds.load = load
    assert world.manager.passes.run(holder="again", only_news=True).decisions


def refuse(_now):
    raise Unavailable("throttled")


def test_the_lease_holder_handles_news_during_its_pass():
    world = QueueWorld(pool(slots=2))
    world.submit("job1")
    submit_during(world, "create_training_job", "job2")
    world.manager.passes.run(holder="one")
    assert world.states() == {"job1": "starting", "job2": "starting"}


def test_a_dead_holders_lease_ends():
    world = QueueWorld()
    world.submit("job1")
    now = world.clock.now()
    assert world.store.scheduler.take_lease("dead", now=now, until=now + 40_000) is not None
    assert world.manager.passes.run(holder="next").busy
    world.clock.set(now + 40_000)
    world.manager.passes.run(holder="next")
    assert world.states() == {"job1": "starting"}


def test_trouble_with_one_job_does_not_stop_the_others():
    world = QueueWorld(pool(slots=2))
    world.submit("job1")
    world.submit("job2")
    request_of = world.store.jobs.request

    def unanswered(name):
        if name == "job1":
            raise Unavailable("no answer")
        return request_of(name)

    world.store.jobs.request = unanswered
    world.store.jobs.requests = lambda names: {}
    result = world.manager.passes.run()
    assert result.troubles == ("job1: no answer",)
    assert world.job("job2").attempt.created


def _change(before, after):
    from slotq_core.ports.stored import Change

    return Change(before=before, after=after)


def submit_during(world: QueueWorld, operation: str, name: str) -> None:
    """Submit another job, once, while the call is in flight."""
    call = getattr(world.client, operation)

    def raced(**asked):
        setattr(world.client, operation, call)
        world.submit(name)
        assert world.another_manager().passes.run(holder="two").busy
        return call(**asked)

    setattr(world.client, operation, raced)


def slow_calls(clock: VirtualClock, world: QueueWorld) -> None:
    """Every create takes ten seconds."""
    call = world.client.create_training_job

    def slow(**asked):
        clock.set(clock.now() + 10_000)
        return call(**asked)

    world.client.create_training_job = slow


def test_one_jobs_status_has_an_outlook_besides_the_reason():
    world = QueueWorld(pool("p", 1))
    world.submit("job1", priority=1)
    world.deliver()
    for name in ("job2", "job3"):
        world.submit(name, priority=1)
    world.deliver()
    last = world.manager.jobs.status("job3")
    assert (last.place, last.reason.code) == (2, "behind_in_line")
    (spared,) = last.outlook.spared
    assert (spared.code, spared.jobs) == ("no_lower_rank", ("job1",))
    assert last.outlook.rooms == world.manager.jobs.status("job2").outlook.rooms
    assert all(status.outlook is None for status in world.manager.jobs.statuses())
    assert world.manager.jobs.status("job1").outlook is None


def test_a_back_off_that_is_over_hides_no_reason():
    """The next pass ends it before anything else; until then the others are explained as well."""
    world = QueueWorld()
    world.plane.knobs.fail_internally = 1
    world.submit("job1")
    world.deliver()
    for name in ("job2", "job3"):
        world.submit(name)
        world.deliver()
    assert world.states() == {"job1": "backoff", "job2": "running", "job3": "pending"}
    backs_off_until = world.job("job1").not_before
    assert backs_off_until is not None
    world.clock.set(backs_off_until)
    first = world.manager.jobs.status("job3")
    assert (first.place, first.reason.code) == (1, "no_free_slots")
    listed = {it.job.name: it.reason for it in world.manager.jobs.statuses()}
    assert listed["job3"] == first.reason


class LaggingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.jobs: LaggingJobs = LaggingJobs(self._state, self.counters, self.groups)


class LaggingJobs(MemoryJobs):
    """Lists jobs as they were."""

    listed: tuple[Job, ...] = ()

    def in_states(self, states, *, limit=1000, projects=None):
        return self.listed or super().in_states(states, limit=limit, projects=projects)


def test_a_list_that_lags_shows_no_started_job_as_waiting():
    store = LaggingStore()
    world = QueueWorld(store=store)
    for name in ("job1", "job2"):
        world.submit(name)
    store.jobs.listed = store.jobs.in_states([JobState.PENDING])
    world.manager.passes.run()
    listed = [(it.job.name, it.job.state, it.place) for it in world.manager.jobs.statuses()]
    assert listed == [("job1", "starting", None), ("job2", "pending", 1)]
    (waits,) = world.manager.jobs.statuses([JobState.PENDING])
    assert (waits.job.name, waits.reason) == ("job2", world.manager.jobs.status("job2").reason)

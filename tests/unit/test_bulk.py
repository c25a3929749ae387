"""Many jobs changed in one request: an outcome for each, one wake, within the time of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.adapters.memory.decisions import MemoryDecisions
from slotq_core.adapters.memory.jobs import MemoryJobs
from slotq_core.adapters.memory.scheduler import MemoryScheduler
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.adapters.memory.worlds import MemoryWorlds
from slotq_core.errors import InvalidRequest, NoSuchJob, NotUnderstood, TooLate, Unavailable
from slotq_core.model.jobs import JobState
from slotq_core.operations import bulk
from slotq_core.operations.amend import Amendment, ChangeRequest, Retry, Revision
from slotq_core.operations.bulk import BUDGET, LARGEST_COMMIT, NotReached
from slotq_core.wire.submission import parse_submission
from tests.queue_world import QueueWorld, pool

CANCEL = None
HOLD = Amendment(held=True)
RELEASE = Amendment(held=False)


class Counting(MemoryScheduler):
    def __init__(self, calls: list[str]) -> None:
        super().__init__(lambda: 0)
        self._calls = calls

    def bump(self):
        self._calls.append("bump")
        return super().bump()


class SlowStore(MemoryStore):
    """Each commit takes this long (ms). The jobs in `odd` cannot be read; after `last` is read, the
    table is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.takes, self.odd, self.last, self.gone = 0, "", "", False
        self.world: Any = None
        self.meanwhile: Any = None
        self.calls: list[str] = []
        self.scheduler = Counting(self.calls)
        self.jobs = SlowJobs(self)
        self.decisions = SlowDecisions(self)
        self.worlds = SlowWorlds(self)

    def answer(self, call: str) -> None:
        self.calls.append(call)
        if self.gone:
            raise Unavailable("the table does not answer")


class SlowJobs(MemoryJobs):
    def __init__(self, store: SlowStore) -> None:
        super().__init__(store._state, store.counters, store.groups)
        self._store = store

    def submit(self, job, request, **how):
        kept = super().submit(job, request, **how)
        self._store.world.clock.set(self._store.world.clock.now() + self._store.takes)
        return kept

    def get(self, name):
        if name == self._store.odd:
            raise NotUnderstood(f"the record of job {name} cannot be read")
        self._store.gone = self._store.gone or name == self._store.last
        return super().get(name)


class SlowDecisions(MemoryDecisions):
    def __init__(self, store: SlowStore) -> None:
        super().__init__(store._state, store.usage, most_changes=1_000_000)
        self._store = store

    def commit(self, changes, *, seen=None, **how):
        self._store.answer("commit")
        if self._store.meanwhile is not None:
            meanwhile, self._store.meanwhile = self._store.meanwhile, None
            meanwhile()
        self._store.world.clock.set(self._store.world.clock.now() + self._store.takes)
        return super().commit(changes, seen=seen or {}, **how)


class SlowWorlds(MemoryWorlds):
    def __init__(self, store: SlowStore) -> None:
        super().__init__(store._state, store.configuration, store.groups, store.usage)
        self._store = store

    def load_all(self, now):
        self._store.answer("load_all")
        return super().load_all(now)

    def load(self, now):
        self._store.calls.append("load")
        return super().load(now)


@pytest.fixture
def world():
    """job0 runs; job1 to job9 wait."""
    store = SlowStore()
    store.world = world = QueueWorld(pool(slots=1), store=store)
    for number in range(10):
        world.submit(f"job{number}")
        world.deliver()
    world.woken = 0
    store.calls.clear()
    return world


def run(world, *wishes):
    return world.manager.bulk.run(
        [ChangeRequest(name=name, amendment=amendment) for name, amendment in wishes], by="eve"
    )


def all_of(world, amendment, numbers=range(10)):
    return run(world, *((f"job{number}", amendment) for number in numbers))


def test_each_outcome_is_as_in_a_request_for_one_job(world):
    outcomes = all_of(world, CANCEL)
    assert [it.name for it in outcomes] == [f"job{n}" for n in range(10)]
    assert [it.status.job.state for it in outcomes] == ["stopping", *["cancelled"] * 9]
    assert world.training_jobs() == {"job0": "Stopping"}
    world.deliver()
    assert set(world.states().values()) == {"cancelled"}


def test_many_jobs_cost_one_commit_one_bump_one_wake_and_no_plan(world):
    all_of(world, CANCEL)
    assert world.woken == 1
    stop_is_sent = "commit"
    assert world.store.calls == ["commit", stop_is_sent, "bump"]


def test_a_job_that_changes_meanwhile_gets_a_separate_commit(world):
    """So do the other jobs of its batch; none is lost."""
    world.store.meanwhile = lambda: world.manager.changes.amend("job5", HOLD, by="ann")
    outcomes = all_of(world, Amendment(held=True), range(1, 10))
    assert [it.error for it in outcomes] == [None] * 9
    assert {world.job(f"job{n}").state for n in range(1, 10)} == {JobState.HELD}


def test_only_the_job_that_is_too_late_is_refused(world):
    world.store.meanwhile = lambda: world.manager.changes.cancel("job5", by="ann")
    outcomes = all_of(world, Amendment(held=True), range(1, 10))
    assert [it.name for it in outcomes if it.error] == ["job5"]
    assert isinstance(outcomes[4].error, TooLate)


def test_large_requests_get_separate_transactions(world):
    def revise(request):
        revised = {**request, "Environment": {"a": "x" * (LARGEST_COMMIT // 3)}}
        submission, _ = parse_submission(request)
        return Revision(request=revised, before=submission, after=submission)

    all_of(world, Amendment(revise=revise), range(1, 3))
    assert world.store.calls.count("commit") == 1
    all_of(world, Amendment(revise=revise), range(3, 7))
    assert world.store.calls.count("commit") == 1 + 4


def test_the_answer_tells_states_and_reads_no_line(world):
    outcomes = all_of(world, Amendment(held=False), range(1, 10))
    assert {it.status.job.state for it in outcomes} == {JobState.PENDING}
    assert {it.status.place for it in outcomes} == {None}
    assert (world.store.calls, world.woken) == ([], 0), "nothing was changed"


def test_a_refused_job_does_not_stop_the_others(world):
    outcomes = run(
        world, ("job0", HOLD), ("nobody", HOLD), ("", CANCEL), ("job1", Amendment(give_up=7)),
        ("job2", HOLD),
    )  # fmt: skip
    kinds = [type(it.error) for it in outcomes]
    assert kinds == [TooLate, NoSuchJob, NoSuchJob, InvalidRequest, type(None)]
    assert world.job("job2").state is JobState.HELD


def test_an_unreadable_job_does_not_stop_the_others(world):
    world.store.odd = "job1"
    outcomes = all_of(world, CANCEL)
    assert isinstance(outcomes[1].error, NotUnderstood)
    assert [it.error for it in outcomes[2:]] == [None] * 8


def test_jobs_without_time_left_are_reported_and_can_be_sent_again(world, monkeypatch):
    monkeypatch.setattr(bulk, "JOBS_PER_COMMIT", 1)
    world.store.takes = BUDGET // 3
    outcomes = all_of(world, HOLD, range(1, 10))
    assert [it.error is None for it in outcomes] == [True] * 3 + [False] * 6
    assert all(isinstance(it.error, NotReached) for it in outcomes[3:])
    assert (world.woken, "load_all" in world.store.calls) == (1, False)
    again = all_of(world, HOLD, range(1, 10))
    assert [it.error is None for it in again] == [True] * 6 + [False] * 3, "three cost nothing"


def retries(*names):
    def renamed(request, name):
        return parse_submission({**request, "TrainingJobName": name})

    return [
        ChangeRequest(name=name, amendment=None, retry=Retry(renamed=renamed)) for name in names
    ]


def test_retries_for_which_there_is_no_time_can_be_sent_again(world):
    all_of(world, CANCEL, range(1, 10))
    world.store.takes, world.woken = BUDGET // 3, 0
    wishes = retries(*(f"job{n}" for n in range(1, 10)))
    outcomes = world.manager.bulk.run(wishes, by="ann")
    assert [it.error is None for it in outcomes] == [True] * 3 + [False] * 6
    assert all(isinstance(it.error, NotReached) for it in outcomes[3:])
    assert world.woken == 1
    again = world.manager.bulk.run(wishes, by="ann")
    assert [it.status.job.name for it in again[:6]] == [f"job{n}-r2" for n in range(1, 7)]


def test_a_retry_stops_no_attempt(world):
    (outcome,) = world.manager.bulk.run(retries("job0"), by="ann")
    assert isinstance(outcome.error, InvalidRequest)
    assert world.training_jobs() == {"job0": "InProgress"}


def test_each_request_makes_progress_with_a_slow_table(world, monkeypatch):
    monkeypatch.setattr(bulk, "JOBS_PER_COMMIT", 1)
    world.store.takes = 2 * BUDGET
    outcomes = all_of(world, HOLD, (5, 6))
    assert [it.error is None for it in outcomes] == [True, False]


def test_outcomes_are_reported_when_the_table_stops_answering(world, monkeypatch):
    monkeypatch.setattr(bulk, "JOBS_PER_COMMIT", 2)
    world.store.last = "job3"
    outcomes = all_of(world, HOLD, range(1, 6))
    assert [it.error is None for it in outcomes] == [True, True, False, False, False]
    assert world.woken == 1


def test_a_request_without_any_outcome_fails_like_a_single_one(world):
    world.store.gone = True
    with pytest.raises(Unavailable):
        all_of(world, HOLD, (1, 2))
    assert world.woken == 0


def test_a_repeated_request_changes_nothing(world):
    all_of(world, CANCEL)
    world.store.calls.clear()
    world.woken = 0
    assert [it.error for it in all_of(world, CANCEL)] == [None] * 10
    assert (world.store.calls, world.woken) == ([], 0)


def test_a_job_in_another_state_than_selected_is_left_alone(world):
    """job0 was waiting when selected and runs by now."""
    wishes = [
        ChangeRequest(name=f"job{n}", amendment=CANCEL, states=frozenset({JobState.PENDING}))
        for n in range(3)
    ]
    for _ in ("first", "again"):
        outcomes = world.manager.bulk.run(wishes, by="eve")
        assert "job0 is now running, not pending" in str(outcomes[0].error)
        assert [it.error for it in outcomes[1:]] == [None, None]
    assert world.job("job0").state is JobState.RUNNING


def test_two_changes_of_one_job_are_applied_in_order(world):
    first, second = run(world, ("job4", HOLD), ("job4", RELEASE))
    assert (first.status.job.state, second.status.job.state) == ("held", "pending")

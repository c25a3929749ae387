"""Many jobs changed in one request: an outcome for each, one wake, within an answer's time."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.errors import InvalidRequest, NoSuchJob, NotUnderstood, TooLate, Unavailable
from slotq_core.model.jobs import JobState
from slotq_core.operations import bulk
from slotq_core.operations.amend import Amendment, Revision, Wish
from slotq_core.operations.bulk import BUDGET, LARGEST_COMMIT, NotReached
from slotq_core.wire.submission import parse_submission
from tests.queue_world import QueueWorld, pool

CANCEL = None
HOLD = Amendment(held=True)
RELEASE = Amendment(held=False)


class SlowStore(MemoryStore):
    """Each commit takes so long (ms). What is kept of `odd` cannot be understood; when `last` is
    read, the table has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.takes, self.odd, self.last, self.gone = 0, "", "", False
        self.world: Any = None
        self.meanwhile: Any = None
        self.calls: list[str] = []

    def commit(self, changes, *, seen=None):
        self.calls.append("commit")
        self._answer()
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        self.world.clock.set(self.world.clock.now() + self.takes)
        return super().commit(changes, seen=seen or {})

    def job(self, name):
        if name == self.odd:
            raise NotUnderstood(f"the record of job {name} cannot be read")
        self.gone = self.gone or name == self.last
        return super().job(name)

    def load_all(self, now):
        self.calls.append("load_all")
        self._answer()
        return super().load_all(now)

    def load(self, now):
        self.calls.append("load")
        return super().load(now)

    def bump(self):
        self.calls.append("bump")
        super().bump()

    def _answer(self) -> None:
        if self.gone:
            raise Unavailable("the table does not answer")


@pytest.fixture
def world():
    """job0 runs, job1 to job9 wait."""
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
        [Wish(name=name, amendment=amendment) for name, amendment in wishes], by="eve"
    )


def all_of(world, amendment, numbers=range(10)):
    return run(world, *((f"job{number}", amendment) for number in numbers))


def test_each_is_as_if_it_had_been_asked_for_alone(world):
    outcomes = all_of(world, CANCEL)
    assert [it.name for it in outcomes] == [f"job{n}" for n in range(10)]
    assert [it.status.job.state for it in outcomes] == ["stopping", *["cancelled"] * 9]
    assert world.training_jobs() == {"job0": "Stopping"}
    world.deliver()
    assert set(world.states().values()) == {"cancelled"}


def test_many_cost_one_commit_one_bump_one_wake_and_no_plan(world):
    all_of(world, CANCEL)
    assert world.woken == 1
    stop_is_sent = "commit"
    assert world.store.calls == ["commit", stop_is_sent, "bump"]


def test_a_job_that_changes_meanwhile_takes_a_commit_of_its_own(world):
    """As do the others of its batch; none is lost."""
    world.store.meanwhile = lambda: world.manager.amend("job5", HOLD, by="ann")
    outcomes = all_of(world, Amendment(held=True), range(1, 10))
    assert [it.error for it in outcomes] == [None] * 9
    assert {world.job(f"job{n}").state for n in range(1, 10)} == {JobState.HELD}


def test_one_that_is_too_late_by_then_is_refused_alone(world):
    world.store.meanwhile = lambda: world.manager.cancel("job5", by="ann")
    outcomes = all_of(world, Amendment(held=True), range(1, 10))
    assert [it.name for it in outcomes if it.error] == ["job5"]
    assert isinstance(outcomes[4].error, TooLate)


def test_large_requests_take_transactions_of_their_own(world):
    def revise(request):
        revised = {**request, "Environment": {"a": "x" * (LARGEST_COMMIT // 3)}}
        submission, _ = parse_submission(request)
        return Revision(request=revised, before=submission, after=submission)

    all_of(world, Amendment(revise=revise), range(1, 3))
    assert world.store.calls.count("commit") == 1
    all_of(world, Amendment(revise=revise), range(3, 7))
    assert world.store.calls.count("commit") == 1 + 4


def test_the_line_is_read_once_for_those_that_wait(world):
    outcomes = all_of(world, Amendment(held=False), range(1, 10))
    assert [it.status.place for it in outcomes] == list(range(1, 10))
    assert outcomes[3].status.reason is not None
    assert (world.store.calls, world.woken) == (["load_all"], 0), "nothing was changed"


def test_one_that_is_refused_stops_none_of_the_others(world):
    outcomes = run(
        world, ("job0", HOLD), ("nobody", HOLD), ("", CANCEL), ("job1", Amendment(give_up=7)),
        ("job2", HOLD),
    )  # fmt: skip
    kinds = [type(it.error) for it in outcomes]
    assert kinds == [TooLate, NoSuchJob, NoSuchJob, InvalidRequest, type(None)]
    assert world.job("job2").state is JobState.HELD


def test_what_cannot_be_read_stops_none_of_the_others(world):
    world.store.odd = "job1"
    outcomes = all_of(world, CANCEL)
    assert isinstance(outcomes[1].error, NotUnderstood)
    assert [it.error for it in outcomes[2:]] == [None] * 8


def test_what_there_is_no_time_for_is_said_and_can_be_sent_again(world, monkeypatch):
    monkeypatch.setattr(bulk, "JOBS_PER_COMMIT", 1)
    world.store.takes = BUDGET // 3
    outcomes = all_of(world, HOLD, range(1, 10))
    assert [it.error is None for it in outcomes] == [True] * 3 + [False] * 6
    assert all(isinstance(it.error, NotReached) for it in outcomes[3:])
    assert (world.woken, "load_all" in world.store.calls) == (1, False)
    again = all_of(world, HOLD, range(1, 10))
    assert [it.error is None for it in again] == [True] * 6 + [False] * 3, "three cost nothing"


def test_each_request_comes_further_however_slow_the_table(world, monkeypatch):
    monkeypatch.setattr(bulk, "JOBS_PER_COMMIT", 1)
    world.store.takes = 2 * BUDGET
    outcomes = all_of(world, HOLD, (5, 6))
    assert [it.error is None for it in outcomes] == [True, False]


def test_a_table_that_stops_answering_ends_it_and_what_was_done_is_heard_of(world, monkeypatch):
    monkeypatch.setattr(bulk, "JOBS_PER_COMMIT", 2)
    world.store.last = "job3"
    outcomes = all_of(world, HOLD, range(1, 6))
    assert [it.error is None for it in outcomes] == [True, True, False, False, False]
    assert world.woken == 1


def test_where_nothing_at_all_can_be_done_the_request_fails_as_a_single_one_does(world):
    world.store.gone = True
    with pytest.raises(Unavailable):
        all_of(world, HOLD, (1, 2))
    assert world.woken == 0


def test_the_same_again_changes_nothing(world):
    all_of(world, CANCEL)
    world.store.calls.clear()
    world.woken = 0
    assert [it.error for it in all_of(world, CANCEL)] == [None] * 10
    assert (world.store.calls, world.woken) == ([], 0)


def test_what_has_moved_on_since_it_was_chosen_is_left_alone(world):
    """job0 was seen to wait, and runs by now."""
    wishes = [
        Wish(name=f"job{n}", amendment=CANCEL, states=frozenset({JobState.PENDING}))
        for n in range(3)
    ]
    for _ in ("first", "again"):
        outcomes = world.manager.bulk.run(wishes, by="eve")
        assert "job0 is now running, not pending" in str(outcomes[0].error)
        assert [it.error for it in outcomes[1:]] == [None, None]
    assert world.job("job0").state is JobState.RUNNING


def test_two_wishes_for_one_job_are_taken_in_their_order(world):
    first, second = run(world, ("job4", HOLD), ("job4", RELEASE))
    assert (first.status.job.state, second.status.job.state) == ("held", "pending")

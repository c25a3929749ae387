"""A decision that is refused for ever is put away: a pass ends, says so, and goes on with the
rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.memory.decisions import MemoryDecisions
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.adapters.memory.worlds import MemoryWorlds
from slotq_core.errors import ConditionFalse, Unavailable
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Claim, Job, JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.configuring.moving import Mover
from slotq_core.policy.lines import line_of
from slotq_core.policy.plan import EndBackoff, Found, Need, Start, nothing_more
from slotq_core.policy.setbacks import MOST_ALIKE, MOST_REFUSALS, PutAway, Setbacks, without
from slotq_core.ports.stored import Change, Part, World
from tests.contract.worlds import NOW, a_job, a_pool, an_attempt
from tests.queue_world import QueueWorld, pool

ENDLESS = 200
"""More loads than any pass here needs."""


class Refusing(MemoryStore):
    """A store that refuses to change some jobs, or to decide about some pools, for ever."""

    def __init__(self, *, jobs: Sequence[str] = (), pools: Sequence[str] = ()) -> None:
        super().__init__()
        self.refuses, self.closed = {*jobs}, frozenset(pools)
        self.worlds = CountedWorlds(self._state, self.configuration, self.groups, self.usage)
        self.decisions = RefusedDecisions(self)


class CountedWorlds(MemoryWorlds):
    loads = 0

    def load(self, now: int) -> World:
        self.loads += 1
        assert self.loads < ENDLESS, "the pass does not end"
        return super().load(now)


class RefusedDecisions(MemoryDecisions):
    commits = 0

    def __init__(self, store: Refusing) -> None:
        super().__init__(store._state, store.usage, most_changes=1_000_000)
        self._store = store

    def commit(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int] | None = None,
        group_decisions: int | None = None,
        part: Part | None = None,
        **how: Any,
    ) -> tuple[Job, ...]:
        self.commits += 1
        assert self.commits < ENDLESS, "the commits do not end"
        wrong = self._store.closed.intersection(seen or ())
        if wrong or any(change.before.name in self._store.refuses for change in changes):
            raise ConditionFalse("no condition holds", pools=frozenset(wrong))
        return super().commit(changes, seen=seen, group_decisions=group_decisions, part=part, **how)


def states(world: QueueWorld, *names: str) -> list[JobState]:
    found = [world.store.jobs.get(name) for name in names]
    return [job.state for job in found if job is not None]


def test_a_job_that_no_commit_can_change_stops_no_other():
    world = QueueWorld(pool(slots=2), store=Refusing(jobs=["a"]))
    for name in "abc":
        world.submit(name)
    result = world.manager.passes.run()
    assert states(world, "a", "b", "c") == [JobState.PENDING, JobState.STARTING, JobState.STARTING]
    (trouble,) = result.troubles
    assert "Start a" in trouble and "put away" in trouble
    assert not result.unfinished
    assert [(kind, subject) for kind, subject, _ in world.letters] == [("decision", "Start a")]


def test_the_next_pass_tries_again():
    store = Refusing(jobs=["a"])
    world = QueueWorld(store=store)
    world.submit("a")
    world.manager.passes.run()
    store.refuses.clear()
    assert not world.manager.tick().troubles
    assert states(world, "a") == [JobState.STARTING]


def test_a_pool_whose_ledger_refuses_every_decision_stops_no_other_pool():
    """Whatever is decided there: a start, an eviction. Jobs that accept another pool go there."""
    store = Refusing()
    other = replace(pool("q"), instance_type="ml.p4d.24xlarge")
    world = QueueWorld(pool("p", slots=1), other, store=store)
    world.submit("low", pools="p")
    world.manager.passes.run()
    store.closed = frozenset({"p"})
    for name in ("high", "high2"):
        world.submit(name, priority=5, pools="p")
    world.submit("x", pools="p,q")
    result = world.manager.passes.run()
    assert len(result.troubles) == 1
    assert states(world, "low", "high", "high2", "x") == [
        JobState.STARTING,
        JobState.PENDING,
        JobState.PENDING,
        JobState.STARTING,
    ]


def test_a_job_that_cannot_be_moved_to_another_project_is_given_up():
    """Its transaction is refused, and so is one of its own."""
    store = Refusing()
    world = QueueWorld(store=store)
    world.submit("a")
    job = world.store.jobs.get("a")
    assert job is not None
    store.decisions.commit([Change(before=job, after=replace(job, project="old"))])
    store.refuses.add("a")
    with pytest.raises(Unavailable, match="keeps changing"):
        Mover(store, world.clock).move("old", "new", by="ann")


def refusals(setbacks: Setbacks, error: Exception, jobs: Sequence[Job]) -> int:
    """How often a decision is refused before it is put away."""
    for number, job in enumerate(jobs, 1):
        if setbacks.refused(Start(job=job, pool="p5"), error, seen={"p5": 1}, number=0):
            return number
    return 0


def test_a_race_is_told_from_what_can_never_be():
    job = a_job("a", version=1)
    changing = [replace(job, version=number) for number in range(1, 100)]
    assert refusals(Setbacks(), ConditionFalse("no"), [job] * 100) == MOST_ALIKE
    assert refusals(Setbacks(), ConditionFalse("no"), changing) == MOST_REFUSALS


def test_a_job_put_away_keeps_its_slots_and_its_line_goes_on():
    held = a_job("held", state=JobState.RUNNING)
    held = replace(held, attempt=an_attempt(held))
    claim = Claim(pool="p5", amount=Demand(slots=1), since=NOW)
    first, claimant = a_job("a"), a_job("claimant", claim=claim)
    behind = [a_job(name, entry_time=NOW + at) for at, name in enumerate("bcd", 1)]
    snapshot = Snapshot(
        pools=(a_pool("p5", 5),),
        active=(held,),
        waiting=(first, claimant),
        behind={"a": 3},
    )

    def more(need: Need) -> Found:
        left = [job for job in behind if job.entry_time > need.after.entry_time]
        return Found(jobs=tuple(left[:1]), behind=len(left) - 1)

    away = PutAway(jobs=frozenset({"a", "b", "held", "claimant"}))
    left, answers = without(snapshot, away, more)
    assert line_of(first) == line_of(behind[0])
    assert ([job.name for job in left.waiting], left.behind) == (["c"], {"c": 1})
    assert left.active == ()
    assert left.pools[0].foreign == Demand(slots=2)
    assert [job.name for job in answers(Need(after=behind[1], count=5)).jobs] == ["d"]


def test_a_group_is_put_away_whole():
    first, second, other = a_job("a", group="g"), a_job("b", group="g"), a_job("c")
    snapshot = Snapshot(
        pools=(a_pool(),),
        waiting=(first, other),
        due=(second,),
        groups=(Group(name="g", members=("a", "b")),),
    )
    setbacks = Setbacks()
    for _ in range(MOST_ALIKE):
        setbacks.refused(EndBackoff(job=second), ConditionFalse("no"), seen={}, number=0)
    left, _ = without(snapshot, setbacks.away, nothing_more)
    assert (left.waiting, left.due, left.groups) == ((other,), (), ())

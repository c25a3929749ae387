"""A plan from lower bounds of lines decides what a plan with every job decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.jobs import Job
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.jobs.explanation import explained_list, settled
from slotq_core.policy.cycle import plan
from slotq_core.policy.lines import Line, WaitingLine, by_user, first_read, in_lines
from slotq_core.policy.plan import Found, Need, Plan
from slotq_core.ports.stored import World
from slotq_core.storage.snapshots import stand_in
from tests.property import node_worlds, test_flow, test_time_sharing
from tests.property.first_jobs import plan_from_first_jobs
from tests.property.test_everything import worlds
from tests.property.worlds import NOW, snapshots

EARLIER = [0, 1, 1_000, 60_000, 10**9]
"""How far a bound lies below the entry time of its line's first job (ms)."""


class Lines:
    """Which lines have been read, and what a store answers."""

    def __init__(self, everything: Snapshot, earlier: Callable[[], int]) -> None:
        self.everything = everything
        self.asked: list[str] = []
        self._lines: dict[str, WaitingLine] = {}
        self._groups = {group.name: group for group in everything.groups}
        self._earlier = earlier

    def snapshot(self) -> Snapshot:
        apart = by_user(self.everything)
        waiting: list[Job] = []
        behind: dict[str, int] = {}
        for number, line in enumerate(in_lines(self.everything.waiting, by_user=apart)):
            if not self._stands_alone(line):
                waiting += line.jobs
                continue
            first = line.jobs[0]
            key = Line.of(first, by_user=apart)
            job = self._stand_in(key, number, first)
            waiting.append(job)
            behind[job.name] = len(line) - 1
            self._lines[job.name] = line
        unread = frozenset(self._lines)
        return replace(self.everything, waiting=tuple(waiting), behind=behind, unread=unread)

    def more(self, need: Need) -> Found:
        self.asked.append(need.after.name)
        for name, line in self._lines.items():
            names = [name, *(job.name for job in line.jobs)]
            if need.after.name in names:
                begin = names.index(need.after.name)
                return Found(
                    jobs=tuple(line.jobs[begin : begin + 1]), behind=len(names) - begin - 2
                )
        raise AssertionError(need)

    def _stand_in(self, key: Line, number: int, first: Job) -> Job:
        earlier = self._earlier()
        name = first.name if not earlier else ""
        return stand_in(key, number, entry_time=first.entry_time - earlier, name=name)

    def _stands_alone(self, line: WaitingLine) -> bool:
        """Whether a bound is enough: not for gangs, jobs over several pools and refused jobs."""
        first = line.jobs[0]
        needed = first_read(Line.of(first), self.everything.pools, self._groups)
        alone = first.claim is None and not first.group and not first.refused_in
        return alone and needed == 1


def check(everything: Snapshot, now: int, earlier: Callable[[], int]) -> None:
    lines = Lines(everything, earlier)
    found = plan(lines.snapshot(), now, more=lines.more)
    expected = plan(everything, now)
    assert found.decisions == expected.decisions
    assert found.reasons.items() <= expected.reasons.items()


@given(snapshots(), st.data())
def test_bounds_are_enough_to_plan_by(everything: Snapshot, data: st.DataObject) -> None:
    check(everything, NOW, lambda: data.draw(st.sampled_from(EARLIER)))


@given(snapshots(), st.data())
def test_a_list_of_every_job_explains_what_a_plan_with_every_job_explains(
    everything: Snapshot, data: st.DataObject
) -> None:
    lines = Lines(everything, lambda: data.draw(st.sampled_from(EARLIER)))
    world = World(snapshot=lines.snapshot(), ledgers={}, more=lines.more)
    found = explained_list(world, NOW, everything.waiting, everything.waiting)
    expected = plan(settled(everything, NOW), NOW)
    assert found.decisions == expected.decisions
    assert dict(found.reasons) == dict(expected.reasons)
    assert lines.asked == []


@given(worlds())
def test_exact_bounds_are_enough_where_shares_exist(scenario: Scenario) -> None:
    """With projects, users, time slices and moves; a line's stand-in knows how many wait. A bound
    below the first job's place would only change the order of projects that are equally
    deprived."""

    def watch(everything: Snapshot, planned: Plan, now: int) -> None:
        check(everything, now, lambda: 0)

    simulate(scenario, watch=watch)


@given(test_time_sharing.worlds() | test_time_sharing.of_one_user())
def test_exact_bounds_are_enough_where_users_have_limits(scenario: Scenario) -> None:
    """A line names the class that a demoted job had at first; its stand-in counts in the same
    classes."""

    def watch(everything: Snapshot, planned: Plan, now: int) -> None:
        check(everything, now, lambda: 0)

    simulate(scenario, watch=watch)


@given(test_flow.worlds(scheduler=test_flow.settings, grouped=False), st.data())
def test_bounds_are_enough_where_attempts_are_counted(
    scenario: Scenario, data: st.DataObject
) -> None:
    """A line that `max_jobs` keeps back is not read; one whose attempt fails is."""

    def watch(everything: Snapshot, planned: Plan, now: int) -> None:
        check(everything, now, lambda: data.draw(st.sampled_from(EARLIER)))

    simulate(scenario, watch=watch)


NODE_WORLDS = (
    node_worlds.worlds()
    | node_worlds.worlds(with_limits=True)
    | node_worlds.worlds(shared=True)
    | node_worlds.worlds(sliced=True)
)


@given(NODE_WORLDS, st.data())
def test_bounds_are_enough_where_nodes_run_jobs(
    world: node_worlds.World, data: st.DataObject
) -> None:
    earlier = st.sampled_from(EARLIER if not world.projects else [0])
    for _ in range(4):
        check(world.snapshot(), world.now, lambda: data.draw(earlier))
        alone = plan_from_first_jobs(world.snapshot(), world.now)
        assert alone.decisions == plan(world.snapshot(), world.now).decisions
        world.settle()
        world.tick()

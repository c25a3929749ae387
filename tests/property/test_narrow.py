"""After a turn, only the blocked jobs that it may have helped are asked again (turn/revisit.py).

"After a decision the walk begins anew": the naive way asks everybody. Between projects, a job that
is asked again in vain counts as its project's next job and so changes whose turn it is. There, each
narrowing is compared with a way that asks more people but in vain nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.jobs import Job
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy import cycle
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import steps
from slotq_core.policy.plan import Decision, DropClaim, Evict, Move, Plan, TryLater
from slotq_core.policy.turn.revisit import Revisit
from slotq_core.policy.turn.steps import Steps
from slotq_core.policy.turn.turn_order import Head
from tests.property import (
    test_consolidation,
    test_everything,
    test_flow,
    test_gangs,
    test_moves_and_limits,
    test_projects,
    test_resources,
    test_time_sharing,
)
from tests.property.in_vain import stopped
from tests.property.worlds import NOW, snapshots

MOST_PLANS = 100
"""In one moment, in worlds of at most twenty jobs."""

without_projects = st.one_of(
    test_consolidation.crowded(),
    test_everything.worlds().filter(lambda scenario: not scenario.projects),
    test_flow.worlds(),
    test_gangs.worlds(),
    test_time_sharing.worlds().filter(lambda scenario: not scenario.projects),
)
with_projects = st.one_of(
    test_everything.worlds(),
    test_moves_and_limits.worlds(),
    test_projects.worlds(),
    test_resources.worlds(),
    test_time_sharing.worlds(),
).filter(lambda scenario: bool(scenario.projects))


class AsksEverybody(Revisit):
    """Asks all blocked jobs again after each turn. Those that gave up a claim in this plan have no
    further turn."""

    def helped(self, job: Job) -> list[Head]:
        return [head for head in self._blocked.everyone() if not self._gave_up(head.job)]

    def _gave_up(self, job: Job) -> bool:
        gang = self._state.gangs.get(job.group)
        jobs = gang.in_service_order if gang and not gang.runs else [job]
        return any(each.name in self._state.decided.dropped for each in jobs)


class AsksOnceMore(AsksEverybody):
    """Asks all blocked jobs once more when no turn is left, until that serves none."""

    asked = -1

    def helped(self, job: Job) -> list[Head]:
        return Revisit.helped(self, job)

    def at_the_end(self) -> list[Head]:
        heads = super().at_the_end()
        served = len(self._state.decided.decisions) + len(self._state.held_in)
        if heads or served == self.asked:
            return heads
        self.asked = served
        return [head for head in self._blocked.everyone() if not self._gave_up(head.job)]


class AsksAtOpenGatesAtOnce(Revisit):
    def helped(self, job: Job) -> list[Head]:
        return self._together(super().helped(job), self._at_open_gates())

    def _together(self, *found: Iterable[Head]) -> list[Head]:
        heads = {head.place: head for each in found for head in each}
        return [head for head in heads.values() if self._has_prospects(head.job)]


class AsksForSurplusAtOnce(AsksAtOpenGatesAtOnce):
    def helped(self, job: Job) -> list[Head]:
        return self._together(Revisit.helped(self, job), self._with_surplus())


class ProvesItself(Revisit):
    """Tries each blocked job that is not asked again. A turn would bring it nothing, unless it
    takes slots from other projects: who may do that is asked at the end."""

    def helped(self, job: Job) -> list[Head]:
        asked = Revisit.helped(self, job)
        if self._state.decided.dropped:
            return asked  # A plan that gives up claims decides only that.
        for head in self._blocked.everyone():
            if head not in asked:
                assert not self._would_be_served(head.job), head.job.name
        return asked

    def _would_be_served(self, job: Job) -> bool:
        """Whether a turn now would decide something for the job without a reclaim."""
        state = self._state
        decided, before = state.decided.decisions, state.journal.checkpoint()
        known, lost = dict(decided), len(state.lost)
        served = cycle._visit(Steps(state, self._rules), job)
        new = [each for name, each in decided.items() if known.get(name) is not each]
        losers = [loss.job for loss in state.lost[lost:]]
        losers += [victim for each in new for victim in _victims(each)]
        state.journal.rollback(before)
        return served and bool(new) and all(each.project == job.project for each in losers)


def _victims(decision: Decision) -> tuple[Job, ...]:
    return stopped(decision) if isinstance(decision, Evict | Move) else ()


def planned_by(asking: type[Revisit], snapshot: Snapshot, now: int) -> Plan:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cycle, "Revisit", asking)
        return plan(snapshot, now)


def at_rest(asking: type[Revisit], snapshot: Snapshot, now: int) -> list[tuple[object, ...]]:
    """Where the jobs are once the plans of this moment have nothing left to decide."""
    pools = {pool.name: pool for pool in snapshot.pools}
    for _ in range(MOST_PLANS):
        decisions = planned_by(asking, snapshot, now).decisions
        jobs = {job.name: job for job in (*snapshot.active, *snapshot.waiting)}
        if not decisions:
            return sorted((name, job.state, job.attempt, job.claim) for name, job in jobs.items())
        for decision in decisions:
            jobs |= {after.name: after for _, after in steps(decision, pools, now)}
        snapshot = replace(
            snapshot,
            active=tuple(job for job in jobs.values() if job.active),
            waiting=tuple(job for job in jobs.values() if job.waits),
        )
    raise AssertionError("the moment does not end")


def decided(planned: Plan) -> list[Decision]:
    """What is decided, in its order, but for the tries that failed (FLARE's attempts). Who is asked
    again in vain may meanwhile be blocked by a limit, and such a turn is no try; the try that the
    plan has made counts in any case
    (docs/policy-decisions.md#where-asking-every-job-again-would-differ)."""
    return [each for each in planned.decisions if not isinstance(each, TryLater)]


def same_plans(scenario: Scenario, asking: type[Revisit]) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        if planned.decisions:  # Else no turn has helped anybody.
            assert decided(planned_by(asking, snapshot, now)) == decided(planned), now

    simulate(scenario, watch)


@given(snapshots() | snapshots().map(test_consolidation.moving))
def test_asking_everybody_again_decides_the_same(snapshot: Snapshot) -> None:
    """A plan that gives up claims decides only that, and the next plan of the moment the rest: then
    what counts is where the jobs are at its end."""
    decisions = plan(snapshot, NOW).decisions
    if any(isinstance(decision, DropClaim) for decision in decisions):
        assert at_rest(AsksEverybody, snapshot, NOW) == at_rest(Revisit, snapshot, NOW)
    else:
        assert planned_by(AsksEverybody, snapshot, NOW).decisions == decisions


@given(without_projects)
def test_asking_everybody_again_decides_the_same_over_time(scenario: Scenario) -> None:
    same_plans(scenario, AsksEverybody)


@given(with_projects)
def test_whom_a_turn_helps_is_asked_again(scenario: Scenario) -> None:
    same_plans(scenario, ProvesItself)


@given(with_projects)
def test_nobody_is_left_whom_another_turn_would_serve(scenario: Scenario) -> None:
    """Or the next plan of the same moment serves them: both ways, the moment ends alike."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        if planned_by(AsksOnceMore, snapshot, now).decisions != planned.decisions:
            assert at_rest(AsksOnceMore, snapshot, now) == at_rest(Revisit, snapshot, now), now

    simulate(scenario, watch)


def sweeps_are_of_one_project(scenario: Scenario) -> bool:
    """Else a start in between may use up the sweep's limit
    (docs/policy-decisions.md#tried-on-random-worlds)."""
    bounded = {group.name for group in scenario.groups if group.max_parallel}
    members = {(job.group, job.project) for job in scenario.jobs if job.group in bounded}
    return len(members) == len({group for group, _ in members})


@pytest.mark.parametrize("asking", [AsksAtOpenGatesAtOnce, AsksForSurplusAtOnce])
@given(with_projects.filter(sweeps_are_of_one_project))
def test_asking_at_the_end_is_asking_at_once(asking: type[Revisit], scenario: Scenario) -> None:
    same_plans(scenario, asking)

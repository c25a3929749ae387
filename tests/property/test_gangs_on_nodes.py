"""The promises of gangs whose members take GPUs of nodes, on random worlds."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.projects import ShareStatus
from slotq_core.policy.cycle import plan
from slotq_core.policy.explain.share_status import share_statuses
from slotq_core.policy.plan import (
    EndNode,
    Evict,
    LeaveOut,
    NodeEnd,
    Plan,
    Start,
    StartGang,
    StartNode,
)
from tests.property.node_worlds import GPUS, World, check_in_any_order, worlds
from tests.property.test_nodes import run


@given(worlds(with_gangs=True))
def test_every_gang_runs_to_its_end_whole(world: World) -> None:
    """No GPU twice; all or none, at each start and each eviction (`World.check`)."""
    made = run(world)
    _check_who_others_are_stopped_for(made, world)
    _check_nodes_begun(made, world)
    for job in world.jobs.values():
        large = all(
            job.demand.slots > pool.capacity.slots for pool in world.pools if pool.name in job.pools
        )
        assert job.terminal or large, (job.name, job.group, job.state)
    for group in world.groups.values():
        done = [name for name in group.members if world.jobs[name].state is JobState.COMPLETED]
        assert len(done) >= (group.min_members or len(group.members)), group.name


@given(worlds(with_gangs=True, with_projects=True))
def test_gangs_keep_the_promises_between_projects(world: World) -> None:
    run(world)


@given(worlds(with_gangs=True, with_limits=True))
def test_gangs_keep_the_limits_of_projects(world: World) -> None:
    run(world)


@given(worlds(with_gangs=True, shared=True))
def test_gangs_on_nodes_that_projects_share(world: World) -> None:
    """All or none; no GPU twice; no quota exceeded that is a limit; no two jobs evict each other in
    turn, since the world comes to rest. Who others are stopped for starts, or comes too late for a
    gang that runs."""
    evicted_for: set[str] = set()
    served: set[str] = set()
    for planned in run(world):
        for each in planned.decisions:
            if isinstance(each, Evict):
                evicted_for |= {each.beneficiary.name, *(job.name for job, _ in each.along)}
            elif isinstance(each, Start | StartGang):
                starts = each.starts if isinstance(each, StartGang) else (each,)
                served |= {start.job.name for start in starts}
            elif isinstance(each, LeaveOut):
                served.add(each.job.name)
    assert evicted_for <= served


@given(worlds(with_gangs=True, shared=True))
def test_gangs_reclaim_only_within_a_share_from_above_one(world: World) -> None:
    """A gang that others are reclaimed for has, with all that it is owed, at most the fair share of
    its project. It takes whole nodes of one project, or instances, and no GPUs of shared nodes."""
    for _ in range(12):
        snapshot = world.snapshot()
        shares = {each.name: each for each in share_statuses(snapshot, world.now)}
        planned = plan(snapshot, world.now)
        given_so_far: dict[str, float] = {}
        for each in planned.decisions:
            if isinstance(each, Evict) and each.beneficiary.group in world.groups:
                _check_a_gangs_reclaim(each, shares, given_so_far)
            elif isinstance(each, Start | StartGang):
                for start in each.starts if isinstance(each, StartGang) else (each,):
                    name = start.job.project
                    given_so_far[name] = given_so_far.get(name, 0) + _slots(start.job)
        world.settle()
        world.tick()


def _check_a_gangs_reclaim(
    evict: Evict, shares: dict[str, ShareStatus], given_so_far: dict[str, float]
) -> None:
    members = [evict.beneficiary, *(job for job, _ in evict.along)]
    mine = evict.beneficiary.project
    others = [victim for victim in evict.victims if victim.project != mine]
    if not others:
        return
    with_it = shares[mine].held + given_so_far.get(mine, 0) + sum(map(_slots, members))
    assert with_it <= shares[mine].share + 0.01, (shares[mine], evict)
    ended = {(node.pool, node.name) for node in evict.nodes}
    for victim in others:
        assert victim.attempt is not None
        place = victim.attempt.pool, victim.attempt.node
        assert not victim.attempt.node or place in ended or victim.group, evict
        theirs = shares[victim.project]
        held = theirs.held + given_so_far.get(victim.project, 0)
        assert held > min(theirs.share, theirs.quota), (theirs, evict)


def _slots(job: Job) -> float:
    """What the job counts where projects share nodes."""
    return job.gpus / (WHOLE * GPUS) if job.gpus else job.demand.slots


def _check_who_others_are_stopped_for(made: list[Plan], world: World) -> None:
    """Nothing is evicted, and no node ended, unless the job or the gang for whose sake starts
    before any of the victims."""
    waits_for: dict[str, str] = {}
    ended_for: set[str] = set()
    for planned in made:
        for each in planned.decisions:
            if isinstance(each, Evict):
                waits_for |= {victim.name: each.beneficiary.name for victim in each.victims}
            elif isinstance(each, EndNode) and each.cause is NodeEnd.NEEDED:
                ended_for.add(each.by)
            elif isinstance(each, Start | StartGang):
                starts = each.starts if isinstance(each, StartGang) else (each,)
                started = {start.job.name for start in starts}
                assert not started & waits_for.keys(), (started, waits_for)
                waits_for = {v: b for v, b in waits_for.items() if b not in started}
                ended_for -= started
            elif isinstance(each, StartNode | LeaveOut):  # Or its gang has ended meanwhile.
                ended_for.discard(each.job.name)
        done = {job.name for job in world.jobs.values() if job.terminal}
        waits_for = {v: b for v, b in waits_for.items() if v not in done and b not in done}
    assert not waits_for and not ended_for


def _check_nodes_begun(made: list[Plan], world: World) -> None:
    """No more nodes than starts of jobs on nodes, and members whose gang ended before the node that
    they were to join it on was ready."""
    starts = 0
    for planned in made:
        for each in planned.decisions:
            if isinstance(each, Start | StartGang):
                began = each.starts if isinstance(each, StartGang) else (each,)
                starts += sum(start.node is not None for start in began)
            elif isinstance(each, LeaveOut) and each.job.claim:
                starts += 1
    assert world.begun <= starts


@given(worlds(with_gangs=True, with_projects=True), st.randoms(use_true_random=False))
def test_the_same_world_in_any_order_gives_the_same_plan(world: World, rng: random.Random) -> None:
    check_in_any_order(world, rng)


@given(worlds(with_gangs=True, with_projects=True))
def test_what_people_read_names_jobs_and_never_the_stand_in_of_a_node(world: World) -> None:
    for _ in range(4):
        world.settle()
        snapshot = world.snapshot()
        for job in snapshot.waiting:
            planned = plan(snapshot, world.now, job)
            assert planned.outlook is not None
            text = repr((planned.outlook, dict(planned.reasons)))
            assert all(f"/{name}'" not in text for _, name in world.nodes)
        world.tick()

"""The promises of jobs on nodes, on random worlds from their first plan to their end."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job
from slotq_core.model.pools import PoolState
from slotq_core.model.projects import EVERYWHERE, ShareStatus
from slotq_core.policy.cycle import plan
from slotq_core.policy.explain.share_status import share_statuses
from slotq_core.policy.order import rank
from slotq_core.policy.plan import (
    EndNode,
    Evict,
    Move,
    NodeEnd,
    Plan,
    Start,
    StartGang,
    StartNode,
)
from tests.property.first_jobs import plan_from_first_jobs
from tests.property.node_worlds import GPUS, World, busy_worlds, check_in_any_order, worlds

MOST_TICKS = 150


def run(world: World) -> list[Plan]:
    """All plans until nothing is left to do, each checked."""
    made: list[Plan] = []
    for _ in range(MOST_TICKS):
        made += world.settle()
        world.check()
        has_come = all(at <= world.now for at in world.comes.values())
        if has_come and not world.nodes and not any(job.active for job in world.jobs.values()):
            break
        world.tick()
        world.check()
    else:
        raise AssertionError("the world does not come to rest")
    return made


@given(worlds())
def test_every_job_runs_to_its_end_and_no_gpu_is_given_twice(world: World) -> None:
    """Promises 1 and 2; no two tenants share a node."""
    run(world)
    for job in world.jobs.values():
        large = all(
            job.demand.slots > pool.capacity.slots for pool in world.pools if pool.name in job.pools
        )
        assert job.terminal or large, (job.name, job.state)


@given(worlds(with_projects=True))
def test_the_same_holds_between_projects(world: World) -> None:
    run(world)


@given(worlds(shared=True))
def test_where_projects_share_nodes_who_others_are_stopped_for_starts(world: World) -> None:
    """Nothing is evicted, and no node ended, unless the job for whose sake then starts; no two jobs
    evict each other in turn, since the world comes to rest."""
    evicted_for: set[str] = set()
    started: set[str] = set()
    for planned in run(world):
        for each in planned.decisions:
            if isinstance(each, Evict):
                evicted_for.add(each.beneficiary.name)
            elif isinstance(each, Start):
                started.add(each.job.name)
    assert evicted_for <= started


@given(busy_worlds(shared=True))
def test_gpus_are_reclaimed_only_within_a_share_from_above_one(
    busy: tuple[World, list[Job]],
) -> None:
    """Whoever takes GPUs of others on a node has, with them, at most its fair share. Each project
    that loses some had more than its share or its quota."""
    world, late = busy
    for _ in range(2):
        world.settle()
        world.tick()
    world.come(late)
    for _ in range(12):
        snapshot = world.snapshot()
        shares = {each.name: each for each in share_statuses(snapshot, world.now)}
        planned = plan(snapshot, world.now)
        started = Counter[str]()
        for each in planned.decisions:
            if isinstance(each, Start):
                started[each.job.project] += each.job.gpus or each.job.demand.slots * WHOLE * GPUS
            elif isinstance(each, Evict) and each.claim.node:
                _check_a_reclaim(each, shares, started)
        world.settle()
        world.tick()


def _check_a_reclaim(evict: Evict, shares: dict[str, ShareStatus], started: Counter[str]) -> None:
    others = {victim.project for victim in evict.victims} - {evict.beneficiary.project}
    if not others:
        return
    mine, node = shares[evict.beneficiary.project], WHOLE * GPUS
    with_it = mine.held * node + started[mine.name] + evict.beneficiary.gpus
    assert with_it <= mine.share * node + 0.1, (mine, evict)
    for theirs in (shares[name] for name in others):
        held = theirs.held * node + started[theirs.name]
        assert held > min(theirs.share, theirs.quota) * node, (theirs, evict)


@given(worlds(sliced=True))
def test_users_take_turns_on_nodes(world: World) -> None:
    """Jobs yield on one node to another user's job of the same rank, past their slice, and it then
    starts. The world comes to rest."""
    yielded_to: set[str] = set()
    started: set[str] = set()
    for planned in run(world):
        for each in planned.decisions:
            if isinstance(each, Start):
                started.add(each.job.name)
            elif isinstance(each, Evict) and each.cause is StopCause.YIELDED and each.claim.node:
                yielded_to.add(each.beneficiary.name)
                _check_a_turn(each, world)
    assert yielded_to <= started


def _check_a_turn(evict: Evict, world: World) -> None:
    to, slices = evict.beneficiary, {pool.name: pool.time_slice for pool in world.pools}
    for victim in evict.victims:
        assert victim.attempt is not None and victim.attempt.running_since is not None
        assert victim.attempt.node == evict.claim.node
        assert victim.checkpoints and victim.evictable and victim.person != to.person
        assert rank(victim) == rank(to) and victim.project == to.project
        ran_for = evict.claim.since - victim.attempt.running_since
        assert ran_for >= (slices[victim.attempt.pool] or 0)


@given(worlds(with_limits=True))
def test_no_project_holds_more_than_its_limit_and_its_jobs_run(world: World) -> None:
    """A job on a node counts its GPUs; all who fit under the limit alone run to their end."""
    run(world)
    for job in world.jobs.values():
        (project,) = (each for each in world.projects if each.name == job.project)
        most = project.limit.get(EVERYWHERE, {}).get("slots", 9)
        sizes = [pool.capacity.slots for pool in world.pools if pool.name in job.pools]
        assert job.terminal or not job.evictable or job.demand.slots > min(most, max(sizes))


@given(worlds(with_limits=True))
def test_under_limits_who_others_are_stopped_for_starts(world: World) -> None:
    started: set[str] = set()
    evicted_for: set[str] = set()
    for planned in run(world):
        for each in planned.decisions:
            if isinstance(each, Evict | Move):
                evicted_for.add(each.beneficiary.name)
            elif isinstance(each, Start):
                started.add(each.job.name)
    assert evicted_for <= started


@given(worlds())
def test_nodes_are_not_started_and_ended_in_turn(world: World) -> None:
    """Each node starts for a job that then runs: no more nodes than starts of such jobs."""
    made = run(world)
    starts = sum(
        isinstance(each, Start) and each.node is not None for p in made for each in p.decisions
    )
    assert world.begun <= starts


@given(worlds())
def test_who_others_are_stopped_for_starts_before_they_do(world: World) -> None:
    """Nothing is evicted, and no node ended, unless the job for whose sake then starts: in a world
    where no job comes or goes, before any of the victims."""
    waits_for: dict[str, str] = {}
    ended_for: set[str] = set()
    moves_for: set[str] = set()
    for planned in run(world):
        for each in planned.decisions:
            if isinstance(each, Evict):
                waits_for |= {victim.name: each.beneficiary.name for victim in each.victims}
            elif isinstance(each, Move):
                moves_for.add(each.beneficiary.name)
            elif isinstance(each, EndNode) and each.cause is NodeEnd.NEEDED:
                ended_for.add(each.by)
            elif isinstance(each, Start):
                assert each.job.name not in waits_for, (each.job.name, waits_for)
                waits_for = {v: b for v, b in waits_for.items() if b != each.job.name}
                moves_for.discard(each.job.name)
                ended_for.discard(each.job.name)
            elif isinstance(each, StartNode):
                ended_for.discard(each.job.name)
        done = {job.name for job in world.jobs.values() if job.terminal}
        waits_for = {v: b for v, b in waits_for.items() if v not in done}
    assert not waits_for and not ended_for and not moves_for


@given(worlds(with_projects=True), st.randoms(use_true_random=False))
def test_the_same_world_in_any_order_gives_the_same_plan(world: World, rng: random.Random) -> None:
    check_in_any_order(world, rng)


@given(busy_worlds())
def test_jobs_that_come_later_evict_on_their_gpus_and_start(
    busy: tuple[World, list[Job]],
) -> None:
    world, late = busy
    for _ in range(3):
        world.settle()
        world.tick()
    world.come(late)
    evicted_for, started = set[str](), set[str]()
    for planned in run(world):
        for each in planned.decisions:
            if isinstance(each, Evict):
                evicted_for.add(each.beneficiary.name)
                if each.claim.node:
                    _check_on_one_node(each.beneficiary, each)
            elif isinstance(each, Start):
                started.add(each.job.name)
    assert evicted_for <= started


@given(worlds(with_projects=True))
def test_the_first_jobs_of_each_line_are_enough(world: World) -> None:
    for _ in range(6):
        now = world.now
        first = plan_from_first_jobs(world.snapshot(), now)
        assert first.decisions == plan(world.snapshot(), now).decisions
        world.settle()
        world.tick()


@given(busy_worlds())
def test_victims_on_a_node_are_on_one_node_and_of_lower_rank(
    busy: tuple[World, list[Job]],
) -> None:
    world, late = busy
    for number in range(8):
        if number == 2:
            world.come(late)
        for planned in world.settle():
            for each in planned.decisions:
                if isinstance(each, Evict) and each.claim.node:
                    _check_on_one_node(each.beneficiary, each)
        world.tick()


@settings(max_examples=40)
@given(st.one_of(worlds(with_gangs=True), worlds(shared=True)), st.randoms(use_true_random=False))
def test_nothing_starts_in_a_pool_that_is_paused_or_drained(
    world: World, rng: random.Random
) -> None:
    states = [PoolState.ACTIVE, PoolState.ACTIVE, PoolState.PAUSED, PoolState.DRAINED]
    for _ in range(14):
        world.pools = tuple(replace(pool, state=rng.choice(states)) for pool in world.pools)
        able = {pool.name for pool in world.pools if pool.state is PoolState.ACTIVE}
        for planned in world.settle():
            for each in planned.decisions:
                if isinstance(each, Start | StartNode):
                    assert each.pool in able
                elif isinstance(each, StartGang):
                    assert {start.pool for start in each.starts} <= able
                elif isinstance(each, Evict | Move):
                    assert each.claim.pool in able
        world.check()
        world.tick()


@given(worlds(with_projects=True))
def test_what_people_read_names_jobs_and_never_the_stand_in_of_a_node(world: World) -> None:
    for _ in range(6):
        world.settle()
        snapshot = world.snapshot()
        for job in snapshot.waiting:
            planned = plan(snapshot, world.now, job)
            assert planned.outlook is not None
            text = repr((planned.outlook, dict(planned.reasons)))
            assert all(f"/{name}'" not in text for _, name in world.nodes)
            for spared in planned.outlook.spared:
                assert {*spared.jobs} <= world.jobs.keys() and spared.sentence()
        world.tick()


def _check_on_one_node(job: Job, evict: Evict) -> None:
    assert {v.attempt.node for v in evict.victims if v.attempt} == {evict.claim.node}
    held = [set(v.attempt.gpus_held) for v in evict.victims if v.attempt]
    gpus = set(evict.claim.gpu_ids)
    assert len(gpus) == max(1, job.gpus // WHOLE)
    assert all(gpus & victim for victim in held), (gpus, held)
    for victim in evict.victims:
        assert victim.tenant == job.tenant and victim.evictable and rank(victim) < rank(job)

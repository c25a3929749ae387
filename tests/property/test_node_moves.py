"""The promises when jobs move from node to node, on random worlds from their first plan to the
end."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.jobs import Claim, Job, JobState
from slotq_core.model.nodes import NodeState
from slotq_core.model.projects import EVERYWHERE
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import DropClaim, Evict, Move, Plan, Start
from tests.property.node_worlds import GPUS, World, scattered

MOST_TICKS = 150

Made = list[tuple[Snapshot, Plan]]


def run(world: World, *, ticks: int = MOST_TICKS) -> Made:
    """The plans until nothing is left to do, each with the world it was made for."""
    made: Made = []
    for _ in range(ticks):
        for _ in range(3 * len(world.jobs) + 3):
            snapshot = world.snapshot()
            planned = plan(snapshot, world.now)
            made.append((snapshot, planned))
            if not planned.decisions:
                break
            world.carry_out(planned)
            world.check()
        else:
            raise AssertionError("the plan does not settle")
        if not world.nodes and not any(job.active for job in world.jobs.values()):
            break
        world.tick()
        world.check()
    return made


def moves(planned: Plan) -> list[Move]:
    return [decision for decision in planned.decisions if isinstance(decision, Move)]


@given(scattered())
def test_jobs_move_from_one_node_to_gpus_that_are_free(world: World) -> None:
    """All at once, and only those that may: running, evictable, past their `min_runtime`, and not
    of the same user and rank."""
    for snapshot, planned in run(world):
        for move in moves(planned):
            check_move(snapshot, move)


def check_move(snapshot: Snapshot, move: Move) -> None:
    nodes = {node.name: node for node in snapshot.nodes}
    (source,) = {mover.attempt.node for mover, _ in move.moved if mover.attempt}
    free = {name: [WHOLE] * GPUS for name in nodes}
    for job in snapshot.active:
        for index, amount in job.attempt.gpus_held.items() if job.attempt else ():
            free[job.attempt.node][index] -= amount if job.attempt else 0
    for mover, claim in move.moved:
        assert mover.state is JobState.RUNNING and mover.evictable and mover.attempt
        fellow = (mover.project, mover.person, mover.priority)
        waits = move.beneficiary
        assert fellow != (waits.project, waits.person, waits.priority)
        assert claim.moved and claim.node != source and claim.pool == mover.attempt.pool
        assert nodes[claim.node].state is NodeState.READY
        assert nodes[claim.node].tenant == mover.tenant
        for index in claim.gpu_ids:
            free[claim.node][index] -= mover.gpus % WHOLE or WHOLE
            assert free[claim.node][index] >= 0
    if move.nodes:
        left = [job for job in snapshot.active if job.attempt and job.attempt.node == source]
        running = {job.name for job in left if job.state is not JobState.STOPPING}
        assert running == {mover.name for mover, _ in move.moved}
        assert [node.name for node in move.nodes] == [source] and not move.claim.node
    else:
        assert move.claim.node == source and move.beneficiary.tenant == nodes[source].tenant


@given(scattered())
def test_jobs_of_others_move_only_for_a_job_within_its_share(world: World) -> None:
    for snapshot, planned in run(world):
        started: list[Job] = []
        for decision in planned.decisions:
            if isinstance(decision, Move):
                waits = decision.beneficiary
                if any(mover.project != waits.project for mover, _ in decision.moved):
                    check_share(snapshot, [*started, waits])
            if not isinstance(decision, Start):
                break
            started.append(decision.job)


def check_share(snapshot: Snapshot, more: list[Job]) -> None:
    """Check that the last one's project, with these jobs of it, holds no more than the largest
    share that it can have: it asks for everything."""
    (pool,) = snapshot.pools
    by_job = pool.nodes is not None and pool.nodes.shared
    held, asked = Counter[str](), Counter[str]()
    nodes = {}
    for job in (*snapshot.active, *snapshot.waiting):
        amount = (by_job and job.gpus) or GPUS * WHOLE
        if job.state is JobState.STOPPING:
            continue
        if by_job or not job.gpus:
            asked[job.project] += amount
            held[job.project] += amount * job.active
        elif job.attempt:
            nodes[job.attempt.node] = job.project
    for project in nodes.values():
        asked[project] += GPUS * WHOLE
        held[project] += GPUS * WHOLE
    name = more[-1].project
    for job in more:
        if by_job or not job.gpus:
            held[job.project] += (by_job and job.gpus) or GPUS * WHOLE
    assert held[name] <= largest_share(snapshot, name, asked), (name, held, asked)


def largest_share(snapshot: Snapshot, name: str, asked: Counter[str]) -> float:
    """The fair share of one of two projects, in hundredths of a GPU, if it asks for everything and
    the other one for so much."""
    unit = GPUS * WHOLE
    total = snapshot.pools[0].capacity.slots * unit
    quotas = {each.name: each.quota[EVERYWHERE].slots * unit for each in snapshot.projects}
    (other,) = quotas.keys() - {name}
    wants = min(asked[other], total)
    share, theirs = min(quotas[name], total), min(quotas[other], wants)
    surplus = max(0, total - share - theirs)
    weights = quotas if any(quotas.values()) else dict.fromkeys(quotas, 1)
    mine, whole = weights[name], sum(weights.values())
    part = surplus * mine / whole
    rest = max(0, surplus - (wants - theirs)) if mine else 0
    return share + max(part, rest) + 1


@given(scattered())
def test_who_jobs_move_for_starts_and_they_start_where_they_went(world: World) -> None:
    """No move is undone: the beneficiary starts on what it was promised, before a job that moved
    for it leaves its destination, and each starts only there."""
    expected: dict[str, Claim] = {}
    for _, planned in run(world):
        for decision in planned.decisions:
            if isinstance(decision, Move):
                assert decision.beneficiary.name not in expected, "moved for twice"
                expected[decision.beneficiary.name] = decision.claim
                expected |= {mover.name: claim for mover, claim in decision.moved}
            elif isinstance(decision, Start):
                claim = expected.pop(decision.job.name, None)
                if claim and claim.node:
                    assert decision.node and decision.node.name == claim.node
                    assert not claim.moved or decision.gpu_ids == claim.gpu_ids
            elif isinstance(decision, Evict):
                assert not any(victim.name in expected for victim in decision.victims)
            elif isinstance(decision, DropClaim):
                assert not (decision.job.claim and decision.job.claim.moved)
    for name in expected:
        assert world.jobs[name].terminal, name


@given(scattered())
def test_a_world_that_stands_still_comes_to_rest(world: World) -> None:
    """No ping-pong: where no job ends, moves and evictions end, too."""
    run(world, ticks=4)
    world.left = dict.fromkeys(world.jobs, 10_000)
    run(world, ticks=12)
    later = run(world, ticks=20)
    decided = [each for _, planned in later for each in planned.decisions]
    assert not [each for each in decided if isinstance(each, Move | Evict | Start)]

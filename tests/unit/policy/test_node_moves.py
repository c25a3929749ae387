"""Jobs that move from node to node: for each rule a world in which it applies, and the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.model import reasons
from slotq_core.model.demand import NOTHING
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Claim, Job
from slotq_core.model.nodes import NodeState
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import PriorityClass, User
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import steps
from slotq_core.policy.plan import Move
from tests.unit.policy.test_nodes import (
    HOUR,
    Case,
    asks,
    claims,
    limited,
    node,
    nodes_pool,
    on,
    quota,
    said,
)
from tests.unit.policy.test_reasons import NOW, runs, starts, stops, waits

SHARED = NodeRules(gpus=4, keep=60_000, shared=True)


def moving(slots: int = 2, **fields: Any) -> Pool:
    return nodes_pool(slots, consolidate=True, **fields)


def moved_to(name: str, gpus: int, at: str, **fields: Any) -> Job:
    """A job that has moved to the node and waits for its GPUs there."""
    claim = Claim(pool="p", node=at, amount=NOTHING, since=NOW - 1, moved=True)
    return asks(name, gpus, claim=claim, **fields)


def part_on(job: Job, amount: int, at: str = "n1") -> Job:
    """The active job with so many hundredths of the node's first GPU."""
    placed = on(job, at)
    return replace(placed, gpus=amount, attempt=replace(placed.attempt, gpu_part=amount))


TWO = (node(), node("n2"))
SCATTERED = (
    on(runs("a"), first=1),
    on(runs("b"), "n2", first=2),
    on(runs("c"), "n2", first=3),
)
"""One GPU in use on n1, two on n2."""
OTHERS = tuple(replace(job, project="other") for job in SCATTERED)

CASES = [
    Case(
        sentence="a job that fits no node moves the jobs of one node to others",
        pools=(moving(),),
        nodes=TWO,
        active=SCATTERED,
        waiting=(asks("big", 4),),
        decided=["move a to n2 for big at n1"],
        waits={"big": reasons.NodeComing},
    ),
    Case(
        sentence="not in a pool without `consolidate`",
        pools=(nodes_pool(),),
        nodes=TWO,
        active=SCATTERED,
        waiting=(asks("big", 4),),
        waits={"big": reasons.NoGpusFree},
    ),
    Case(
        sentence="nothing moves where an instance is free: a node starts, and no job stops",
        pools=(moving(3),),
        nodes=TWO,
        active=SCATTERED,
        waiting=(asks("big", 4),),
        decided=["begin node-1 for big"],
    ),
    Case(
        sentence="nothing moves where GPUs come free",
        pools=(moving(),),
        nodes=TWO,
        active=(on(stops("a"), first=1), *SCATTERED[1:]),
        waiting=(asks("big", 4),),
        waits={"big": reasons.NodeComing},
    ),
    Case(
        sentence="jobs move before a lower rank is evicted",
        pools=(moving(),),
        nodes=TWO,
        active=SCATTERED,
        waiting=(asks("big", 4, priority=9),),
        decided=["move a to n2 for big at n1"],
    ),
    Case(
        sentence="a job of lower rank moves a higher one, which loses no place",
        pools=(moving(),),
        nodes=TWO,
        active=tuple(replace(job, priority=5) for job in SCATTERED),
        waiting=(asks("big", 4),),
        decided=["move a to n2 for big at n1"],
    ),
    Case(
        sentence="those that have lost least move, on whatever node",
        pools=(moving(),),
        nodes=TWO,
        active=(
            on(runs("a", since=50_000)),
            on(runs("b", since=50_000), first=1),
            on(runs("c", since=90_000), "n2"),
            on(runs("d"), "n2", first=1),
        ),
        waiting=(asks("big", 3),),
        decided=["move d to n1 for big at n2"],
    ),
    Case(
        sentence="a part that moves frees its GPU whole",
        pools=(moving(),),
        nodes=TWO,
        active=(part_on(runs("a"), 60), part_on(runs("b"), 50, "n2")),
        waiting=(asks("big", 4),),
        decided=["move b to n1 for big at n2"],
    ),
    Case(
        sentence="the start elsewhere counts, too: of jobs with little to lose the smaller moves",
        pools=(moving(),),
        nodes=TWO,
        active=(
            on(runs("a", since=1_000), gpus=3),
            on(runs("b", since=4_000), "n2"),
        ),
        waiting=(asks("big", 4),),
        decided=["move b to n1 for big at n2"],
    ),
    Case(
        sentence="of jobs that lose the same, those move that were evicted least often",
        pools=(moving(),),
        nodes=TWO,
        active=(on(replace(runs("a"), evictions=2)), on(replace(runs("b"), evictions=1), "n2")),
        waiting=(asks("big", 4),),
        decided=["move b to n1 for big at n2"],
    ),
    Case(
        sentence="they need not all fit on one node",
        pools=(moving(3),),
        nodes=(*TWO, node("n3")),
        active=(
            on(runs("a")),
            on(runs("b"), first=1),
            on(runs("c", preemptible=False), "n2", gpus=3),
            on(runs("d", preemptible=False), "n3", gpus=3),
        ),
        waiting=(asks("big", 4),),
        decided=["move b to n3 a to n2 for big at n1"],
    ),
    Case(
        sentence="but all at once: no chain of moves",
        pools=(moving(3),),
        nodes=(*TWO, node("n3")),
        active=(
            on(runs("a"), gpus=2),
            on(runs("c", preemptible=False), "n2", gpus=3),
            on(runs("d", preemptible=False), "n3", gpus=3),
        ),
        waiting=(asks("big", 4),),
        waits={"big": reasons.NoGpusFree},
    ),
    Case(
        sentence="they move to GPUs that are free, not to those that come free",
        pools=(moving(),),
        nodes=TWO,
        active=(
            on(runs("a"), first=1),
            on(stops("s"), "n2"),
            on(runs("b", preemptible=False), "n2", first=1, gpus=3),
        ),
        waiting=(asks("big", 4),),
        waits={"big": reasons.NoGpusFree},
    ),
    Case(
        sentence="nor to a node that starts, or to GPUs that another job claims",
        pools=(moving(3),),
        nodes=(*TWO, node("n3", state=NodeState.STARTING)),
        active=(on(runs("a"), first=1), on(runs("b", preemptible=False), "n2", gpus=3)),
        waiting=(claims("c", 1, "n2", since=2), claims("d", 1, "n3", since=2), asks("big", 4)),
        decided=["start c on n2 3"],
        waits={"big": reasons.NoGpusFree},
    ),
    Case(
        sentence="a job that is not preemptible, or whose start has no answer, stays",
        pools=(moving(),),
        nodes=TWO,
        active=(
            on(runs("a", preemptible=False), first=1),
            on(starts("b"), "n2"),
        ),
        waiting=(asks("big", 4),),
        waits={"big": reasons.NoGpusFree},
    ),
    Case(
        sentence="so does one inside its `min_runtime`, until that is over",
        pools=(moving(min_runtime=20_000),),
        nodes=TWO,
        active=SCATTERED,
        waiting=(asks("big", 4),),
        waits={"big": reasons.NoGpusFree},
        wake_at=NOW + 10_000,
    ),
    Case(
        sentence="and a job of the same user and rank",
        pools=(moving(),),
        nodes=TWO,
        active=tuple(replace(job, person="ann") for job in SCATTERED),
        waiting=(asks("big", 4, person="ann"),),
        waits={"big": reasons.NoGpusFree},
    ),
    Case(
        sentence="no job moves to a node that leaves before the job ends",
        pools=(moving(),),
        nodes=(node(), node("n2", ran=100 * HOUR, leaves_at=NOW + HOUR)),
        active=(
            replace(on(runs("a"), first=1), longest_attempt=2 * HOUR),
            replace(on(runs("b"), "n2", gpus=2), longest_attempt=HOUR),
        ),
        waiting=(asks("big", 3, longest_attempt=2 * HOUR),),
        decided=["start big on n1 0,2,3"],
    ),
    Case(
        sentence="nor is room made on a node that leaves before the waiting job ends",
        pools=(moving(),),
        nodes=(node(ran=100 * HOUR, leaves_at=NOW + HOUR), node("n2")),
        active=(on(runs("a", longest_attempt=HOUR)), on(runs("b"), "n2", gpus=2)),
        waiting=(asks("big", 4, longest_attempt=2 * HOUR),),
        decided=["move a to n2 for big at p with n1"],
    ),
    Case(
        sentence="who waits for a destination gets it, and no job takes it over",
        pools=(moving(),),
        nodes=TWO,
        active=(on(runs("r", preemptible=False), gpus=3), on(runs("s"), "n2", gpus=3)),
        waiting=(moved_to("m", 1, "n2", since=1), asks("high", 1, priority=9)),
        decided=["start high on n1 3", "start m on n2 3"],
    ),
    Case(
        sentence="not even one of higher rank",
        pools=(moving(1),),
        nodes=(node(),),
        active=(on(runs("r", preemptible=False), gpus=3),),
        waiting=(moved_to("m", 1, "n1", since=1), asks("high", 1, priority=9)),
        decided=["start m on n1 3"],
        waits={"high": reasons.NoGpusFree},
    ),
    Case(
        sentence="its GPUs are kept while it stops",
        pools=(moving(1),),
        nodes=(node(),),
        active=(
            on(runs("r", preemptible=False), gpus=3),
            replace(on(stops("m"), "n9"), claim=moved_to("m", 1, "n1").claim),
        ),
        waiting=(asks("high", 1, priority=9),),
        waits={"high": reasons.NoGpusFree},
    ),
    Case(
        sentence="it starts only there, also where other nodes have room",
        pools=(moving(),),
        nodes=TWO,
        active=(on(runs("r"), gpus=2), on(runs("s"), "n2", gpus=1)),
        waiting=(moved_to("m", 1, "n2", since=1),),
        decided=["start m on n2 1"],
    ),
    Case(
        sentence="if its destination is gone, it gives up its claim and waits as others do",
        pools=(moving(1),),
        nodes=(node(),),
        active=(on(runs("r"), gpus=3),),
        waiting=(moved_to("m", 1, "n2", since=1),),
        decided=["drop m"],
    ),
    Case(
        sentence="and no new node takes the name of that destination",
        pools=(moving(),),
        active=(replace(on(stops("m"), "n9"), claim=moved_to("m", 1, "node-1").claim),),
        waiting=(asks("x", tenant="u"),),
        decided=["begin node-2 for x"],
    ),
    # Projects.
    Case(
        sentence="jobs of its own project move, above its share or not",
        pools=(moving(),),
        nodes=tuple(replace(each, project="a") for each in TWO),
        active=tuple(replace(job, project="a") for job in SCATTERED),
        waiting=(asks("big", 4, project="a"),),
        projects=(quota("a", 0), quota("other", 2)),
        decided=["move a to n2 for big at n1"],
    ),
    Case(
        sentence="of other projects, where these share nodes, only for a job within its share",
        pools=(moving(rules=SHARED),),
        nodes=TWO,
        active=OTHERS,
        waiting=(asks("big", 4, project="a"),),
        projects=(quota("a", 1), quota("other", 1)),
        decided=["move a to n2 for big at n1"],
    ),
    Case(
        sentence="not for one beyond its share",
        pools=(moving(rules=SHARED),),
        nodes=TWO,
        active=OTHERS,
        waiting=(asks("big", 4, project="a"),),
        projects=(quota("a", 0), quota("other", 2)),
        waits={"big": reasons.NoGpusFree},
    ),
    Case(
        sentence="nothing moves for a job that its project's limit keeps back",
        pools=(moving(),),
        nodes=tuple(replace(each, project="a") for each in TWO),
        active=tuple(replace(job, project="a") for job in SCATTERED),
        waiting=(asks("big", 4, project="a"),),
        projects=(limited("a", 1),),
        waits={"big": reasons.HoldingLimit},
    ),
    # Whole instances.
    Case(
        sentence="a node is emptied for a job that needs its instance",
        pools=(moving(),),
        nodes=TWO,
        active=SCATTERED,
        waiting=(waits("whole"),),
        decided=["move a to n2 for whole at p with n1"],
    ),
    Case(
        sentence="or for one of another tenant",
        pools=(moving(),),
        nodes=TWO,
        active=SCATTERED,
        waiting=(asks("x", tenant="u"),),
        decided=["move a to n2 for x at p with n1"],
    ),
    Case(
        sentence="not if some job of it may not move, or does not fit elsewhere",
        pools=(moving(),),
        nodes=TWO,
        active=(
            *SCATTERED,
            on(runs("fixed", preemptible=False), first=2),
            on(runs("r"), "n2", gpus=2),
        ),
        waiting=(waits("whole"),),
        waits={"whole": reasons.NoFreeSlots},
    ),
    Case(
        sentence="not for one that needs more than that",
        pools=(moving(),),
        nodes=TWO,
        active=SCATTERED,
        waiting=(waits("whole", slots=2),),
        waits={"whole": reasons.NoFreeSlots},
    ),
    Case(
        sentence="beside a free slot it is enough",
        pools=(moving(3),),
        nodes=TWO,
        active=SCATTERED,
        waiting=(waits("whole", slots=2),),
        decided=["move a to n2 for whole at p with n1"],
    ),
    Case(
        sentence="a node without jobs ends for it before any job moves",
        pools=(moving(3),),
        nodes=(*TWO, node("n3", idle=5)),
        active=SCATTERED,
        waiting=(waits("whole"),),
        decided=["end n3: needed by whole"],
    ),
    Case(
        sentence="a node of another project is emptied only for a job within its share",
        pools=(moving(),),
        nodes=tuple(replace(each, project="other") for each in TWO),
        active=OTHERS,
        waiting=(waits("whole", project="a"),),
        projects=(quota("a", 0), quota("other", 2)),
        waits={"whole": reasons.ShareUsed},
    ),
    Case(
        sentence="before anything is reclaimed",
        pools=(moving(),),
        nodes=tuple(replace(each, project="other") for each in TWO),
        active=OTHERS,
        waiting=(waits("whole", project="a"),),
        projects=(quota("a", 1), quota("other", 1)),
        decided=["move a to n2 for whole at p with n1"],
    ),
    Case(
        sentence="of several nodes the one whose jobs lose least",
        pools=(moving(3),),
        nodes=(
            *TWO,
            node("n3", tenant="u"),
        ),
        active=(*SCATTERED, on(runs("z"), "n3", tenant="u")),
        waiting=(waits("whole"),),
        decided=["move a to n2 for whole at p with n1"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_moves(case: Case) -> None:
    planned = plan(case.snapshot(), NOW)
    assert said(planned) == list(case.decided)
    assert {name: type(planned.reasons[name]) for name in case.waits} == case.waits
    assert case.wake_at is None or planned.wake_at == case.wake_at


def test_members_of_a_gang_do_not_move() -> None:
    world = Snapshot(
        pools=(moving(),),
        nodes=TWO,
        active=tuple(replace(job, group="g") for job in SCATTERED),
        waiting=(asks("big", 4),),
        groups=(Group(name="g", members=("a", "b", "c")),),
    )
    assert said(plan(world, NOW)) == []


def test_a_job_that_moves_says_where_and_for_whom() -> None:
    world = Snapshot(pools=(moving(),), nodes=TWO, active=SCATTERED, waiting=(asks("big", 4),))
    (move,) = plan(world, NOW).decisions
    assert isinstance(move, Move)
    after = {job.name: job for _, job in steps(move, {"p": moving()}, NOW)}
    assert after["a"].message == "moved to n2 for big"
    assert (after["a"].evictions, after["a"].claim) == (1, move.moved[0][1])
    assert after["big"].claim == move.claim


@pytest.mark.parametrize(("gpus", "decided"), [(2, ["start x on n1 2,3"]), (3, [])])
def test_a_job_that_moves_counts_once_in_its_users_limit(gpus: int, decided: list[str]) -> None:
    """In a pool with nodes limits count GPUs: a slot is four. `ann` holds two by a job that stops
    to move. They count until it has come, and no other job of hers starts for them."""
    ann = {"person": "ann", "priority_class": "ONE"}
    moves = replace(on(stops("m", **ann), gpus=2), claim=moved_to("m", 2, "n2").claim)
    world = Snapshot(
        pools=(moving(),),
        nodes=(node(idle=5), node("n2", idle=5)),
        active=(moves,),
        waiting=(asks("x", gpus, **ann),),
        classes=(PriorityClass(name="ONE", value=0),),
        users=(User(name="ann", limits={"p": {"ONE": 1}}),),
    )
    planned = plan(world, NOW)
    assert said(planned) == decided
    assert decided or isinstance(planned.reasons["x"], reasons.UserLimitReached)

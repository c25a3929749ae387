"""Parts of a GPU: for each rule a world in which it applies, and what the plan decides."""

# ruff: noqa: E501 - a row of a table stays one line

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.gpu_amounts import WHOLE
from slotq_core.model import reasons
from slotq_core.model.demand import NOTHING
from slotq_core.model.jobs import Claim, Job
from slotq_core.model.nodes import MOST_JOBS
from slotq_core.model.reasons import outlook
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import PriorityClass, User
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import steps
from slotq_core.policy.plan import Evict
from tests.unit.policy.test_nodes import Case, limited, node, nodes_pool, outlook_of, said
from tests.unit.policy.test_nodes import asks as asks_whole
from tests.unit.policy.test_nodes import on as on_whole
from tests.unit.policy.test_reasons import NOW, runs, stops


def asks(name: str, gpus: float, **fields: Any) -> Job:
    return replace(asks_whole(name, **fields), gpus=round(WHOLE * gpus))


def on(name: str, gpu: int, part: float, at: str = "n1", *, stop: bool = False, **more: Any) -> Job:
    """A job with a part of this GPU."""
    job = on_whole(stops(name, **more) if stop else runs(name, **more), at, first=gpu)
    amount = round(WHOLE * part)
    return replace(job, gpus=amount, attempt=replace(job.attempt, gpu_part=amount))


def whole(name: str, first: int, gpus: int = 1, at: str = "n1", **more: Any) -> Job:
    return on_whole(runs(name, **more), at, first=first, gpus=gpus)


def claims(name: str, gpus: float, *ids: int, **fields: Any) -> Job:
    claim = Claim(pool="p", node="n1", gpu_ids=ids, amount=NOTHING, since=NOW - 1)
    return asks(name, gpus, claim=claim, **fields)


ONE = (nodes_pool(1),)
TWO = (nodes_pool(2),)

CASES = [
    # Where a part comes.
    Case(
        sentence="parts share a GPU until it is full",
        pools=ONE,
        nodes=(node(idle=10),),
        waiting=(asks("a", 0.5), asks("b", 0.25), asks("c", 0.25), asks("d", 0.05)),
        decided=["start a on n1 0", "start b on n1 0", "start c on n1 0", "start d on n1 1"],
    ),
    Case(
        sentence="a part comes to the GPU with least left that still has room",
        pools=ONE,
        nodes=(node(),),
        active=(on("r", 0, 0.25), on("s", 1, 0.6), on("t", 2, 0.75)),
        waiting=(asks("a", 0.4), asks("b", 0.3)),
        decided=["start a on n1 1", "start b on n1 0"],
    ),
    Case(
        sentence="a part leaves whole GPUs to jobs that need them",
        pools=ONE,
        nodes=(node(),),
        active=(on("r", 3, 0.5),),
        waiting=(asks("a", 0.5), asks("b", 3)),
        decided=["start a on n1 3", "start b on n1 0,1,2"],
    ),
    Case(
        sentence="whole GPUs are those of which no job has a part",
        pools=ONE,
        nodes=(node(),),
        active=(on("r", 1, 0.05),),
        waiting=(asks("a", 2),),
        decided=["start a on n1 0,2"],
    ),
    Case(
        sentence="a part comes to the fullest node that has room on one GPU",
        pools=(nodes_pool(3),),
        nodes=(node("n1"), node("n2"), node("n3")),
        active=(
            *(on(f"r{n}", n, 0.8) for n in range(4)),
            whole("s", 0, 3, "n2"),
            whole("t", 0, 2, "n3"),
        ),
        waiting=(asks("a", 0.25),),
        decided=["start a on n2 3"],
    ),
    Case(
        sentence="without room on a GPU, a node starts, and other parts wait for that node",
        pools=TWO,
        nodes=(node(),),
        active=tuple(on(f"r{n}", n, 0.8) for n in range(4)),
        waiting=(asks("a", 0.5), asks("b", 0.5), asks("c", 4)),
        decided=["begin node-1 for a"],
        waits={"b": reasons.NodeComing, "c": reasons.NoGpusFree},
    ),
    Case(
        sentence="pieces on several GPUs are no room for a part",
        pools=ONE,
        nodes=(node(),),
        active=tuple(on(f"r{n}", n, 0.8) for n in range(4)),
        waiting=(asks("a", 0.25),),
        waits={"a": reasons.NoGpusFree},
    ),
    Case(
        sentence="a node takes no more jobs than it may run",
        pools=ONE,
        nodes=(node(),),
        active=tuple(on(f"r{n:02}", n // 16, 0.05) for n in range(MOST_JOBS)),
        waiting=(asks("a", 0.05), asks("b", 1)),
        waits={"a": reasons.NoGpusFree, "b": reasons.NoGpusFree},
    ),
    Case(
        sentence="on a full node a job waits for one that stops, and keeps the place from others",
        pools=ONE,
        nodes=(node(),),
        active=(
            *(on(f"r{n:02}", n // 16, 0.05) for n in range(MOST_JOBS - 1)),
            on("s", 3, 0.05, stop=True),
        ),
        waiting=(asks("a", 0.05), asks("b", 0.05)),
        waits={"a": reasons.NodeComing, "b": reasons.NoGpusFree},
    ),
    # What is held is bound to its GPU.
    Case(
        sentence="what comes free on a GPU is kept there, and other GPUs serve the jobs behind",
        pools=ONE,
        nodes=(node(),),
        active=(
            on("s", 0, 0.5, stop=True),
            on("r", 0, 0.5),
            on("t", 1, 0.8),
            whole("w", 2, 2),
        ),
        waiting=(asks("a", 0.5), asks("b", 0.2), asks("c", 0.05)),
        decided=["start b on n1 1"],
        waits={"a": reasons.NodeComing, "c": reasons.NoGpusFree},
    ),
    Case(
        sentence="a claim keeps the room on its own GPU alone",
        pools=ONE,
        nodes=(node(),),
        active=(on("s", 0, 0.5, stop=True), on("r", 0, 0.25), whole("w", 2, 2)),
        waiting=(claims("a", 0.75, 0, priority=5), asks("b", 0.25), asks("c", 1)),
        decided=["start b on n1 1"],
        waits={"a": reasons.NodeComing, "c": reasons.NoGpusFree},
    ),
    Case(
        sentence="a claimant starts on the GPU of its claim",
        pools=ONE,
        nodes=(node(),),
        active=(on("r", 0, 0.5),),
        waiting=(claims("a", 0.5, 2),),
        decided=["start a on n1 2"],
    ),
    Case(
        sentence="a claim older than its GPUs gets the first that fit",
        pools=ONE,
        nodes=(node(),),
        active=(whole("r", 0),),
        waiting=(claims("a", 2, since=1), asks("b", 1)),
        decided=["start a on n1 1,2", "start b on n1 3"],
    ),
    Case(
        sentence="a claim to a GPU that the node lacks by now is given up",
        pools=ONE,
        nodes=(node(idle=10),),
        waiting=(claims("a", 0.5, 7),),
        decided=["drop a"],
    ),
    Case(
        sentence="a higher rank takes over a claim only where no other GPU has room",
        pools=ONE,
        nodes=(node(),),
        active=(whole("r", 2, 2),),
        waiting=(claims("low", 0.75, 0), asks("high", 0.5, priority=5)),
        decided=["start high on n1 1", "start low on n1 0"],
    ),
    # Victims.
    Case(
        sentence="for a part the victims are on one GPU, with the least harm",
        pools=ONE,
        nodes=(node(),),
        active=(
            *(on(f"old{n}", 0, 0.5, since=600_000) for n in range(2)),
            *(on(f"new{n}", 1, 0.5, since=9_000) for n in range(2)),
            whole("w", 2, 2, priority=9),
        ),
        waiting=(asks("a", 0.75, priority=5),),
        decided=["evict new1 new0 for a at n1"],
    ),
    Case(
        sentence="no more are evicted than the part needs beside what is free",
        pools=ONE,
        nodes=(node(),),
        active=(
            *(on(f"r{n}", 0, 0.3) for n in range(3)),
            whole("w", 1, 3, priority=9),
        ),
        waiting=(asks("a", 0.4, priority=5),),
        decided=["evict r2 for a at n1"],
    ),
    Case(
        sentence="lower ranks on several GPUs do not add up for a part",
        pools=ONE,
        nodes=(node(),),
        active=tuple(
            job
            for n in range(4)
            for job in (on(f"low{n}", n, 0.4), on(f"high{n}", n, 0.6, priority=9))
        ),
        waiting=(asks("a", 0.5, priority=5),),
        waits={"a": reasons.NoGpusFree},
    ),
    Case(
        sentence="a job with whole GPUs is evicted for a part where nothing less is enough",
        pools=ONE,
        nodes=(node(),),
        active=(whole("w", 0, 2), whole("x", 2, 2, priority=9)),
        waiting=(asks("a", 0.5, priority=5), asks("b", 1, priority=5)),
        decided=["evict w for a at n1"],
        waits={"b": reasons.NodeComing},
    ),
    Case(
        sentence="for whole GPUs all jobs of a shared GPU are evicted, or none of them",
        pools=ONE,
        nodes=(node(),),
        active=(
            on("q1", 0, 0.25),
            on("q2", 0, 0.25),
            on("fixed", 1, 0.05, priority=9),
            on("q3", 1, 0.5),
            whole("w", 2, 2, priority=9),
        ),
        waiting=(asks("a", 1, priority=5),),
        decided=["evict q2 q1 for a at n1"],
    ),
    Case(
        sentence="of shared GPUs and a job with whole ones the least harm is taken",
        pools=ONE,
        nodes=(node(),),
        active=(
            on("q1", 0, 0.5, since=900_000),
            on("q2", 0, 0.5, since=900_000),
            whole("w", 1, since=9_000),
            whole("x", 2, 2, priority=9),
        ),
        waiting=(asks("a", 1, priority=5),),
        decided=["evict w for a at n1"],
    ),
    Case(
        sentence="nothing is evicted for whole GPUs that parts of higher rank keep",
        pools=ONE,
        nodes=(node(),),
        active=tuple(
            job
            for n in range(4)
            for job in (on(f"low{n}", n, 0.9), on(f"high{n}", n, 0.1, priority=9))
        ),
        waiting=(asks("a", 1, priority=5),),
        waits={"a": reasons.NoGpusFree},
    ),
    Case(
        sentence="on a node with as many jobs as it may run, one is evicted for its place",
        pools=ONE,
        nodes=(node(),),
        active=tuple(on(f"r{n:02}", n // 16, 0.05) for n in range(MOST_JOBS)),
        waiting=(asks("a", 2, priority=5),),
        decided=["evict r31 for a at n1"],
    ),
    # Limits.
    Case(
        sentence="a limit counts the part",
        pools=TWO,
        nodes=(node(project="a"),),
        active=(whole("r", 0, 3, project="a"),),
        waiting=(asks("b", 0.5, project="a"), asks("c", 0.75, project="a")),
        projects=(limited("a", 1),),
        decided=["start b on n1 3"],
        waits={"c": reasons.HoldingLimit},
    ),
    Case(
        sentence="under a limit a lower part gives what it has, wherever on the node",
        pools=TWO,
        nodes=(node(project="a"),),
        active=(whole("r", 0, 3, project="a", priority=9), on("low", 3, 0.75, project="a")),
        waiting=(asks("b", 0.5, project="a", priority=5),),
        projects=(limited("a", 1),),
        decided=["evict low for b at n1"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_rule(case: Case) -> None:
    planned = plan(case.snapshot(), NOW)
    assert said(planned) == list(case.decided)
    for name, kind in case.waits.items():
        assert isinstance(planned.reasons[name], kind), planned.reasons[name]


def test_a_started_part_and_an_owed_one_name_their_gpu() -> None:
    pool = nodes_pool(1)
    full = (*(on(f"r{n}", n, 0.8) for n in range(3)), on("low", 3, 0.6), on("s", 3, 0.4))
    snapshot = Snapshot(
        pools=(pool,), nodes=(node(),), active=full, waiting=(asks("a", 0.5, priority=5),)
    )
    (evict,) = plan(snapshot, NOW).decisions
    assert isinstance(evict, Evict)
    assert (evict.claim.node, evict.claim.gpu_ids, evict.claim.amount) == ("n1", (3,), NOTHING)
    (start,) = plan(replace(snapshot, active=full[:3]), NOW).decisions
    ((_, begun),) = steps(start, {"p": pool}, NOW)
    assert begun.attempt is not None
    assert (begun.attempt.gpu_ids, begun.attempt.gpu_part) == ((3,), 50)
    assert begun.attempt.part_of_slot == (50, 400)


@pytest.mark.parametrize(
    ("active", "gpus", "text"),
    [
        (
            tuple(on(f"r{n}", n, 0.75) for n in range(4)),
            0.5,
            "no GPU has 0.50 left; 1 is free in pieces of up to 0.25; pool p has no free instance",
        ),
        (
            (on("r", 0, 0.6), on("s", 1, 0.9), whole("w", 2, 2)),
            0.5,
            "no GPU has 0.50 left; 0.50 is free in pieces of up to 0.40; pool p has no free instance",
        ),
        (
            (on("r", 0, 0.5), on("s", 1, 0.25), whole("w", 2, 2)),
            1,
            "no node has 1 GPU free for it; 1.25 are free on 1 node, in pieces of up to 0.75; pool p has no free instance",
        ),
        (
            (whole("w", 0, 4),),
            0.5,
            "no GPU has 0.50 left; pool p has no free instance",
        ),
    ],
)
def test_the_reason_says_in_which_pieces_gpus_are_free(
    active: tuple[Job, ...], gpus: float, text: str
) -> None:
    snapshot = Snapshot(pools=ONE, nodes=(node(),), active=active, waiting=(asks("a", gpus),))
    reason = plan(snapshot, NOW).reasons["a"]
    assert reason.sentence() == text
    assert reason.numbers()["needed"] == gpus


def test_the_outlook_counts_the_gpu_that_has_most_for_a_part() -> None:
    found = outlook_of(
        "a",
        active=(on("r", 0, 0.75), on("s", 1, 0.9, stop=True), whole("w", 2, 2)),
        waiting=(asks("a", 0.5),),
    )
    assert found.rooms == (
        outlook.Room(pool="p", needed=0.5, free=0.25, coming=0.75, missing=0, resource="gpus"),
    )


def test_a_users_limit_counts_the_users_own_parts() -> None:
    classes = (PriorityClass(name="LOW", value=0),)
    users = (User(name="ada", limits={"p": {"LOW": 1}}),)
    own = {"person": "ada", "priority_class": "LOW"}
    parts = tuple(on(f"r{n}", n // 2, 0.5, **own) for n in range(7))
    waiting = (asks("a", 0.5, **own), asks("b", 0.05, **own))
    snapshot = Snapshot(
        pools=TWO,
        nodes=(node(), node("n2", idle=5)),
        active=parts,
        waiting=waiting,
        classes=classes,
        users=users,
    )
    assert said(plan(snapshot, NOW)) == ["start a on n1 3"]


def test_a_part_that_stops_is_room_for_one_that_waits() -> None:
    stopping = on("s", 0, 0.5, stop=True)
    snapshot = Snapshot(
        pools=ONE,
        nodes=(node(),),
        active=(stopping, on("r", 0, 0.25), whole("w", 1, 3)),
        waiting=(asks("a", 0.25), asks("b", 0.5)),
    )
    planned = plan(snapshot, NOW)
    assert said(planned) == ["start a on n1 0"]
    assert isinstance(planned.reasons["b"], reasons.NodeComing)

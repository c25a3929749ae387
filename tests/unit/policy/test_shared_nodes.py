"""Nodes that projects share (`share: pool`): each job counts what it holds itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.model import reasons
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import NodeState
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.model.projects import Department, Project, ShareStatus
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.explain.share_status import held_amounts, share_statuses
from slotq_core.policy.plan import Evict, StartGang
from tests.unit.policy.test_nodes import (
    NO_QUOTA,
    Case,
    asks,
    claims,
    node,
    nodes_pool,
    on,
    quota,
    said,
)
from tests.unit.policy.test_reasons import NOW, runs, waits

RULES = NodeRules(gpus=4, keep=60_000, shared=True)
EQUAL = tuple(Project(name=name, quota=NO_QUOTA) for name in "ab")


def shared(slots: int = 1, **fields: Any) -> Pool:
    return nodes_pool(slots=slots, rules=RULES, **fields)


def of(project: str, name: str, first: int, gpus: int = 1, **fields: Any) -> Job:
    """A job of the project that runs on the node."""
    at = fields.pop("at", "n1")
    return on(runs(name, project=project, **fields), at, first=first, gpus=gpus)


FULL_OF_A = tuple(of("a", f"a{n}", n) for n in range(4))

CASES = [
    Case(
        sentence="a project within its share reclaims GPUs from one above its own",
        pools=(shared(),),
        projects=EQUAL,
        nodes=(node(),),
        active=FULL_OF_A,
        waiting=(asks("b0", 2, project="b"),),
        decided=["evict a3 a2 for b0 at n1"],
    ),
    Case(
        sentence="it reclaims no more than its share",
        pools=(shared(),),
        projects=EQUAL,
        nodes=(node(),),
        active=FULL_OF_A,
        waiting=(asks("b0", 3, project="b"),),
        waits={"b0": reasons.NoGpusFree},
    ),
    Case(
        sentence="in-quota work is safe",
        pools=(shared(),),
        projects=(quota("a", 1), quota("b", 0)),
        nodes=(node(),),
        active=FULL_OF_A,
        waiting=(asks("b0", project="b"),),
        waits={"b0": reasons.NoGpusFree},
    ),
    Case(
        sentence="GPUs of one node only: those of two do not add up",
        pools=(shared(2),),
        projects=EQUAL,
        nodes=(node(), node("n2")),
        active=(
            of("a", "a0", 0),
            of("a", "a1", 1, gpus=3, preemptible=False),
            of("a", "a2", 0, at="n2"),
            of("a", "a3", 1, gpus=3, preemptible=False, at="n2"),
        ),
        waiting=(asks("b0", 2, project="b"),),
        waits={"b0": reasons.NoGpusFree},
    ),
    Case(
        sentence="of several nodes the one with the least harm gives",
        pools=(shared(2),),
        projects=EQUAL,
        nodes=(node(), node("n2")),
        active=(
            of("a", "a0", 0, gpus=4, priority=2),
            of("a", "a1", 0, gpus=2, at="n2", priority=1),
            of("a", "a2", 2, gpus=2, at="n2", priority=1),
        ),
        waiting=(asks("b0", 2, project="b"),),
        decided=["evict a2 for b0 at n2"],
    ),
    Case(
        sentence="the project that holds less GPUs comes first",
        pools=(shared(),),
        projects=EQUAL,
        nodes=(node(),),
        active=(of("a", "a0", 0, gpus=2), of("b", "b0", 2)),
        waiting=(asks("a1", project="a", since=9), asks("b1", project="b")),
        decided=["start b1 on n1 3"],
        waits={"a1": reasons.NoGpusFree},
    ),
    Case(
        sentence="a preemption on a node stays within the project's share while another is below",
        pools=(shared(),),
        projects=EQUAL,
        nodes=(node(),),
        active=(of("a", "a0", 0, gpus=2), of("a", "low", 2), of("b", "b0", 3, preemptible=False)),
        waiting=(
            asks("high", 2, project="a", priority=5),
            asks("b1", 4, project="b"),
        ),
        decided=["evict a0 for high at n1"],
        waits={"b1": reasons.NoGpusFree},
    ),
    Case(
        sentence="without over-quota a project holds its quota in GPUs, on several nodes",
        pools=(shared(3),),
        projects=(quota("a", 1, over_quota=False), quota("b", 0)),
        nodes=(node(), node("n2")),
        active=(of("a", "a0", 0, gpus=2), of("a", "a1", 0, gpus=1, at="n2")),
        waiting=(asks("a2", 1, project="a", since=9), asks("a3", 1, project="a")),
        decided=["start a2 on n1 2"],
        waits={"a3": reasons.HoldingLimit},
    ),
    Case(
        sentence="what cannot be evicted stays within the quota, GPU by GPU",
        pools=(shared(),),
        projects=(quota("a", 0), quota("b", 1)),
        nodes=(node(),),
        active=(of("b", "b0", 0, preemptible=False),),
        waiting=(
            asks("a0", project="a", preemptible=False),
            asks("b1", 3, project="b", preemptible=False),
        ),
        decided=["start b1 on n1 1,2,3"],
        waits={"a0": reasons.QuotaExceeded},
    ),
    Case(
        sentence="a whole instance is reclaimed with all jobs of one project on it",
        pools=(shared(2),),
        projects=EQUAL,
        nodes=(node(), node("n2", tenant="u")),
        active=(of("a", "a0", 0), of("a", "a1", 1), of("a", "a2", 0, gpus=4, at="n2")),
        waiting=(waits("b0", project="b"),),
        decided=["evict a0 a1 for b0 at p with n1"],
    ),
    Case(
        sentence="a node on which several projects have jobs is not reclaimed whole",
        pools=(shared(),),
        projects=(*EQUAL, quota("c", 1)),
        nodes=(node(),),
        active=(of("a", "a0", 0, gpus=2), of("b", "b0", 2, gpus=2)),
        waiting=(waits("c0", project="c", priority=9),),
        waits={"c0": reasons.NoFreeSlots},
    ),
    Case(
        sentence="a claim on a node counts for its project",
        pools=(shared(),),
        projects=EQUAL,
        nodes=(node(),),
        waiting=(
            claims("a0", 3, project="a", since=9),
            asks("b1", project="b"),
            asks("a1", project="a", since=20),
        ),
        decided=["start b1 on n1 3", "start a0 on n1 0,1,2"],
        waits={"a1": reasons.NoGpusFree},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_rule(case: Case) -> None:
    planned = plan(case.snapshot(), NOW)
    assert said(planned) == list(case.decided)
    for name, kind in case.waits.items():
        assert type(planned.reasons[name]) is kind


def test_a_gang_counts_the_gpus_of_all_its_members_in_the_order_of_projects() -> None:
    """Each project has a share of two GPUs: three are nearer to it than the four of a gang."""
    names = tuple(f"a{n}" for n in range(4))
    members = [replace(asks(name, project="a", since=9), group="g") for name in names]
    gang = Snapshot(
        pools=(shared(),),
        nodes=(node(),),
        projects=EQUAL,
        groups=(Group(name="g", members=names),),
        waiting=(*members, asks("b0", 3, project="b")),
    )
    alone = replace(gang, groups=(), waiting=(asks("a0", 4, project="a"), gang.waiting[-1]))
    for snapshot in (gang, alone):
        assert said(plan(snapshot, NOW)) == ["start b0 on n1 0,1,2"]
    smaller = replace(gang, waiting=(*members, asks("b0", 4, project="b")))
    assert isinstance(plan(smaller, NOW).decisions[0], StartGang), "of equals the older project"


def statuses(snapshot: Snapshot) -> dict[str, ShareStatus]:
    return {each.name: each for each in share_statuses(snapshot, NOW)}


def test_parts_of_a_gpu_count_and_are_reclaimed_as_such() -> None:
    """Of a GPU that several share, as much comes free as the job needs."""
    jobs = [replace(of("a", f"a{n}", 0), gpus=25) for n in range(4)]
    jobs = [replace(job, attempt=replace(job.attempt, gpu_part=25)) for job in jobs]
    others = (of("a", "a4", 1), of("a", "fixed", 2, gpus=2, preemptible=False))
    world = Snapshot(
        pools=(shared(),), nodes=(node(),), projects=EQUAL, active=(*jobs, *others), waiting=()
    )
    part = replace(world, waiting=(replace(asks("b0", project="b"), gpus=50),))
    assert said(plan(part, NOW)) == ["evict a3 a2 for b0 at n1"]
    assert statuses(part)["a"].held == 1
    whole = replace(world, waiting=(asks("b0", 2, project="b"),))
    (evict,) = plan(whole, NOW).decisions
    assert isinstance(evict, Evict) and {victim.name for victim in evict.victims} == {
        *(f"a{n}" for n in range(5))
    }


def test_each_job_counts_its_part_of_a_slot_for_its_project_and_department() -> None:
    department = Department(name="d")
    projects = (replace(quota("a", 1), department="d"), quota("b", 0))
    snapshot = Snapshot(
        pools=(shared(3),),
        nodes=(node(), node("n2", idle=5), node("n3", state=NodeState.STARTING)),
        projects=projects,
        departments=(department,),
        active=(of("a", "a0", 0), of("b", "b0", 1, gpus=2)),
        waiting=(asks("a1", 3, project="a"), claims("b1", 3, at="n3", project="b")),
    )
    found = statuses(snapshot)
    assert (found["a"].held, found["a"].quota, found["a"].waiting) == (0.25, 1, 0.75)
    assert (found["d"].held, found["d"].quota) == (0.25, 1)
    assert (found["b"].held, found["b"].over_quota, found["b"].share) == (1.25, 1.25, 0)
    assert held_amounts(snapshot, NOW) == {
        "a": {"p": {"slots": 0.25}},
        "b": {"p": {"slots": 0.5}},
    }


def test_other_pools_and_resources_are_counted_in_the_same_parts() -> None:
    """A third of a slot here, whole slots elsewhere, and every resource of the instance."""
    three = replace(RULES, gpus=3)
    snapshot = Snapshot(
        pools=(
            replace(shared(), nodes=three, capacity=Demand(slots=1, gpus=3)),
            replace(nodes_pool(), name="q", capacity=Demand(slots=2, gpus=8)),
        ),
        nodes=(replace(node(), contents=Demand(gpus=3)),),
        projects=(
            Project(name="a", quota={"": Demand(slots=1, gpus=3)}, limit={"": {"slots": 2}}),
            Project(name="b", quota={"": Demand(slots=1, gpus=3)}, weight=1),
        ),
        active=(
            replace(of("a", "a0", 0), demand=Demand(slots=1, gpus=3)),
            replace(runs("b0", project="b", at="q"), demand=Demand(slots=1, gpus=4), pools=("q",)),
        ),
    )
    found = {(each.name, each.resource): each for each in share_statuses(snapshot, NOW)}
    assert found["a", "slots"].held == 0.3333
    assert found["a", "gpus"].held == 1
    assert found["a", "slots"].limit == 2
    assert (found["b", "slots"].held, found["b", "gpus"].held) == (1, 4)
    assert found["b", "gpus"].over_quota == 1


def test_reasons_name_parts_of_slots() -> None:
    case = next(case for case in CASES if case.sentence.startswith("without over-quota"))
    why = plan(case.snapshot(), NOW).reasons["a3"]
    assert why.sentence() == "needs 0.25 slots; a holds 1 of its limit 1"
    case = next(case for case in CASES if case.sentence.startswith("what cannot"))
    why = plan(case.snapshot(), NOW).reasons["a0"]
    assert isinstance(why, reasons.QuotaExceeded)
    assert (why.needed, why.used, why.quota) == (0.25, 0, 0)


def _spared(*waiting: Job, groups: tuple[Group, ...] = ()) -> list[str]:
    """Why the first of these jobs evicts nobody on the full node."""
    held = (of("a", "a0", 0), of("b", "b0", 1, gpus=3))
    snapshot = Snapshot(
        pools=(shared(),),
        projects=EQUAL,
        nodes=(node(),),
        active=held,
        waiting=waiting,
        groups=groups,
    )
    found = plan(snapshot, NOW, waiting[0]).outlook
    assert found is not None
    return [spared.sentence().partition(": ")[2] for spared in found.spared]


def test_the_outlook_names_the_share_that_keeps_a_job_from_gpus_of_other_projects() -> None:
    assert _spared(asks("b9", project="b")) == [
        "of equal or higher priority",
        "project b uses 0.75 slots of its fair share 0.75",
    ]
    assert _spared(asks("a9", 4, project="a")) == [
        "of equal or higher priority",
        "project a uses 0.25 slots of its fair share 0.5",
    ]


def test_the_outlook_says_that_a_gang_takes_no_gpus_of_other_projects() -> None:
    gang = tuple(asks(name, project="a", group="g") for name in ("a8", "a9"))
    (_, theirs) = _spared(*gang, groups=(Group(name="g", members=("a8", "a9")),))
    assert theirs == "of another project, and a gang takes no GPUs of nodes that projects share"

"""Jobs on nodes: for each rule a world in which it applies, and what the plan decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from slotq_core.gpu_amounts import WHOLE
from slotq_core.model import reasons
from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Claim, Job
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import FailedNodes, NodeRules, Pool, PoolHealth, PoolState
from slotq_core.model.projects import EVERYWHERE, Project
from slotq_core.model.reasons import outlook
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import User
from slotq_core.policy.cycle import plan
from slotq_core.policy.explain.share_status import share_statuses
from slotq_core.policy.lifecycle.pool_health import LONGEST_WITHOUT_NODES
from slotq_core.policy.plan import DropClaim, EndNode, Evict, Move, Plan, Start, StartNode
from slotq_core.policy.state.nodes.node_requests import instances
from slotq_core.timestamps import FAR_OFF, iso
from tests.unit.policy.test_reasons import NOW, pool, runs, stops, waits

HOUR = 3_600_000
RULES = NodeRules(gpus=4, keep=60_000)


def nodes_pool(slots: int = 2, rules: NodeRules | None = RULES, **fields: Any) -> Pool:
    return pool(slots=slots, nodes=rules, **fields)


def node(
    name: str = "n1",
    *,
    tenant: str = "t",
    idle: int | None = None,
    ran: int = 900_000,
    **fields: Any,
) -> Node:
    """A ready node; `idle` and `ran`: for how long (ms)."""
    state = fields.pop("state", NodeState.READY)
    return Node(
        name=name,
        pool="p",
        generation=3,
        state=state,
        tenant=tenant,
        project=fields.pop("project", ""),
        contents=Demand(gpus=4),
        training_job=f"node-{name}",
        token="",
        started_at=NOW - ran - 100_000,
        created=True,
        running_since=None if state is NodeState.STARTING else NOW - ran,
        idle_since=None if idle is None else NOW - idle,
        **fields,
    )


def asks(name: str, gpus: int = 1, *, tenant: str = "t", **fields: Any) -> Job:
    return replace(waits(name, **fields), gpus=WHOLE * gpus, tenant=tenant)


def on(job: Job, at: str = "n1", first: int = 0, gpus: int = 1, tenant: str = "t") -> Job:
    """The active job on a node, with GPUs from this index on."""
    ids = tuple(range(first, first + gpus))
    attempt = replace(job.attempt, node=at, node_generation=3, gpu_ids=ids)
    return replace(job, attempt=attempt, gpus=WHOLE * gpus, tenant=tenant)


def claims(name: str, gpus: int, at: str = "n1", **fields: Any) -> Job:
    claim = Claim(pool="p", node=at, amount=NOTHING, since=NOW - 1)
    return asks(name, gpus, claim=claim, **fields)


def said(planned: Plan) -> list[str]:
    """The decisions as short texts."""
    return [_said(decision) for decision in planned.decisions]


def _said(decision: object) -> str:
    match decision:
        case Start(job=job, node=at, gpu_ids=ids):
            where = f" on {at.name} {','.join(map(str, ids))}" if at else ""
            return f"start {job.name}{where}"
        case StartNode(job=job, name=name, claim=claim):
            assert (claim.pool, claim.node, claim.amount) == ("p", name, NOTHING)
            return f"begin {name} for {job.name}"
        case EndNode(node=ended, cause=cause, by=by):
            return f"end {ended.name}: {cause}" + (f" by {by}" if by else "")
        case Evict(beneficiary=job, victims=victims, claim=claim, nodes=nodes):
            whole = "".join(f" with {each.name}" for each in nodes)
            names = " ".join(victim.name for victim in victims)
            return f"evict {names} for {job.name} at {claim.node or claim.pool}{whole}"
        case Move(beneficiary=job, moved=moved, claim=claim, nodes=nodes):
            whole = "".join(f" with {each.name}" for each in nodes)
            assert all(to.moved and to.pool == claim.pool for _, to in moved)
            to = " ".join(f"{mover.name} to {owed.node}" for mover, owed in moved)
            return f"move {to} for {job.name} at {claim.node or claim.pool}{whole}"
        case DropClaim(job=job):
            return f"drop {job.name}"
    return type(decision).__name__


@dataclass(frozen=True, kw_only=True)
class Case:
    sentence: str
    pools: tuple[Pool, ...] = (nodes_pool(),)
    nodes: tuple[Node, ...] = ()
    active: tuple[Job, ...] = ()
    waiting: tuple[Job, ...] = ()
    projects: tuple[Project, ...] = ()
    users: tuple[User, ...] = ()
    decided: Sequence[str] = ()
    waits: dict[str, type[reasons.Reason]] = field(default_factory=dict)
    wake_at: int | None = None

    def snapshot(self) -> Snapshot:
        return Snapshot(
            pools=self.pools,
            nodes=self.nodes,
            active=self.active,
            waiting=self.waiting,
            projects=self.projects,
            users=self.users,
        )


def quota(name: str, slots: int, **fields: Any) -> Project:
    return Project(name=name, quota={EVERYWHERE: Demand(slots=slots)}, **fields)


def failed(tenant: str, until: int) -> PoolHealth:
    """The health of a pool in which no node starts for the tenant until then."""
    nodes = FailedNodes(tenant=tenant, since=NOW - 9, not_before=until)
    return PoolHealth(failed_nodes=(nodes,))


def limited(name: str, most: int, resource: str = "slots") -> Project:
    return Project(name=name, quota=NO_QUOTA, limit={EVERYWHERE: {resource: most}})


NO_QUOTA = {EVERYWHERE: Demand()}
LOW = on(runs("low"))
FULL = tuple(on(runs(f"r{n}"), first=n) for n in range(4))

OF_A = (on(runs("a", project="alpha")),)
TWO = (quota("alpha", 1), quota("beta", 1))
SHARED = NodeRules(gpus=4, keep=60_000, shared=True)

CASES = [
    Case(
        sentence="no job starts on an instance that is not of the pool's type any more",
        pools=(nodes_pool(slots=1),),
        nodes=(node(instance_type="ml.old"),),
        active=(LOW,),
        waiting=(asks("b"),),
        decided=[],
    ),
    Case(
        sentence="an instance that the pool has no more takes no job and ends once empty",
        pools=(nodes_pool(slots=0),),
        nodes=(node(idle=1),),
        waiting=(asks("b"),),
        decided=["end n1: unneeded"],
    ),
    Case(
        sentence="so it is where no job waits",
        pools=(nodes_pool(slots=0),),
        nodes=(node(idle=1),),
        decided=["end n1: unneeded"],
    ),
    Case(
        sentence="no job starts on a node of a pool that has shrunk below its busy nodes",
        pools=(nodes_pool(slots=0),),
        nodes=(node(),),
        active=(LOW,),
        waiting=(asks("j"),),
        decided=[],
    ),
    Case(
        sentence="no job is evicted there for a higher one",
        pools=(nodes_pool(slots=0),),
        nodes=(node(),),
        active=FULL,
        waiting=(asks("j", priority=9),),
        decided=[],
    ),
    Case(
        sentence="a claim to GPUs of such a node is given up",
        pools=(nodes_pool(slots=0),),
        nodes=(node(),),
        active=(LOW,),
        waiting=(claims("j", 1),),
        decided=["drop j"],
    ),
    Case(
        sentence="of two nodes the emptier takes no job any more, although its name is first",
        pools=(nodes_pool(slots=1),),
        nodes=(node("n1"), node("n2")),
        active=(on(runs("a"), "n1"), on(runs("b"), "n2", gpus=2)),
        waiting=tuple(asks(f"j{n}") for n in range(3)),
        decided=["start j0 on n2 2", "start j1 on n2 3"],
    ),
    Case(
        sentence="of two that are equally full, the one with the later name",
        pools=(nodes_pool(slots=1),),
        nodes=(node("n1"), node("n2")),
        active=(on(runs("a"), "n1", gpus=3), on(runs("b"), "n2", gpus=3)),
        waiting=tuple(asks(f"j{n}") for n in range(2)),
        decided=["start j0 on n1 3"],
    ),
    Case(
        sentence="a node that someone waits for goes last, so that no job is evicted in vain",
        pools=(nodes_pool(slots=1),),
        nodes=(node("n1"), node("n2")),
        active=(on(runs("a"), "n1", gpus=3), on(runs("b"), "n2")),
        waiting=(claims("j", 1, "n2"),),
        decided=["start j on n2 1"],
    ),
    Case(
        sentence="a node without jobs goes first, and the busy ones are then within the capacity",
        pools=(nodes_pool(slots=2),),
        nodes=(node("n1", idle=1), node("n2"), node("n3")),
        active=(on(runs("a"), "n2", gpus=4), on(runs("b"), "n3")),
        waiting=(asks("j"),),
        decided=["start j on n3 1", "end n1: unneeded"],
    ),
    Case(
        sentence="what ends anyway counts as gone: here an instance of another type",
        pools=(nodes_pool(slots=1),),
        nodes=(node("n1", instance_type="ml.old"), node("n2")),
        active=(on(runs("a"), "n1"), on(runs("b"), "n2")),
        waiting=(asks("j"),),
        decided=["start j on n2 1"],
    ),
    Case(
        sentence="jobs on whole instances take capacity from nodes, those that stop do not",
        pools=(nodes_pool(slots=2),),
        nodes=(node("n1"),),
        active=(LOW, runs("w1"), runs("w2"), stops("w3")),
        waiting=(asks("j"),),
        decided=[],
    ),
    Case(
        sentence="so a node is within the capacity as soon as enough jobs stop",
        pools=(nodes_pool(slots=2),),
        nodes=(node("n1"),),
        active=(LOW, runs("w1"), stops("w2"), stops("w3")),
        waiting=(asks("j"),),
        decided=["start j on n1 1"],
    ),
    Case(
        sentence="such an instance ends with its last job",
        nodes=(node(instance_type="ml.old", idle=1),),
        decided=["end n1: unneeded"],
    ),
    Case(
        sentence="where nodes are shared, jobs of one tenant in two projects share one",
        pools=(nodes_pool(rules=SHARED),),
        projects=TWO,
        nodes=(node(),),
        active=OF_A,
        waiting=(asks("b", project="beta"),),
        decided=["start b on n1 1"],
    ),
    Case(
        sentence="once they are not shared any more, no job joins those of another project",
        projects=TWO,
        nodes=(node(),),
        active=OF_A,
        waiting=(asks("b", project="beta"),),
        decided=["begin node-1 for b"],
    ),
    Case(
        sentence="nor by a claim from before",
        projects=TWO,
        nodes=(node(),),
        active=OF_A,
        waiting=(claims("b", 1, project="beta"),),
        decided=["drop b"],
    ),
    Case(
        sentence="nor on a node that has begun since, for another project",
        projects=TWO,
        nodes=(node(project="alpha"),),
        active=OF_A,
        waiting=(asks("b", project="beta"), asks("c", project="alpha")),
        decided=["begin node-1 for b", "start c on n1 1"],
    ),
    Case(
        sentence="where its image could not run a node, it takes a whole instance for a while",
        pools=(nodes_pool(health=failed("t", NOW + 5)),),
        waiting=(asks("a"), asks("b"), asks("c")),
        decided=["start a", "start b"],
        wake_at=NOW + 5,
    ),
    Case(
        sentence="another tenant's nodes start all the same",
        pools=(nodes_pool(health=failed("u", NOW + 5)),),
        waiting=(asks("a"),),
        decided=["begin node-1 for a"],
    ),
    Case(
        sentence="a node that is there is used, whatever has become of another",
        pools=(nodes_pool(health=failed("t", NOW + 5)),),
        nodes=(node(idle=10),),
        waiting=(asks("a"),),
        decided=["start a on n1 0"],
    ),
    Case(
        sentence="then a node starts again",
        pools=(nodes_pool(health=failed("t", NOW)),),
        waiting=(asks("a"),),
        decided=["begin node-1 for a"],
    ),
    Case(
        sentence="a time that a wrong clock has set keeps no node from starting",
        pools=(nodes_pool(health=failed("t", NOW + LONGEST_WITHOUT_NODES + FAR_OFF + 1)),),
        waiting=(asks("a"),),
        decided=["begin node-1 for a"],
    ),
    Case(
        sentence="without a node of its tenant, a node starts for it",
        waiting=(asks("a"),),
        decided=["begin node-1 for a"],
    ),
    Case(
        sentence="others of its tenant wait for that node, as many as it has GPUs for",
        pools=(nodes_pool(1),),
        waiting=tuple(asks(f"a{n}") for n in range(5)),
        decided=["begin node-1 for a0"],
        waits={"a1": reasons.NodeComing, "a3": reasons.NodeComing, "a4": reasons.NoGpusFree},
    ),
    Case(
        sentence="sixty trials of one GPU start two nodes on two slots",
        waiting=tuple(asks(f"a{n:02}") for n in range(60)),
        decided=["begin node-1 for a00", "begin node-2 for a04"],
    ),
    Case(
        sentence="another tenant gets a node of its own",
        waiting=(asks("a"), asks("b", tenant="u")),
        decided=["begin node-1 for a", "begin node-2 for b"],
    ),
    Case(
        sentence="a job that fits beside others starts at once, on the GPUs that are free",
        nodes=(node(),),
        active=(on(runs("r"), first=1),),
        waiting=(asks("a", 2),),
        decided=["start a on n1 0,2"],
    ),
    Case(
        sentence="the fullest node with room comes first",
        pools=(nodes_pool(3),),
        nodes=(node("n1"), node("n2"), node("n3")),
        active=(on(runs("r")), on(runs("s"), "n2", gpus=2), on(runs("t"), "n3", gpus=3)),
        waiting=(asks("a", 2), asks("b")),
        decided=["start a on n2 2,3", "start b on n3 3"],
    ),
    Case(
        sentence="a job that takes whole instances never starts on a node",
        nodes=(node(),),
        active=(LOW,),
        waiting=(waits("a"), waits("b")),
        decided=["start a"],
        waits={"b": reasons.NoFreeSlots},
    ),
    Case(
        sentence="no node of another tenant is used",
        pools=(nodes_pool(1),),
        nodes=(node(),),
        active=(LOW,),
        waiting=(asks("a", tenant="u"),),
        waits={"a": reasons.NoGpusFree},
    ),
    Case(
        sentence="GPUs that come free are waited for, and kept from jobs behind",
        pools=(nodes_pool(1),),
        nodes=(node(),),
        active=(on(stops("s"), gpus=3), on(runs("r"), first=3)),
        waiting=(asks("a", 2), asks("b", 2)),
        waits={"a": reasons.NodeComing, "b": reasons.NoGpusFree},
    ),
    Case(
        sentence="a node that is not ready keeps its GPUs for its claimant",
        pools=(nodes_pool(1),),
        nodes=(node(state=NodeState.STARTING),),
        waiting=(claims("a", 2, since=1), asks("b", 2), asks("c", 1)),
        waits={"a": reasons.NodeComing, "b": reasons.NodeComing, "c": reasons.NoGpusFree},
    ),
    Case(
        sentence="once it is ready they start",
        pools=(nodes_pool(1),),
        nodes=(node(),),
        waiting=(claims("a", 2, since=1), asks("b", 2)),
        decided=["start a on n1 0,1", "start b on n1 2,3"],
    ),
    Case(
        sentence="a claim to a node that is gone is given up before anything else",
        waiting=(claims("a", 2),),
        decided=["drop a"],
    ),
    Case(
        sentence="no job starts on a node that drains",
        pools=(nodes_pool(1),),
        nodes=(node(state=NodeState.DRAINING),),
        active=(LOW,),
        waiting=(asks("a"),),
        waits={"a": reasons.NoGpusFree},
    ),
    Case(
        sentence="nor in a pool that is paused",
        pools=(nodes_pool(1, state=PoolState.PAUSED),),
        nodes=(node(),),
        active=(LOW,),
        waiting=(asks("a"),),
        waits={"a": reasons.PoolClosed},
    ),
    # Limits of projects.
    Case(
        sentence="a project's limit counts the GPUs of its jobs on nodes, not the nodes",
        pools=(nodes_pool(4),),
        nodes=(node(project="a"),),
        active=(on(runs("r", project="a"), gpus=2),),
        waiting=(
            asks("b", 2, tenant="u", project="a"),
            asks("c", tenant="u", project="a"),
        ),
        projects=(limited("a", 1),),
        decided=["begin node-1 for b"],
        waits={"c": reasons.HoldingLimit},
    ),
    Case(
        sentence="it keeps a job back also where a node has free GPUs",
        nodes=(node(project="a"),),
        active=(on(runs("r", project="a")), runs("whole", project="a")),
        waiting=(asks("b", project="a"),),
        projects=(limited("a", 1),),
        waits={"b": reasons.HoldingLimit},
    ),
    Case(
        sentence="it counts the resources of the instance alike",
        pools=(replace(nodes_pool(2), capacity=Demand(slots=2, gpus=8)),),
        nodes=(node(project="a"),),
        active=(replace(on(runs("r", project="a"), gpus=2), demand=Demand(slots=1, gpus=4)),),
        waiting=(
            replace(asks("b", project="a"), demand=Demand(slots=1, gpus=4)),
            replace(asks("c", project="a"), demand=Demand(slots=1, gpus=4)),
        ),
        projects=(limited("a", 3, "gpus"),),
        decided=["start b on n1 2"],
        waits={"c": reasons.HoldingLimit},
    ),
    Case(
        sentence="under it lower ranks on one node are evicted, though GPUs are free there",
        nodes=(node(project="a"), node("n2", project="a")),
        active=(
            on(runs("high", project="a", priority=9), gpus=3),
            on(runs("low", project="a"), "n2"),
        ),
        waiting=(asks("b", project="a", priority=5),),
        projects=(limited("a", 1),),
        decided=["evict low for b at n2"],
    ),
    Case(
        sentence="not if they hold too little",
        nodes=(node(project="a"), node("n2", project="a")),
        active=(
            on(runs("high", project="a", priority=9), gpus=3),
            on(runs("low", project="a"), "n2"),
        ),
        waiting=(asks("b", 2, project="a", priority=5),),
        projects=(limited("a", 1),),
        waits={"b": reasons.HoldingLimit},
    ),
    Case(
        sentence="who others are evicted for waits until they have stopped",
        nodes=(node(project="a"), node("n2", project="a")),
        active=(
            on(runs("high", project="a", priority=9), gpus=3),
            on(stops("low", project="a"), "n2"),
        ),
        waiting=(claims("b", 1, "n2", project="a", priority=5),),
        projects=(limited("a", 1),),
        waits={"b": reasons.NodeComing},
    ),
    Case(
        sentence="a claim that a lower limit forbids is given up",
        nodes=(node(project="a"), node("n2", project="a")),
        active=(
            on(runs("high", project="a", priority=9), gpus=4),
            on(stops("low", project="a"), "n2"),
        ),
        waiting=(claims("b", 1, "n2", project="a", priority=5),),
        projects=(limited("a", 1),),
        decided=["drop b"],
    ),
    Case(
        sentence="evicted with their node, jobs give only what they hold themselves",
        pools=(nodes_pool(3),),
        nodes=(node(project="a"),),
        active=(on(runs("low", project="a")), runs("whole", project="a", priority=9)),
        waiting=(waits("b", project="a", priority=5),),
        projects=(limited("a", 1),),
        waits={"b": reasons.HoldingLimit},
    ),
    Case(
        sentence="where a project may not exceed its quota, that counts whole nodes",
        pools=(nodes_pool(4),),
        nodes=(node(project="a"),),
        active=(on(runs("r", project="a")),),
        waiting=(asks("b", tenant="u", project="a"), asks("c", project="a")),
        projects=(quota("a", 1, over_quota=False, limit={EVERYWHERE: {"slots": 3}}),),
        decided=["start c on n1 1"],
        waits={"b": reasons.HoldingLimit},
    ),
    # How long a node lasts.
    Case(
        sentence="no job starts on a node that ends before the job has to",
        nodes=(node(ran=100 * HOUR, leaves_at=NOW + HOUR),),
        active=(LOW,),
        waiting=(asks("a", longest_attempt=2 * HOUR), asks("b", longest_attempt=HOUR)),
        decided=["begin node-1 for a", "start b on n1 1"],
    ),
    Case(
        sentence="a job that does not say how long it may run may run for a day",
        nodes=(
            node(ran=100 * HOUR, leaves_at=NOW + 24 * HOUR),
            node("n2", ran=100 * HOUR, leaves_at=NOW + 24 * HOUR - 1),
        ),
        active=(LOW, on(runs("low2"), "n2", gpus=2)),
        waiting=(asks("a"),),
        decided=["start a on n1 1"],
    ),
    Case(
        sentence="one that may run for longer than any node needs half a node's life",
        pools=(nodes_pool(1),),
        nodes=(node(leaves_at=NOW + 900_000),),
        active=(LOW,),
        waiting=(asks("a", longest_attempt=1000 * HOUR),),
        decided=["start a on n1 1"],
    ),
    Case(
        sentence="and waits for another node where less is left",
        pools=(nodes_pool(1),),
        nodes=(node(leaves_at=NOW + 899_998),),
        active=(LOW,),
        waiting=(asks("a", longest_attempt=1000 * HOUR),),
        waits={"a": reasons.NoGpusFree},
    ),
    Case(
        sentence="nothing is evicted on a node that does not last for the job",
        pools=(nodes_pool(1),),
        nodes=(node(ran=100 * HOUR, leaves_at=NOW + HOUR),),
        active=(on(runs("low"), gpus=4),),
        waiting=(asks("a", priority=1, longest_attempt=2 * HOUR),),
        decided=["evict low for a at p with n1"],
    ),
    Case(
        sentence="a claim to the node holds until it leaves",
        pools=(nodes_pool(1),),
        nodes=(node(ran=100 * HOUR, leaves_at=NOW + HOUR),),
        active=(LOW,),
        waiting=(claims("a", 2, longest_attempt=2 * HOUR),),
        decided=["start a on n1 1,2"],
    ),
    # Ends.
    Case(
        sentence="a node without jobs stays for as long as the pool keeps it",
        nodes=(node(idle=59_000),),
        wake_at=NOW + 1_000,
    ),
    *(
        Case(
            sentence=f"on a {state} node of a paused pool a claim stays, and nothing starts",
            pools=(nodes_pool(slots=1, state=PoolState.PAUSED),),
            nodes=(node(state=state),),
            waiting=(claims("j", 2),),
            waits={"j": reasons.PoolClosed},
        )
        for state in (NodeState.STARTING, NodeState.READY)
    ),
    Case(
        sentence="a drained pool gives up the claims to its nodes",
        pools=(nodes_pool(state=PoolState.DRAINED), replace(pool(slots=1), name="q")),
        nodes=(node(),),
        waiting=(replace(claims("j", 2), pools=("p", "q")),),
        decided=["drop j"],
    ),
    Case(
        sentence="a claim to a node is given up where the project may not use the pool any more",
        pools=(nodes_pool(open=False),),
        projects=(Project(name="a"), Project(name="b", quota={"p": Demand(slots=1)})),
        nodes=(node(project="a"),),
        waiting=(claims("j", 2, project="a"),),
        decided=["drop j"],
    ),
    Case(
        sentence="and where the job does not accept the pool any more",
        pools=(nodes_pool(), replace(pool(slots=1), name="q")),
        nodes=(node(),),
        waiting=(replace(claims("j", 2), pools=("q",)),),
        decided=["drop j"],
    ),
    Case(
        sentence="a claim to a node is given up where its user's limit is used up",
        nodes=(node(), node("n2")),
        active=(on(runs("r", person="ann", priority_class="NORMAL"), gpus=4),),
        users=(User(name="ann", limits={"p": {"NORMAL": 1}}),),
        waiting=(claims("j", 2, at="n2", person="ann", priority_class="NORMAL"),),
        decided=["drop j"],
    ),
    Case(
        sentence="and waits where what uses it stops",
        nodes=(node(idle=5), node("n2")),
        active=(on(stops("r", person="ann", priority_class="NORMAL"), gpus=4),),
        users=(User(name="ann", limits={"p": {"NORMAL": 1}}),),
        waiting=(claims("j", 2, at="n2", person="ann", priority_class="NORMAL"),),
        waits={"j": reasons.NodeComing},
    ),
    Case(
        sentence="a user's job that moves counts, or one user would take the turns of two",
        pools=(nodes_pool(3, time_slice=10_000),),
        nodes=(node(), node("n2"), node("n3")),
        active=(
            on(runs("r", person="ann"), gpus=4),
            replace(
                on(stops("m", person="bob"), "n3", gpus=4),
                claim=Claim(pool="p", node="n2", amount=NOTHING, since=NOW, moved=True),
            ),
        ),
        waiting=(claims("c", 4, at="n3", person="cid"), asks("j", 4, person="bob")),
        waits={"j": reasons.NoGpusFree},
    ),
    Case(
        sentence="a drained pool keeps no node without jobs",
        pools=(nodes_pool(state=PoolState.DRAINED),),
        nodes=(node(idle=5), node("n2")),
        active=(on(runs("r"), "n2"),),
        decided=["end n1: unneeded"],
    ),
    Case(sentence="then it ends", nodes=(node(idle=60_000),), decided=["end n1: keep_over"]),
    Case(
        sentence="also while others wait",
        pools=(nodes_pool(1), pool("q", 1)),
        nodes=(node(idle=60_000),),
        active=(runs("r", at="q"),),
        waiting=(waits("a", pools=("q",)),),
        decided=["end n1: keep_over"],
    ),
    Case(
        sentence="but not where a job comes to it at that moment",
        nodes=(node(idle=60_000),),
        waiting=(asks("a"),),
        decided=["start a on n1 0"],
    ),
    Case(
        sentence="a pool that keeps no nodes any more ends them",
        pools=(nodes_pool(2, None),),
        nodes=(node(idle=0),),
        decided=["end n1: unneeded"],
    ),
    Case(
        sentence="before SageMaker would end it, a node ends, and starts no job",
        nodes=(node(leaves_at=NOW),),
        active=(LOW,),
        waiting=(asks("a"),),
        decided=["begin node-1 for a", "end n1: longest_runtime"],
    ),
    Case(
        sentence="a node without jobs ends for a job that needs its instance",
        pools=(nodes_pool(1),),
        nodes=(node(idle=1),),
        waiting=(waits("a"),),
        decided=["end n1: needed by a"],
        waits={"a": reasons.SlotsComing},
    ),
    Case(
        sentence="also for a job of another tenant",
        pools=(nodes_pool(1),),
        nodes=(node(idle=1),),
        waiting=(asks("a", tenant="u"),),
        decided=["end n1: needed by a"],
    ),
    Case(
        sentence="not where a slot is free, and not for a job that lacks more than that",
        pools=(nodes_pool(3),),
        nodes=(node(idle=1),),
        active=(runs("r"),),
        waiting=(waits("a", slots=3, since=9), waits("b")),
        decided=["start b"],
    ),
    Case(
        sentence="of several the one without jobs for longest, and no more than are needed",
        pools=(nodes_pool(3),),
        nodes=(node("n1", idle=1), node("n2", idle=9), node("n3", idle=5)),
        waiting=(waits("a", slots=2),),
        decided=["end n2: needed by a", "end n3: needed by a"],
    ),
    Case(
        sentence="nothing ends where what stops already is enough",
        pools=(nodes_pool(2),),
        nodes=(node(idle=1),),
        active=(stops("s"),),
        waiting=(waits("a"),),
        waits={"a": reasons.SlotsComing},
    ),
    Case(
        sentence="who is ahead takes the instance, even if it is a node for a job behind",
        pools=(nodes_pool(1),),
        nodes=(node(idle=1),),
        waiting=(waits("a", since=9), asks("b")),
        decided=["end n1: needed by a"],
        waits={"b": reasons.NoGpusFree},
    ),
    Case(
        sentence="and a job of the tenant that is ahead takes the node",
        pools=(nodes_pool(1),),
        nodes=(node(idle=1),),
        waiting=(asks("b", since=9), waits("a")),
        decided=["start b on n1 0"],
        waits={"a": reasons.NoFreeSlots},
    ),
    # Victims.
    # Nodes that jobs only wait for.
    Case(
        sentence="a higher rank has the instance of a node on which no job has started yet",
        pools=(nodes_pool(1),),
        nodes=(node(state=NodeState.STARTING),),
        waiting=(claims("b", 1), asks("a", tenant="u", priority=5)),
        decided=["evict  for a at p with n1"],
        waits={"a": reasons.SlotsComing, "b": reasons.NoGpusFree},
    ),
    Case(
        sentence="also once the node is ready, so that nobody starts there in vain",
        pools=(nodes_pool(1),),
        nodes=(node(idle=1),),
        waiting=(claims("b", 1), asks("c", since=1), waits("a", priority=5)),
        decided=["evict  for a at p with n1"],
        waits={"b": reasons.NoGpusFree, "c": reasons.NoGpusFree},
    ),
    Case(
        sentence="and before a job is evicted that runs",
        pools=(nodes_pool(2),),
        nodes=(node(state=NodeState.STARTING),),
        active=(runs("r"),),
        waiting=(claims("b", 1), waits("a", priority=5)),
        decided=["evict  for a at p with n1"],
    ),
    Case(
        sentence="not an equal rank, nor one below the highest that waits for the node",
        pools=(nodes_pool(1),),
        nodes=(node(state=NodeState.STARTING),),
        waiting=(claims("b", 1), claims("c", 1, priority=5), waits("a", priority=5)),
        waits={"a": reasons.NoFreeSlots, "b": reasons.NodeComing},
    ),
    Case(
        sentence="nor where a job waits for the node that is never evicted",
        pools=(nodes_pool(1),),
        nodes=(node(state=NodeState.STARTING),),
        waiting=(claims("b", 1, preemptible=False), waits("a", priority=5)),
        waits={"a": reasons.NoFreeSlots},
    ),
    Case(
        sentence="nor while SageMaker has not answered the node's start",
        pools=(nodes_pool(1),),
        nodes=(replace(node(state=NodeState.STARTING), created=False),),
        waiting=(claims("b", 1), waits("a", priority=5)),
        waits={"a": reasons.NoFreeSlots},
    ),
    Case(
        sentence="nor where a `min_runtime` will protect the job that waits for the node",
        pools=(nodes_pool(1, min_runtime=60_000),),
        nodes=(node(idle=1),),
        waiting=(claims("b", 1), waits("a", priority=5)),
        decided=["start b on n1 0"],
    ),
    Case(
        sentence="another project takes back a node that jobs of one beyond its share wait for",
        nodes=(node("n1", project="a", state=NodeState.STARTING), node("n2", project="a")),
        active=(on(runs("r", project="a"), "n2"),),
        waiting=(claims("c", 1, project="a"), waits("b", project="b")),
        projects=(quota("a", 1), quota("b", 1)),
        decided=["evict  for b at p with n1"],
    ),
    Case(
        sentence="lower ranks on one node are evicted, and no more than are needed",
        pools=(nodes_pool(1),),
        nodes=(node(),),
        active=FULL,
        waiting=(asks("a", 2, priority=5),),
        decided=["evict r3 r2 for a at n1"],
        waits={"a": reasons.NodeComing},
    ),
    Case(
        sentence="never jobs on two nodes for one job",
        pools=(nodes_pool(2),),
        nodes=(node("n1"), node("n2")),
        active=(
            on(runs("r", priority=9), gpus=3),
            on(runs("s"), first=3),
            on(runs("t", priority=9), "n2", gpus=3),
            on(runs("u"), "n2", first=3),
        ),
        waiting=(asks("a", 2, priority=5),),
        waits={"a": reasons.NoGpusFree},
    ),
    Case(
        sentence="of all nodes the least harm: less work lost there",
        pools=(nodes_pool(2),),
        nodes=(node("n1"), node("n2")),
        active=(on(runs("r", since=50_000), gpus=4), on(runs("s", since=9_000), "n2", gpus=4)),
        waiting=(asks("a", 1, priority=5),),
        decided=["evict s for a at n2"],
    ),
    Case(
        sentence="a job evicts on a node of its own rather than a whole instance",
        pools=(nodes_pool(2),),
        nodes=(node(),),
        active=(*FULL, runs("whole", since=1)),
        waiting=(asks("a", 1, priority=5),),
        decided=["evict r3 for a at n1"],
    ),
    Case(
        sentence="no job of equal rank, nor one that is not preemptible",
        pools=(nodes_pool(1),),
        nodes=(node(),),
        active=(
            on(runs("r", preemptible=False), gpus=2),
            on(runs("s", priority=5), first=2, gpus=2),
        ),
        waiting=(asks("a", 1, priority=5),),
        waits={"a": reasons.NoGpusFree},
    ),
    Case(
        sentence="for a whole instance all jobs of a node are evicted, and the node ends",
        pools=(nodes_pool(1),),
        nodes=(node(),),
        active=(LOW, on(runs("low2"), first=1)),
        waiting=(waits("a", priority=5),),
        decided=["evict low low2 for a at p with n1"],
    ),
    Case(
        sentence="unless one of them may not be",
        pools=(nodes_pool(1),),
        nodes=(node(),),
        active=(LOW, on(runs("fixed", preemptible=False), first=1)),
        waiting=(waits("a", priority=5),),
        waits={"a": reasons.LowerRankedProtected},
    ),
    Case(
        sentence="or has the same rank as the job",
        pools=(nodes_pool(1),),
        nodes=(node(),),
        active=(LOW, on(runs("high", priority=5), first=1)),
        waiting=(waits("a", priority=5),),
        waits={"a": reasons.NoFreeSlots},
    ),
    Case(
        sentence="a min. runtime of one protects the node",
        pools=(nodes_pool(1, min_runtime=20_000),),
        nodes=(node(),),
        active=(on(runs("old", since=50_000)), on(runs("new", since=5_000), first=1)),
        waiting=(waits("a", priority=5),),
        waits={"a": reasons.LowerRankedProtected},
        wake_at=NOW + 15_000,
    ),
    Case(
        sentence="a node where a job has just started is not evicted in the same plan",
        pools=(nodes_pool(1),),
        nodes=(node(),),
        active=(LOW,),
        waiting=(asks("b", priority=9), waits("a", priority=5)),
        decided=["start b on n1 1"],
    ),
    Case(
        sentence="a job on a node that is evicted whole leaves nothing to others there",
        pools=(nodes_pool(1),),
        nodes=(node(),),
        active=(LOW,),
        waiting=(waits("a", priority=5), asks("b")),
        decided=["evict low for a at p with n1"],
        waits={"b": reasons.NoGpusFree},
    ),
    # Claims.
    Case(
        sentence="GPUs owed to a claimant are not for others",
        pools=(nodes_pool(1),),
        nodes=(node(),),
        active=(on(stops("s"), gpus=2), on(runs("r", priority=9), first=2, gpus=2)),
        waiting=(claims("a", 2, priority=5), asks("b", priority=5, since=9)),
        waits={"a": reasons.NodeComing, "b": reasons.NoGpusFree},
    ),
    Case(
        sentence="except for a job that outranks the claimant, whose claim then cannot be met",
        pools=(nodes_pool(1),),
        nodes=(node(),),
        active=(on(stops("s"), gpus=2), on(runs("r", priority=9), first=2, gpus=2)),
        waiting=(claims("a", 2, priority=5), asks("b", priority=7)),
        decided=["drop a"],
    ),
    # Quotas, shares and limits.
    Case(
        sentence="a node counts as one slot of its project, however many jobs are on it",
        nodes=(node(project="a"),),
        active=(on(runs("r", project="a")), on(runs("s", project="a"), first=1)),
        waiting=(asks("b", project="a"), asks("c", 4, project="a")),
        projects=(quota("a", 2, limit={EVERYWHERE: {"slots": 1}}), quota("b", 0)),
        decided=["start b on n1 2"],
        waits={"c": reasons.HoldingLimit},
    ),
    Case(
        sentence="a node without jobs counts for nobody",
        nodes=(node(project="a", idle=1),),
        waiting=(waits("b", slots=2, project="b"),),
        projects=(quota("a", 1), quota("b", 1)),
        decided=["end n1: needed by b"],
    ),
    Case(
        sentence="another project takes back the node of one beyond its share, whole",
        nodes=(node("n1", project="a"), node("n2", project="a")),
        active=(
            on(runs("r", project="a", since=90_000)),
            on(runs("s", project="a"), "n2"),
            on(runs("t", project="a"), "n2", first=1),
        ),
        waiting=(waits("b", project="b"),),
        projects=(quota("a", 1), quota("b", 1)),
        decided=["evict s t for b at p with n2"],
    ),
    Case(
        sentence="not of one within it",
        nodes=(node("n1", project="a"), node("n2", project="a")),
        active=(on(runs("r", project="a")), on(runs("s", project="a"), "n2")),
        waiting=(waits("b", project="b"),),
        projects=(quota("a", 2), quota("b", 0)),
        waits={"b": reasons.ShareUsed},
    ),
    Case(
        sentence="work that is never evicted makes its node count as such",
        nodes=(node(project="a"),),
        active=(on(runs("r", project="a")),),
        waiting=(asks("b", project="a", preemptible=False),),
        projects=(quota("a", 0), quota("b", 2)),
        waits={"b": reasons.QuotaExceeded},
    ),
    Case(
        sentence="a user's limit counts the user's own GPUs, a slot being those of an instance",
        pools=(nodes_pool(1),),
        nodes=(node(),),
        active=(on(runs("r", person="ann"), gpus=2),),
        waiting=(
            asks("a", 2, person="ann", priority_class="NORMAL"),
            asks("b", 1, person="ann", priority_class="NORMAL"),
        ),
        users=(User(name="ann", limits={"p": {"NORMAL": 1}}),),
        decided=["start a on n1 2,3"],
    ),
    # Nodes that take one person's jobs.
    Case(
        sentence="a node of one person's jobs takes those of who comes first, and no other's",
        pools=(nodes_pool(1),),
        nodes=(node(one_person=True, idle=1),),
        waiting=(asks("a", person="ann"), asks("b", person="bob"), asks("c", person="ann")),
        decided=["start a on n1 0", "start c on n1 1"],
        waits={"b": reasons.NoGpusFree},
    ),
    Case(
        sentence="another person's job starts a node of its own",
        nodes=(node(one_person=True),),
        active=(on(runs("a", person="ann")),),
        waiting=(asks("b", person="bob"), asks("c", person="bob"), asks("d", person="ann")),
        decided=["begin node-1 for b", "start d on n1 1"],
        waits={"c": reasons.NodeComing},
    ),
    Case(
        sentence="which the first person's jobs do not wait for: it will take one person's, too",
        pools=(nodes_pool(2),),
        nodes=(node(one_person=True), node("n2", state=NodeState.STARTING)),
        active=(on(runs("a", person="ann"), gpus=4),),
        waiting=(claims("b", 1, "n2", person="bob"), asks("d", person="ann")),
        waits={"b": reasons.NodeComing, "d": reasons.NoGpusFree},
    ),
    Case(
        sentence="a higher rank has its instance where another person's job only waits for it",
        pools=(nodes_pool(1),),
        nodes=(node(one_person=True, idle=1),),
        waiting=(claims("b", 1, person="bob"), asks("a", 4, person="ann", priority=5)),
        decided=["evict  for a at p with n1"],
        waits={"b": reasons.NoGpusFree},
    ),
    Case(
        sentence="jobs that stop keep others out, who wait for the node and start no other",
        nodes=(node(one_person=True),),
        active=(on(stops("a", person="ann")),),
        waiting=(asks("b", person="bob"),),
        waits={"b": reasons.NodeComing},
    ),
    Case(
        sentence="lower ranks of another person give no part of their node",
        pools=(nodes_pool(1, min_runtime=20_000),),
        nodes=(node(one_person=True),),
        active=(
            on(runs("a", person="ann"), gpus=2),
            on(runs("new", person="ann", since=5_000), first=2, gpus=2),
        ),
        waiting=(asks("b", person="bob", priority=5),),
        waits={"b": reasons.NoGpusFree},
    ),
    Case(
        sentence="but all of it, as to another tenant",
        pools=(nodes_pool(1),),
        nodes=(node(one_person=True),),
        active=(on(runs("a", person="ann")), on(runs("c", person="ann"), first=1)),
        waiting=(asks("b", person="bob", priority=5),),
        decided=["evict a c for b at p with n1"],
    ),
    Case(
        sentence="lower ranks of the same person give theirs",
        pools=(nodes_pool(1),),
        nodes=(node(one_person=True),),
        active=(on(runs("a", person="ann"), gpus=2), on(runs("c", person="ann"), first=2, gpus=2)),
        waiting=(asks("b", person="ann", priority=5),),
        decided=["evict c for b at n1"],
    ),
    Case(
        sentence="a claim to a node that another person's jobs have is given up",
        pools=(nodes_pool(1),),
        nodes=(node(one_person=True),),
        active=(on(runs("a", person="ann")),),
        waiting=(claims("b", 1, person="bob"),),
        decided=["drop b"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_rule(case: Case):
    planned = plan(case.snapshot(), NOW)
    assert said(planned) == list(case.decided)
    for name, kind in case.waits.items():
        assert isinstance(planned.reasons[name], kind), planned.reasons[name]
    if case.wake_at is not None:
        assert planned.wake_at == case.wake_at


def outlook_of(name: str, **world: Any) -> outlook.Outlook:
    world = {"pools": (nodes_pool(1),), "nodes": (node(),), **world}
    snapshot = Snapshot(**world)
    asked = next(job for job in snapshot.waiting if job.name == name)
    found = plan(snapshot, NOW, asked).outlook
    assert found is not None
    return found


def test_after_a_capacity_error_the_nodes_of_a_gang_are_one_probe() -> None:
    """As the instances of its members are. No other job starts in the pool meanwhile."""
    tried = nodes_pool(3, health=PoolHealth(errors=1, not_before=NOW - 1))
    gang = [asks(name, 4, group="g", since=9) for name in ("a", "b")]
    planned = plan(
        Snapshot(
            pools=(tried,),
            waiting=(*gang, waits("c")),
            groups=(Group(name="g", members=("a", "b")),),
        ),
        NOW,
    )
    assert said(planned) == ["begin node-1 for a", "begin node-2 for b"]
    assert isinstance(planned.reasons["c"], reasons.PoolIsProbed)


def test_members_of_a_gang_with_claims_do_not_start_in_a_paused_pool() -> None:
    snapshot = Snapshot(
        pools=(nodes_pool(state=PoolState.PAUSED),),
        nodes=(node(),),
        groups=(Group(name="g", members=("a", "b")),),
        waiting=tuple(replace(claims(name, 1), group="g") for name in "ab"),
    )
    assert plan(snapshot, NOW).decisions == ()
    assert said(plan(replace(snapshot, pools=(nodes_pool(),)), NOW)) == ["StartGang"]


def test_the_outlook_counts_the_gpus_of_a_node_and_names_the_jobs_there() -> None:
    found = outlook_of(
        "a",
        active=(
            on(runs("same")),
            on(runs("fixed", preemptible=False), first=1),
            on(stops("gone"), first=2),
        ),
        waiting=(asks("a", 3),),
    )
    assert found.rooms == (
        outlook.Room(pool="p", needed=3, free=1, coming=1, missing=1, resource="gpus"),
    )
    assert [spared.sentence() for spared in found.spared] == [
        "gone holds 1 GPU on nodes of pool p: already stopping",
        "same holds 1 GPU on nodes of pool p: of equal or higher priority",
        "fixed holds 1 GPU on nodes of pool p: not preemptible",
    ]


@pytest.mark.parametrize(
    "setting", [{"consolidate": True}, {"time_slice": HOUR}, {"consolidate": False}]
)
def test_the_outlook_says_whose_jobs_stay_where_others_move_or_yield(setting) -> None:
    (mine, *_) = outlook_of(
        "a",
        pools=(nodes_pool(1, **setting),),
        active=(on(runs("mine", person="ann"), gpus=4),),
        waiting=(asks("a", person="ann"),),
    ).spared
    says = "of the same user and rank" if any(setting.values()) else "of equal or higher priority"
    assert mine.sentence() == f"mine holds 4 GPUs on nodes of pool p: {says}"


def test_lower_ranks_on_two_nodes_do_not_add_up() -> None:
    found = outlook_of(
        "a",
        pools=(nodes_pool(2),),
        nodes=(node(), node("n2")),
        active=(
            on(runs("low"), gpus=2),
            on(runs("high", priority=9), first=2, gpus=2),
            on(runs("low2"), "n2", gpus=2),
            on(runs("high2", priority=9), "n2", first=2, gpus=2),
        ),
        waiting=(asks("a", 3, priority=5),),
    )
    would = next(each for each in found.spared if isinstance(each, outlook.WouldNotHelp))
    assert (would.jobs, would.gpus, would.missing) == (("low", "low2"), 4 * WHOLE, 3)


def test_a_job_that_waits_for_a_node_waits_for_no_eviction() -> None:
    found = outlook_of(
        "a", active=(on(stops("s"), gpus=3), on(runs("r"), first=3)), waiting=(asks("a", 2),)
    )
    assert (found.spared, found.times) == ((), ())
    assert [(room.coming, room.missing) for room in found.rooms] == [(3, 0)]


def test_a_job_is_told_that_a_node_starts_for_it_and_how_long_starts_took() -> None:
    starting = node("n2", state=NodeState.STARTING, ran=0, started_for="a")
    world = {
        "pools": (nodes_pool(3),),
        "waiting": (claims("a", 2, "n2"), asks("b", 4)),
    }
    found = outlook_of("a", nodes=(starting,), **world)
    assert [(room.free, room.coming, room.missing) for room in found.rooms] == [(0, 4, 0)]
    (kept,) = found.reserved
    text = (
        f"node n2 of pool p has been starting for a since {iso(NOW - 100_000)}, with 2 GPUs for it"
    )
    assert (kept.code, kept.sentence()) == ("node_starts", text)
    slow = replace(node("n3"), started_at=NOW - 1_100_000)  # It had its instance after 200 s.
    (kept,) = outlook_of("a", nodes=(node(), slow, starting), **world).reserved
    assert kept.sentence() == f"{text}; starts there took up to 3 min"


def test_a_claim_to_a_ready_node_is_owed_gpus() -> None:
    found = outlook_of(
        "a",
        pools=(nodes_pool(2),),  # The other instance is free, and not what the job waits for.
        active=(on(stops("s"), gpus=2), on(runs("r", priority=9), first=2, gpus=2)),
        waiting=(claims("a", 2, priority=5),),
    )
    assert found.rooms == (
        outlook.Room(pool="p", needed=2, free=0, coming=2, missing=0, resource="gpus"),
    )
    assert [kept.sentence() for kept in found.reserved] == [
        "2 GPUs of node n1 of pool p are owed to a: other jobs were stopped for it"
    ]


def test_jobs_of_a_node_are_named_to_a_job_that_takes_instances() -> None:
    found = outlook_of("a", active=(LOW, on(runs("low2"), first=1, gpus=2)), waiting=(waits("a"),))
    (spared,) = found.spared
    assert spared.sentence() == "low, low2 hold 1 slot of pool p: of equal or higher priority"


@pytest.mark.parametrize(
    ("sizes", "left", "needed"),
    [
        ({1: 60}, [], 15),
        ({1: 60}, [3, 4], 14),
        ({3: 5}, [], 5),
        ({3: 2, 1: 2}, [], 2),
        ({4: 1, 2: 3, 1: 3}, [], 4),
        ({2: 2, 1: 1}, [3, 0], 1),
        ({}, [2], 0),
        ({0.25: 60}, [], 4),
        ({0.25: 60}, [1], 4),
        ({0.6: 5}, [], 2),  # Two parts of 0.6 are on two GPUs.
        ({0.05: 100}, [], 4),  # A node runs 32 jobs.
        ({3: 1, 0.5: 2, 0.25: 1}, [], 2),
    ],
)
def test_how_many_nodes_of_four_gpus_jobs_need(
    sizes: dict[float, int], left: list[int], needed: int
) -> None:
    rooms = [(WHOLE,) * whole for whole in left]
    in_hundredths = {round(WHOLE * size): count for size, count in sizes.items()}
    assert instances(in_hundredths, rooms, (WHOLE,) * 4) == needed


@pytest.mark.parametrize(
    ("active", "waiting", "asked"),
    [
        ((), tuple(asks(f"a{n}", project="a") for n in range(9)), 3),
        ((on(runs("r", project="a")),), tuple(asks(f"a{n}", project="a") for n in range(3)), 0),
        ((on(runs("r", project="a")),), tuple(asks(f"a{n}", project="a") for n in range(4)), 1),
        ((), (asks("a", project="a"), asks("b", project="a", tenant="u")), 2),
        ((), (asks("a", project="a"), waits("whole", project="a")), 2),
        ((on(runs("r", project="a")),), (claims("a", 2, project="a"),), 0),
    ],
    ids=["packed", "beside a job", "beyond it", "two tenants", "whole", "claims"],
)
def test_waiting_jobs_ask_for_the_instances_they_would_need(
    active: tuple[Job, ...], waiting: tuple[Job, ...], asked: int
) -> None:
    world = Snapshot(
        pools=(nodes_pool(5),),
        nodes=(node(project="a"),) if active else (),
        active=active,
        waiting=waiting,
        projects=(quota("a", 0),),
    )
    (status,) = share_statuses(world, NOW)
    assert (status.held, status.waiting) == (len(active), asked)


def test_members_of_a_gang_ask_for_the_instance_that_holds_them() -> None:
    world = Snapshot(
        pools=(nodes_pool(5),),
        waiting=(asks("a", project="a", group="g"), asks("b", project="a", group="g")),
        groups=(Group(name="g", members=("a", "b")),),
        projects=(quota("a", 0),),
    )
    (status,) = share_statuses(world, NOW)
    assert status.waiting == 1


def test_a_request_is_the_same_before_and_behind_the_rest_of_a_line() -> None:
    world = Snapshot(
        pools=(nodes_pool(5),),
        waiting=(asks("a", project="a"),),
        behind={"a": 8},
        projects=(quota("a", 0),),
    )
    (status,) = share_statuses(world, NOW)
    assert status.waiting == 3


def test_who_waits_is_told_of_the_gpus_that_are_not_for_another_person() -> None:
    world: dict[str, Any] = {
        "nodes": (node(one_person=True),),
        "active": (on(runs("a", person="ann", priority=9)),),
        "waiting": (asks("b", person="bob"),),
    }
    reason = plan(Snapshot(pools=(nodes_pool(1),), **world), NOW).reasons["b"]
    assert isinstance(reason, reasons.NoGpusFree)
    assert (reason.free, reason.others) == (0, 3 * WHOLE)
    assert reason.sentence() == (
        "no node has 1 GPU free for it; 3 GPUs more, where another person's jobs run: nodes of "
        "this pool take one person's jobs at a time; pool p has no free instance"
    )
    found = outlook_of("b", **world)
    assert [(room.free, room.coming, room.missing) for room in found.rooms] == [(0, 0, 1)]
    (spared,) = found.spared
    assert isinstance(spared, outlook.OfAnotherPerson)
    assert spared.sentence() == (
        "a holds 1 GPU on nodes of pool p: of another person, and the node takes the jobs of one "
        "person at a time"
    )


@pytest.mark.parametrize("names", [("ann", "bob"), ("bob", "ann")])
def test_the_oldest_claim_says_whose_a_node_is(names: tuple[str, str]) -> None:
    """Whatever the order in which the store has the claimants."""
    since = {"ann": NOW - 1, "bob": NOW - 2}
    claimants = [claims(name, 1, person=name) for name in names]
    waiting = [
        replace(job, claim=replace(job.claim, since=since[job.name]))
        for job in claimants
        if job.claim
    ]
    world = Snapshot(
        pools=(nodes_pool(1),), nodes=(node(one_person=True, idle=1),), waiting=tuple(waiting)
    )
    assert said(plan(world, NOW)) == ["drop ann"]


def test_each_person_asks_for_nodes_of_their_own_where_these_take_one_persons_jobs() -> None:
    for alone, needed in ((True, 2), (False, 1)):
        world = Snapshot(
            pools=(nodes_pool(4),),
            nodes=(node(one_person=alone, project="a"),),
            active=(on(runs("r", project="a", person="ann")),),
            waiting=(
                asks("b", 1, project="a", person="bob"),
                asks("c", 4, project="a", person="bob"),
                asks("d", 2, project="a", person="ann"),
            ),
            projects=(quota("a", 0),),
        )
        (status,) = share_statuses(world, NOW)
        assert status.waiting == needed


def test_jobs_of_a_node_that_cannot_be_read_are_left_alone():
    """The store then counts the node's slot as foreign."""
    there = nodes_pool(1, foreign=Demand(slots=1))
    for waiting in (waits("w", priority=9), asks("w", priority=9)):
        planned = plan(Snapshot(pools=(there,), active=(on(runs("a")),), waiting=(waiting,)), NOW)
        assert said(planned) == []


def test_a_gang_without_room_says_what_the_nodes_have_left_beside_its_other_members() -> None:
    world = Snapshot(
        pools=(nodes_pool(1),),
        nodes=(node(),),
        active=(on(runs("old")),),
        waiting=(asks("a", 2, group="g"), asks("b", 2, group="g")),
        groups=(Group(name="g", members=("a", "b")),),
    )
    planned = plan(world, NOW)
    assert planned.decisions == ()
    why = planned.reasons["a"]
    assert why == planned.reasons["b"]
    assert "no node has 2 GPUs free for it; 1 is free" in why.also.sentence(), why.also.sentence()
    assert "old" in why.sentence() and "n1" not in why.sentence()


def test_the_jobs_of_an_evicted_node_come_in_one_order_however_they_were_read() -> None:
    """The same world gives the same plan, whatever the store's order."""
    jobs = [on(runs(name), first=place) for place, name in enumerate("cab")]
    world = {"pools": (nodes_pool(1),), "nodes": (node(),), "waiting": (waits("w", priority=5),)}
    plans = [plan(Snapshot(active=active, **world), NOW) for active in (jobs, jobs[::-1])]
    assert [said(planned) for planned in plans] == [["evict a b c for w at p with n1"]] * 2

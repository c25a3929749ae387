"""Random worlds with nodes, and what a queue makes of a plan there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from hypothesis import strategies as st

from slotq_core.admission.groups import check_room
from slotq_core.errors import NeverFits
from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import MOST_JOBS, Node, NodeState
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.model.projects import EVERYWHERE, Project
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import Yielded
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import steps
from slotq_core.policy.lifecycle.retry import Ending, after_end
from slotq_core.policy.order import after_yield
from slotq_core.policy.plan import Decision, EndNode, Evict, Move, Plan, StartGang, StartNode

TICK = 10_000
"""The time between two plans (ms)."""
GPUS = 4
PARTS = (25, 25, 50, 50, 60, 95, 5)
"""In hundredths of a GPU."""


@dataclass(kw_only=True)
class World:
    """A queue with nodes. Each tick everything that was ordered has happened."""

    pools: tuple[Pool, ...]
    projects: tuple[Project, ...]
    jobs: dict[str, Job]
    left: dict[str, int]
    """By job, for how many more ticks it runs."""
    groups: dict[str, Group] = field(default_factory=dict)
    comes: dict[str, int] = field(default_factory=dict)
    """By job, when it comes (ms), if it does not wait from the beginning."""
    nodes: dict[tuple[str, str], Node] = field(default_factory=dict)
    generation: int = 0
    for_one_person: frozenset[str] = frozenset()
    """The pools whose nodes take one person's jobs at a time."""
    now: int = 1_000_000
    yields: tuple[Yielded, ...] = ()
    begun: int = 0
    """The nodes started so far."""

    def snapshot(self, rng: random.Random | None = None) -> Snapshot:
        jobs, nodes = [*self.jobs.values()], [*self.nodes.values()]
        pools = [*self.pools]
        if rng is not None:
            for each in (jobs, nodes, pools):
                rng.shuffle(each)
        return Snapshot(
            pools=tuple(pools),
            projects=self.projects,
            yields=self.yields,
            nodes=tuple(nodes),
            groups=tuple(self.groups.values()),
            active=tuple(job for job in jobs if job.active),
            waiting=tuple(
                job for job in jobs if job.waits and self.comes.get(job.name, 0) <= self.now
            ),
        )

    def carry_out(self, planned: Plan) -> None:
        """Commit the decisions."""
        by_name = {pool.name: pool for pool in self.pools}
        for decision in planned.decisions:
            for _, after in steps(decision, by_name, self.now):
                self.yields = after_yield(self.yields, self.jobs[after.name], after)
                self.jobs[after.name] = after
                self._note_end(after)
            self._check_whole(decision)
            if isinstance(decision, StartNode):
                self._begin(decision)
            ended = decision.nodes if isinstance(decision, Evict | Move) else ()
            ended = (decision.node,) if isinstance(decision, EndNode) else ended
            for node in ended:
                key = node.pool, node.name
                self.nodes[key] = replace(self.nodes[key], state=NodeState.DRAINING)

    def _check_whole(self, decision: Decision) -> None:
        """All or none: enough of a gang starts together, and all of it stops together."""
        if isinstance(decision, StartGang):
            group = self.groups[decision.group]
            least = group.min_members or len(group.members)
            done = [state for state in group.ended.values() if state is JobState.COMPLETED]
            assert len(decision.starts) + len(done) >= least, decision
        if isinstance(decision, Evict):
            for name in {victim.group for victim in decision.victims if victim.group}:
                members = (self.jobs[member] for member in self.groups[name].members)
                runs = [job.name for job in members if job.active]
                assert all(self.jobs[job].state is JobState.STOPPING for job in runs), decision

    def settle(self) -> list[Plan]:
        """Plan until nothing is left to decide at this moment."""
        made = []
        for _ in range(3 * len(self.jobs) + 3):
            planned = plan(self.snapshot(), self.now)
            made.append(planned)
            if not planned.decisions:
                return made
            self.carry_out(planned)
        raise AssertionError("the plan does not settle")

    def come(self, late: Iterable[Job]) -> None:
        """Let further jobs come."""
        for number, job in enumerate(late):
            name, above = f"late{number:02}", job.priority + 4
            self.jobs[name] = replace(job, name=name, priority=above, entry_time=self.now)
            self.left[name] = 2

    def tick(self) -> None:
        """Let time pass: what stops has stopped, nodes are ready or gone, jobs run and end."""
        self.now += TICK
        for job in [*self.jobs.values()]:
            if job.state is JobState.STOPPING:
                self._after(job, Ending.STOPPED)
            elif job.state is JobState.RUNNING:
                self.left[job.name] -= 1
                if self.left[job.name] <= 0:
                    self._after(job, Ending.COMPLETED)
            elif job.state is JobState.STARTING and job.attempt:
                attempt = replace(job.attempt, created=True, running_since=self.now)
                self.jobs[job.name] = replace(job, state=JobState.RUNNING, attempt=attempt)
        for key, node in [*self.nodes.items()]:
            busy = any(self._is_on(job, node) for job in self.jobs.values() if job.active)
            if node.state is NodeState.STARTING:
                alone = node.pool in self.for_one_person
                ready = replace(node, state=NodeState.READY, running_since=self.now)
                ready = replace(ready, one_person=alone)
                self.nodes[key] = replace(ready, idle_since=self.now)
            elif node.state is NodeState.DRAINING and not busy:
                del self.nodes[key]
            elif busy or node.idle_since is None:
                self.nodes[key] = replace(node, idle_since=None if busy else self.now)

    def _after(self, job: Job, ending: Ending) -> None:
        self.jobs[job.name] = after = after_end(job, ending, at=self.now, now=self.now).job
        self._note_end(after)

    def _note_end(self, job: Job) -> None:
        if job.terminal and job.group:
            group = self.groups[job.group]
            ended = {**group.ended, job.name: job.state}
            self.groups[job.group] = replace(group, ended=ended)

    def _begin(self, start: StartNode) -> None:
        key = start.pool, start.name
        assert key not in self.nodes, "a node of that name is there already"
        self.generation += 1
        self.begun += 1
        self.nodes[key] = Node(
            name=start.name,
            pool=start.pool,
            generation=self.generation,
            state=NodeState.STARTING,
            tenant=start.job.tenant,
            project="" if self._is_shared(start.pool) else start.job.project,
            contents=Demand(gpus=GPUS),
            training_job=start.name,
            token="",
            started_for=start.job.name,
            started_at=self.now,
            created=True,
        )

    def _is_shared(self, pool: str) -> bool:
        return any(kept.name == pool and kept.nodes and kept.nodes.shared for kept in self.pools)

    @staticmethod
    def _is_on(job: Job, node: Node) -> bool:
        attempt = job.attempt
        return attempt is not None and (attempt.pool, attempt.node) == (node.pool, node.name)

    def check(self) -> None:
        """No GPU twice, no two tenants on a node, no two persons where it takes one's jobs, no pool
        over its capacity."""
        for key, node in self.nodes.items():
            on_it = [job for job in self.jobs.values() if job.active and self._is_on(job, node)]
            taken = Counter[int]()
            for attempt in (job.attempt for job in on_it if job.attempt):
                taken.update(attempt.gpus_held)
            assert max(taken.values(), default=0) <= WHOLE, key
            assert taken.total() == sum(job.gpus for job in on_it), key
            assert all(index in range(GPUS) for index in taken), key
            assert len(on_it) <= MOST_JOBS, key
            assert {job.tenant for job in on_it} <= {node.tenant}, key
            assert len({job.person for job in on_it}) < 2 or not node.one_person, key
        for pool in self.pools:
            held = sum(key[0] == pool.name for key in self.nodes)
            for job in self.jobs.values():
                if job.active and job.attempt and job.attempt.pool == pool.name:
                    gone = (pool.name, job.attempt.node) not in self.nodes
                    assert not (job.attempt.node and gone), "its node has ended"
                    held += 0 if job.attempt.node else job.demand.slots
            assert held <= pool.capacity.slots, pool.name
        for project in self.projects:
            most = project.limit.get(EVERYWHERE, {}).get("slots")
            active = [job for job in self.jobs.values() if job.active and job.attempt]
            held = sum(
                job.gpus if job.attempt and job.attempt.node else job.demand.slots * WHOLE * GPUS
                for job in active
                if job.project == project.name
            )
            assert most is None or held <= most * WHOLE * GPUS, (project.name, held)
            shared = all(pool.nodes is None or pool.nodes.shared for pool in self.pools)
            if shared and not project.over_quota and project.quota:  # Its quota is its limit.
                deserved = project.quota[EVERYWHERE].slots
                assert held <= deserved * WHOLE * GPUS, (project.name, held)


def check_in_any_order(world: World, rng: random.Random) -> None:
    """The plan does not hang on the order in which the store hands out what there is."""
    for _ in range(6):
        expected, now = plan(world.snapshot(), world.now), world.now
        shuffled = plan(world.snapshot(rng), now)
        assert shuffled.decisions == expected.decisions
        assert dict(shuffled.reasons) == dict(expected.reasons)
        assert shuffled.wake_at == expected.wake_at
        world.settle()
        world.tick()


@st.composite
def worlds(
    draw: st.DrawFn,
    *,
    with_projects: bool = False,
    with_limits: bool = False,
    with_gangs: bool = False,
    shared: bool = False,
    sliced: bool = False,
) -> World:
    """Nothing runs yet: what a few ticks make of it is the world to look at. `shared`: projects
    share the nodes of each pool. `sliced`: users take turns."""
    pools = tuple(
        Pool(
            name=name,
            instance_type="ml.test",
            capacity=Demand(slots=draw(st.integers(1, 3))),
            nodes=rules,
            min_runtime=draw(st.sampled_from([0, 0, 0, 25_000])),
            reserve_after=draw(st.sampled_from([None, None, 0, 30_000])),
            consolidate=draw(st.sampled_from([False, True, True])),
            time_slice=draw(st.sampled_from([15_000, 25_000])) if sliced else None,
        )
        for name, rules in [
            (
                "p",
                NodeRules(gpus=GPUS, keep=draw(st.sampled_from([20_000, 50_000])), shared=shared),
            ),
            ("q", draw(st.sampled_from([None, NodeRules(gpus=GPUS, keep=30_000, shared=shared)]))),
        ][: draw(st.integers(1, 2))]
    )
    projects: tuple[Project, ...] = ()
    if with_projects or with_limits or shared:
        quota = partial(draw, st.integers(0, 2))
        limits = st.sampled_from([{}, {EVERYWHERE: {"slots": 1}}, {EVERYWHERE: {"slots": 2}}])
        projects = tuple(
            Project(
                name=name,
                quota={EVERYWHERE: Demand(slots=quota())},
                limit=draw(limits) if with_limits else {},
                over_quota=draw(st.sampled_from([True, True, False])) if shared else True,
            )
            for name in ("abc" if shared else "ab")
        )
    jobs = [
        draw(_job(f"j{n:02}", [pool.name for pool in pools], projects=projects, shared=shared))
        for n in range(draw(st.integers(1, 14)))
    ]
    if sliced:
        users = st.sampled_from(["ann", "bob", "cyd"])
        jobs = [replace(job, person=draw(users), priority=job.priority // 3) for job in jobs]
    left = {job.name: draw(st.sampled_from([1, 2, 3, 5])) for job in jobs}
    ticks = st.sampled_from([0, 0, 1, 2, 4])
    world = World(
        pools=pools,
        projects=projects,
        jobs={job.name: job for job in jobs},
        left=left,
        for_one_person=draw(st.sampled_from([frozenset(), frozenset({"p"}), frozenset("pq")])),
        comes={job.name: World.now + TICK * draw(ticks) for job in jobs}
        if shared or sliced
        else {},
    )
    for number in range(draw(st.integers(1, 3)) if with_gangs else 0):
        draw(_gang(world, f"g{number}"))
    return world


@st.composite
def scattered(draw: st.DrawFn) -> World:
    """One pool that is full of nodes, in which jobs may move: small jobs on them end one by one,
    while large ones and whole instances wait."""
    pool = Pool(
        name="p",
        instance_type="ml.test",
        capacity=Demand(slots=draw(st.integers(2, 4))),
        nodes=NodeRules(
            gpus=GPUS, keep=draw(st.sampled_from([20_000, 50_000])), shared=draw(st.booleans())
        ),
        min_runtime=draw(st.sampled_from([0, 0, 25_000])),
        consolidate=True,
    )
    projects: tuple[Project, ...] = ()
    if draw(st.booleans()):
        projects = tuple(
            Project(name=name, quota={EVERYWHERE: Demand(slots=draw(st.integers(0, 3)))})
            for name in "ab"
        )
    sizes = draw(st.sampled_from([[100, 100, 200, 300, 400], [100, *PARTS, 400], [*PARTS, 0]]))
    world = World(pools=(pool,), projects=projects, jobs={}, left={})
    for number in range(draw(st.integers(6, 24))):
        job = draw(_job(f"j{number:02}", ["p"], projects=projects))
        gpus = draw(st.sampled_from(sizes))
        tenant = ("" if pool.nodes and pool.nodes.shared else job.project) + "x"
        world.jobs[job.name] = replace(
            job,
            gpus=gpus,
            tenant=tenant if gpus else "",
            demand=Demand(slots=1),
            priority=draw(st.sampled_from([0, 0, 0, 1])),
        )
        world.left[job.name] = draw(st.sampled_from([1, 2, 3, 5, 9]))
    return world


@st.composite
def _gang(draw: st.DrawFn, world: World, name: str) -> None:
    """Make a gang of some of the jobs that are in none. Most of its members share a tenant."""
    free = [job for job in world.jobs.values() if not job.group]
    members = free[: draw(st.integers(2, 4))]
    if len(members) < 2:
        return
    project, role = members[0].project, draw(st.sampled_from("xxy"))
    person = members[0].person  # One person submits a gang.
    for job in members:
        apart = draw(st.integers(0, 4)) == 0
        tenant = job.tenant if apart and not project else f"{project}{role}"
        changed = replace(
            job,
            group=name,
            project=project,
            person=person,
            tenant=tenant if job.gpus else "",
        )
        world.jobs[job.name] = changed
    least = draw(st.sampled_from([None, None, len(members) - 1]))
    names = tuple(job.name for job in members)
    group = Group(name=name, members=names, min_members=least)
    try:
        check_room(group, [world.jobs[member] for member in names], world.pools)
    except NeverFits:
        for member in names:
            world.jobs[member] = replace(world.jobs[member], group="")
        return
    world.groups[name] = group


@st.composite
def busy_worlds(draw: st.DrawFn, *, shared: bool = False) -> tuple[World, list[Job]]:
    """A world of jobs on nodes that run for long, and jobs of higher rank that come later, of other
    projects where projects share the nodes."""
    world = draw(worlds(shared=shared))
    world.comes.clear()
    job = partial(_job, pools=[pool.name for pool in world.pools], shared=shared, least=5)
    first, others = world.projects[:1], world.projects[1:]
    jobs = [draw(job(f"k{n:02}", projects=first)) for n in range(12)]
    world.jobs = {job.name: job for job in jobs}
    world.left = dict.fromkeys(world.jobs, 5)
    late = [draw(job("", projects=others)) for _ in range(draw(st.integers(1, 6)))]
    return world, late


@st.composite
def _job(
    draw: st.DrawFn,
    name: str,
    pools: list[str],
    *,
    projects: tuple[Project, ...],
    shared: bool = False,
    least: int = 0,
) -> Job:
    sizes = [0, 100, 100, 200, 300, 400, *PARTS]
    gpus = draw(st.sampled_from([size for size in sizes if size >= least]))
    project = draw(st.sampled_from([each.name for each in projects])) if projects else ""
    role = draw(st.sampled_from("xxy"))
    return Job(
        name=name,
        state=JobState.PENDING,
        priority=draw(st.integers(0, 3)),
        entry_time=1_000_000 - draw(st.sampled_from([0, 1_000, 40_000])),
        demand=Demand(slots=1 if gpus else draw(st.integers(1, 2))),
        pools=tuple(draw(st.permutations(pools))[: draw(st.integers(1, len(pools)))]),
        gpus=gpus,
        tenant=f"{'' if shared else project}{role}" if gpus else "",
        project=project,
        person=draw(st.sampled_from(["ann", "bob"])),
        preemptible=draw(st.sampled_from([True, True, True, False])),
    )

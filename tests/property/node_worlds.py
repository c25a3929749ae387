"""Random worlds with nodes, and what a queue makes of a plan there."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial

from hypothesis import strategies as st

from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import MOST_JOBS, Node, NodeState
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.model.projects import EVERYWHERE, Project
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import steps
from slotq_core.policy.lifecycle.retry import Ending, after_end
from slotq_core.policy.plan import EndNode, Evict, Move, Plan, StartNode

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
    nodes: dict[tuple[str, str], Node] = field(default_factory=dict)
    generation: int = 0
    now: int = 1_000_000
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
            nodes=tuple(nodes),
            active=tuple(job for job in jobs if job.active),
            waiting=tuple(job for job in jobs if job.waits),
        )

    def carry_out(self, planned: Plan) -> None:
        """Commit the decisions."""
        by_name = {pool.name: pool for pool in self.pools}
        for decision in planned.decisions:
            self.jobs |= {after.name: after for _, after in steps(decision, by_name, self.now)}
            if isinstance(decision, StartNode):
                self._begin(decision)
            ended = decision.nodes if isinstance(decision, Evict | Move) else ()
            ended = (decision.node,) if isinstance(decision, EndNode) else ended
            for node in ended:
                key = node.pool, node.name
                self.nodes[key] = replace(self.nodes[key], state=NodeState.DRAINING)

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
                ready = replace(node, state=NodeState.READY, running_since=self.now)
                self.nodes[key] = replace(ready, idle_since=self.now)
            elif node.state is NodeState.DRAINING and not busy:
                del self.nodes[key]
            elif busy or node.idle_since is None:
                self.nodes[key] = replace(node, idle_since=None if busy else self.now)

    def _after(self, job: Job, ending: Ending) -> None:
        self.jobs[job.name] = after_end(job, ending, at=self.now, now=self.now).job

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
            project=start.job.project,
            contents=Demand(gpus=GPUS),
            training_job=start.name,
            token="",
            started_for=start.job.name,
            started_at=self.now,
            created=True,
        )

    @staticmethod
    def _is_on(job: Job, node: Node) -> bool:
        attempt = job.attempt
        return attempt is not None and (attempt.pool, attempt.node) == (node.pool, node.name)

    def check(self) -> None:
        """No GPU twice, no two tenants on a node, no pool over its capacity."""
        for key, node in self.nodes.items():
            on_it = [job for job in self.jobs.values() if job.active and self._is_on(job, node)]
            held = Counter[int]()
            for attempt in (job.attempt for job in on_it if job.attempt):
                held.update(attempt.gpus_held)
            assert max(held.values(), default=0) <= WHOLE, key
            assert held.total() == sum(job.gpus for job in on_it), key
            assert all(index in range(GPUS) for index in held), key
            assert len(on_it) <= MOST_JOBS, key
            assert {job.tenant for job in on_it} <= {node.tenant}, key
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


@st.composite
def worlds(draw: st.DrawFn, *, with_projects: bool = False, with_limits: bool = False) -> World:
    """Nothing runs yet: what a few ticks make of it is the world to look at."""
    pools = tuple(
        Pool(
            name=name,
            instance_type="ml.test",
            capacity=Demand(slots=draw(st.integers(1, 3))),
            nodes=rules,
            min_runtime=draw(st.sampled_from([0, 0, 0, 25_000])),
            reserve_after=draw(st.sampled_from([None, None, 0, 30_000])),
        )
        for name, rules in [
            ("p", NodeRules(gpus=GPUS, keep=draw(st.sampled_from([20_000, 50_000])))),
            ("q", draw(st.sampled_from([None, NodeRules(gpus=GPUS, keep=30_000)]))),
        ][: draw(st.integers(1, 2))]
    )
    projects: tuple[Project, ...] = ()
    if with_projects or with_limits:
        quota = partial(draw, st.integers(0, 2))
        limits = st.sampled_from([{}, {EVERYWHERE: {"slots": 1}}, {EVERYWHERE: {"slots": 2}}])
        projects = tuple(
            Project(
                name=name,
                quota={EVERYWHERE: Demand(slots=quota())},
                limit=draw(limits) if with_limits else {},
            )
            for name in "ab"
        )
    jobs = [
        draw(_job(f"j{n:02}", [pool.name for pool in pools], projects=projects))
        for n in range(draw(st.integers(1, 14)))
    ]
    left = {job.name: draw(st.sampled_from([1, 2, 3, 5])) for job in jobs}
    return World(pools=pools, projects=projects, jobs={job.name: job for job in jobs}, left=left)


@st.composite
def _job(draw: st.DrawFn, name: str, pools: list[str], *, projects: tuple[Project, ...]) -> Job:
    gpus = draw(st.sampled_from([0, 100, 100, 200, 300, 400, *PARTS]))
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
        tenant=f"{project}{role}" if gpus else "",
        project=project,
        preemptible=draw(st.sampled_from([True, True, True, False])),
    )

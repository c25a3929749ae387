"""How a run begins and how its jobs go on: running jobs, followers, refused gangs, and failures.

An attempt fails as the job's `fails` says, which has one entry for each attempt. A number: the
script fails after so many seconds. `fault`: SageMaker's own error, at the start. `no_capacity`: no
instances, at the start. `no_role`: the role cannot be assumed, at the start. Null: no failure by
itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Protocol

from slotq.local.training.life import CAPACITY, INTERNAL, UNASSUMED
from slotq.local.training.runner import WorkEnd
from slotq.simulate.scenario.fields import FAULT, NO_CAPACITY, NO_ROLE, Failure
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import INSTANCE_TYPE, ChangeSpec, InterruptionSpec, JobSpec
from slotq_core.adapters.sagemaker.sagemaker_errors import WAITED_TOO_LONG
from slotq_core.admission.groups import check_gang
from slotq_core.admission.instances.runtimes import with_longest
from slotq_core.admission.requirements import needs_of
from slotq_core.admission.rules import classed
from slotq_core.errors import Refused
from slotq_core.model.attempts import Attempt
from slotq_core.model.groups import end_of
from slotq_core.model.jobs import Job, JobState, Submission
from slotq_core.model.nodes import Node
from slotq_core.model.pools import Pool, WarmSlot
from slotq_core.model.projects import NO_PAST_USE, NOTHING_SPENT, PastUse, Spending
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import Yielded
from slotq_core.policy.lifecycle.demotion import admitted_in
from slotq_core.policy.lifecycle.retry import Ending
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.user_limits import Rights, UserBooks
from slotq_core.ports.training import Request


class RunInputs(Protocol):
    """The world of a run: a scenario, or a snapshot of a queue."""

    @property
    def jobs(self) -> Sequence[JobSpec]:
        """The jobs that are submitted in the run, and those of a scenario that run at its start."""

    @property
    def until(self) -> int | None: ...

    @property
    def rights(self) -> Rights: ...

    def configuration(self) -> Snapshot:
        """The world without jobs."""

    def stop_times(self) -> Mapping[str, int]:
        """How long a stop takes (ms), by pool."""

    def start_times(self) -> Mapping[str, int]:
        """How long a start takes (ms), by pool."""

    def release_times(self) -> Mapping[str, int]:
        """How long it takes until released warm instances are gone (ms), by pool."""

    def node_start_times(self) -> Mapping[str, int]:
        """How long a node's start takes (ms), by pool."""

    def one_person_nodes(self) -> AbstractSet[str]:
        """The pools whose nodes take one person's jobs at a time."""

    def changes(self) -> Iterable[tuple[int, str, ChangeSpec]]: ...

    def asks(self) -> Mapping[int | str, set[str]]: ...

    def submission(self, job: JobSpec) -> Submission: ...


class Course(Protocol):
    """The course of a job, with the fields of a `JobSpec`."""

    @property
    def runtime(self) -> int | None: ...
    @property
    def checkpoint(self) -> bool: ...
    @property
    def fails(self) -> tuple[Failure, ...]: ...
    @property
    def silent_from(self) -> int | None: ...
    @property
    def release_seconds(self) -> int | None: ...
    @property
    def interruptions(self) -> tuple[InterruptionSpec, ...]: ...
    @property
    def max_runtime(self) -> int | None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class AssumedCourse:
    """The assumed course of a job: it works, and completes."""

    runtime: int | None
    """The whole work (ms), repeated if an attempt loses it; None: it never ends."""
    checkpoint: bool = True
    fails: tuple[Failure, ...] = ()
    silent_from: int | None = None
    release_seconds: int | None = None
    interruptions: tuple[InterruptionSpec, ...] = ()
    max_runtime: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class InitialQueue:
    """The queue at the first moment of a run."""

    at: int = 0
    """That moment (ms). No pass decides before it."""
    soonest: int = 0
    """The first moment (ms) at which a stop that has begun may be over."""
    jobs: tuple[Job, ...] = ()
    """Every job that has not ended."""
    courses: Mapping[str, Course] = field(default_factory=dict)
    """Of each of these jobs."""
    left: Mapping[str, int | None] = field(default_factory=dict)
    """The remaining work of each job (ms), from when its live attempt got its instances, if it has
    any; None: it never ends."""
    refused: Mapping[str, Refused] = field(default_factory=dict)
    """The gangs whose jobs are all refused at their submission."""
    yields: tuple[Yielded, ...] = ()
    spent: Spending = NOTHING_SPENT
    past_use: PastUse = NO_PAST_USE
    nodes: tuple[Node, ...] = ()
    """The nodes that hold slots."""
    warm: tuple[WarmSlot, ...] = ()
    """The instances that stay warm."""


def opening_of(scenario: Scenario) -> InitialQueue:
    """How the scenario begins."""
    jobs = tuple(running_jobs(scenario))
    specs = {spec.name: spec for spec in scenario.jobs}
    return InitialQueue(
        jobs=jobs,
        courses={job.name: specs[job.name] for job in jobs},
        left={job.name: specs[job.name].runtime for job in jobs},
        refused=refused_gangs(scenario),
    )


def followers_of(inputs: RunInputs, jobs: Iterable[Job] = ()) -> dict[str, list[str]]:
    """The jobs that come after each job or group (`group:NAME`): of those submitted in the run, and
    of `jobs`."""
    found: dict[str, list[str]] = {}
    awaited = [(spec.name, (*spec.after, *spec.after_any)) for spec in inputs.jobs]
    for follower, names in (*awaited, *((job.name, job.waits_for) for job in jobs)):
        for name in names:
            found.setdefault(name, []).append(follower)
    return found


def ranks(scenario: RunInputs) -> dict[str, int]:
    """The length of the longest chain of dependencies that leads to each job. Jobs that are
    submitted at one moment enter in this order, so that those they come after exist."""
    members = {end_of(group.name): group.members for group in scenario.configuration().groups}
    after = {
        spec.name: {
            job for name in (*spec.after, *spec.after_any) for job in members.get(name, (name,))
        }
        for spec in scenario.jobs
    }
    followers: dict[str, list[str]] = {}
    for follower, awaited in after.items():
        for name in awaited:
            followers.setdefault(name, []).append(follower)
    found = dict.fromkeys(after, 0)
    missing = {name: len(awaited) for name, awaited in after.items()}
    ready = [name for name, number in missing.items() if not number]
    for name in ready:  # Grows: there is no circle, so that every job comes up.
        for follower in followers.get(name, ()):
            found[follower] = max(found[follower], found[name] + 1)
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    return found


def refused_gangs(scenario: Scenario) -> dict[str, Refused]:
    """The gangs that even empty pools cannot hold. All of their jobs are refused at submission."""
    found: dict[str, Refused] = {}
    configuration = scenario.configuration()
    for group in (group for group in configuration.groups if group.max_parallel is None):
        members: dict[str, list[Submission]] = {}
        for job in scenario.jobs:
            if job.group == group.name:
                members.setdefault(job.user, []).append(scenario.submission(job))
        try:
            check_gang(group, members, configuration.pools, scenario.rights)
        except Refused as error:
            found[group.name] = error
    return found


def running_jobs(scenario: Scenario) -> list[Job]:
    """The jobs that run when the scenario begins, in the file's order. An AUTO job gets the class
    in which its user had room at the time, else the lowest."""
    world = scenario.configuration()
    books = UserBooks(world, Journal())
    found = []
    for spec in scenario.jobs:
        if spec.running_since is None or spec.at is None:
            continue
        running = with_runtime(_running(spec, scenario, world.pools), spec, world.pools)
        job = classed(running, books)
        if job.auto:
            waiting = replace(job, attempt=None)
            class_name = books.admits_in(waiting, spec.at) or list(books.classes)[-1]
            job = admitted_in(job, books.classes[class_name], books.classes)
        books.take(job, spec.at)
        found.append(job)
    return found


def runtime_limit(longest: int | None) -> Request:
    """The part of a request that says how long (ms) its job may run; None: it does not say."""
    if longest is None:
        return {"StoppingCondition": {}}
    return {"StoppingCondition": {"MaxRuntimeInSeconds": max(1, longest // 1000)}}


def with_runtime(job: Job, spec: JobSpec, pools: Iterable[Pool]) -> Job:
    """The job with the longest that it may run, if one of its pools has hours or drains."""
    return with_longest(job, runtime_limit(spec.max_runtime), pools)


def _running(spec: JobSpec, scenario: Scenario, pools: Sequence[Pool]) -> Job:
    assert spec.running_since is not None and spec.at is not None
    (at,) = (pool for pool in pools if pool.name == spec.at)
    attempt = Attempt(
        number=1,
        training_job=spec.name,
        token="",  # an attempt's, and there is none # nosec B106
        pool=spec.at,
        instance_type=INSTANCE_TYPE,
        capacity_kind=at.capacity_kind,
        spot_wait=at.spot_wait,
        plan_arn=at.plan_arn,
        admitted_at=spec.running_since,
        created=True,
        running_since=spec.running_since,
    )
    submission = scenario.submission(spec)
    named = [pool for pool in pools if pool.name in submission.pools]
    needs = needs_of(submission.demand, submission.parts, pools=pools, named=named)
    met = [pool for pool in named if needs.met_by(pool)]
    needs = needs.with_contents(met)
    entry = spec.entry_at if spec.entry_at is not None else spec.running_since
    return Job(
        name=spec.name,
        state=JobState.RUNNING,
        priority=scenario.priority_of(spec),
        priority_class=scenario.class_of(spec),
        checkpoints=spec.checkpoint,
        entry_time=entry,
        changed_at=spec.running_since,
        demand=needs.whole.demand,
        pools=tuple(sorted((pool.name for pool in met), key=submission.pools.index)),
        parts=needs.parts,
        requires=needs.whole.requires,
        preemptible=spec.preemptible,
        min_runtime=spec.min_runtime,
        workload=spec.workload,
        project=spec.project or "",
        group=spec.group or "",
        submitter=spec.user,
        person=spec.user,
        role=spec.role,
        attempts=1,
        attempt=attempt,
    )


SCRIPT = WorkEnd(code=1, failure="as the scenario has it")
"""The exit of a script that a scenario makes fail."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """The failure of one attempt."""

    ending: Ending
    message: str
    """The message of the training plane."""
    after: int | None = None
    """Milliseconds of running before the failure. None: the attempt fails before it runs."""


_AT_THE_START = {
    FAULT: Fate(ending=Ending.FAULT, message=INTERNAL),
    NO_CAPACITY: Fate(ending=Ending.NO_CAPACITY, message=CAPACITY),
    NO_ROLE: Fate(ending=Ending.NO_RIGHTS, message=UNASSUMED),
}


NO_SPOT = Fate(ending=Ending.NO_CAPACITY, message=WAITED_TOO_LONG)
"""The end of an attempt whose spot instances do not come in time."""


def fate_of(fails: tuple[Failure, ...], attempt: int) -> Fate | None:
    """The failure of the attempt of that number. None: no failure by itself."""
    failure = fails[attempt - 1] if attempt <= len(fails) else None
    if failure is None:
        return None
    if isinstance(failure, int):
        return Fate(ending=Ending.FAILED, message=SCRIPT.reason, after=failure)
    return _AT_THE_START[failure]

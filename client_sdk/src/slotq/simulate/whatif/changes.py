"""A hypothetical change, the queue after it, and the steps that apply it.

A change of the configuration goes through the same reading as a real one, a change of a job through
the same rules, so what the queue would refuse is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from slotq.errors import InvalidRequest, NoSuchJob, NoSuchPool
from slotq.simulate.run.engine import with_gpus
from slotq.simulate.run.opening import runtime_limit
from slotq.simulate.scenario.sections import ChangeSpec
from slotq.simulate.whatif.forecast_input import ForecastInput
from slotq.simulate.whatif.named_settings import with_setting
from slotq_core.admission.checkpoints import assured
from slotq_core.admission.configuration.subscription import SettingsInUse, check, held_by_fixed
from slotq_core.admission.dependencies import consequences
from slotq_core.admission.instances.nodes import able, filled
from slotq_core.admission.instances.nodes import with_gpus as as_admitted
from slotq_core.admission.instances.runtimes import with_longest
from slotq_core.admission.prescribed import usable_pools
from slotq_core.admission.requirements import in_parts
from slotq_core.admission.rules import admit, classed
from slotq_core.admission.user_groups import rights_of
from slotq_core.errors import NameTaken, NoSuchProject, TooLate
from slotq_core.model.capacity.plans import PlanFacts, PlanStatus, PlanWindow
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState, Preemptible, Submission, Workload
from slotq_core.model.pools import CapacityKind, Pool
from slotq_core.model.reasons.whole_instance import WholeInstance
from slotq_core.model.sharing import Settings
from slotq_core.model.users import AUTO, AUTO_VALUE
from slotq_core.operations.amend import with_hold
from slotq_core.policy.lifecycle.apply import cancelled
from slotq_core.policy.lifecycle.demotion import come_into
from slotq_core.privacy.identity import People
from slotq_core.spelling import did_you_mean, unknown
from slotq_core.timestamps import milliseconds, seconds_in
from slotq_core.wire.document.amending import with_project
from slotq_core.wire.document.contents import read
from slotq_core.wire.document.writing import written
from slotq_core.wire.pool_definition import defined, following
from slotq_core.wire.views.about import MeView

if TYPE_CHECKING:
    from slotq.client import QueueClient

WHO = "you"


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJob:
    """A hypothetical new job."""

    submission: Submission
    submitter: str
    """The submitter's ARN; empty: no particular submitter."""
    max_runtime: int | None = None
    """The longest that it may run in all (ms)."""
    request: Mapping[str, Any] | None = None
    """Its CreateTrainingJob request; None: it has none."""


_WHOLE = re.compile(r"[0-9]{1,7}", re.ASCII)
_LONGEST = 10_000_000_000
"""The longest that slots may last (s)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MoreSlots:
    """Slots that a pool has for a time in addition to its own."""

    slots: int
    lasts: int
    """For how long, from now on (ms)."""

    @classmethod
    def read(cls, pool: str, text: str) -> MoreSlots:
        """Slots and for how long, as `2:1w` or `2:3600`. Raises InvalidRequest."""
        slots, _, lasts = text.strip().partition(":")
        length = float(lasts) if _WHOLE.fullmatch(lasts) else seconds_in(lasts)
        if not (_WHOLE.fullmatch(slots) and int(slots) and length and length <= _LONGEST):
            raise InvalidRequest(f"{pool}={text}: give slots and for how long, such as 2:1w")
        return cls(slots=int(slots), lasts=milliseconds(length))


@dataclass(frozen=True, kw_only=True, slots=True)
class WhatIfChange:
    """All that is changed, at once and now."""

    pools: dict[str, int] = field(default_factory=dict)
    """Sizes in slots, by pool."""
    more: dict[str, MoreSlots] = field(default_factory=dict)
    """By pool. In a pool of a training plan they are another window of it."""
    quotas: dict[str, object] = field(default_factory=dict)
    """By project, as a project's entry in the configuration has it: slots, or a mapping."""
    priorities: dict[str, int | str] = field(default_factory=dict)
    """Numbers or classes, by job."""
    moves: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The new pools of a job, by job."""
    settings: dict[str, object] = field(default_factory=dict)
    """Values as the configuration has them, by the setting's path (`named_settings`)."""
    nodes: dict[str, int] = field(default_factory=dict)
    """The pools that keep nodes, with the GPUs of one instance; 0: those of its instance type."""
    gpus: dict[str, int] = field(default_factory=dict)
    """The GPUs of a node that waiting jobs ask for (hundredths), by job or group."""
    cancels: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    submits: tuple[NewJob, ...] = ()


def changed(queue: ForecastInput, change: WhatIfChange) -> ForecastInput:
    """The queue after the change. Raises Refused: NoSuchJob, NoSuchPool, NoSuchProject, TooLate,
    InvalidRequest, Oversubscribed, and what a submission raises."""
    after = replace(queue, settings=_settings(queue, change))
    for name, more in change.more.items():
        after = _with_more(after, name, more)
    for name, priority in change.priorities.items():
        after = after.with_job(_prioritised(_found(after, name), priority, after))
    for name, pools in change.moves.items():
        after = after.with_job(_moved(_found(after, name), pools, after))
    for name, gpus in change.gpus.items():
        after = after.with_jobs(_on_nodes(job, gpus, after) for job in named(after, name))
    for name, held in (
        *((name, True) for name in change.holds),
        *((name, False) for name in change.releases),
    ):
        job = with_hold(_found(after, name), held=held, by=WHO, now=queue.at)
        after = after.with_job(job)
    for name in change.cancels:
        after = _cancelled(after, _found(after, name))
    for new in change.submits:
        after = _submitted(after, new)
    return after


def _settings(queue: ForecastInput, change: WhatIfChange) -> Settings:
    settings = queue.settings
    known = {pool.name for pool in settings.pools}
    named = (*change.pools, *change.more, *change.nodes)
    if missing := next((name for name in named if name not in known), None):
        raise NoSuchPool(unknown("pool", missing, sorted(known)))
    settings = replace(settings, pools=tuple(_pool(pool, change) for pool in settings.pools))
    for name, quota in change.quotas.items():
        if settings.sharing.project(name) is None:
            there = [project.name for project in settings.sharing.projects]
            raise NoSuchProject(unknown("project", name, there))
        settings = with_project(settings, name, {"quota": quota})
    document = written(settings)
    for path, value in change.settings.items():
        document = with_setting(document, path, value)
    after = read(document)
    active = [job for job in queue.jobs if job.active]
    held = held_by_fixed(active, queue.settings.pools)
    before = SettingsInUse(settings=queue.settings, held=held)
    check(before, SettingsInUse(settings=after, held=held))
    return after


def _pool(pool: Pool, change: WhatIfChange) -> Pool:
    wanted: dict[str, Any] = {}
    if pool.name in {*change.pools, *change.more}:
        more = change.more[pool.name].slots if pool.name in change.more else 0
        wanted["slots"] = change.pools.get(pool.name, pool.capacity.slots) + more
    if pool.name in change.nodes:
        gpus = change.nodes[pool.name]
        wanted["nodes"] = {"gpus": gpus} if gpus else {}
    return following(pool, defined(pool.name, wanted, pool)) if wanted else pool


def _with_more(queue: ForecastInput, name: str, more: MoreSlots) -> ForecastInput:
    """The queue in which the slots that its pool has for a time go again. A training plan's go with
    their window; other slots when the jobs that hold them end."""
    (pool,) = (pool for pool in queue.pools if pool.name == name)
    ends = queue.at + more.lasts
    if pool.capacity_kind is CapacityKind.PLAN:
        window = PlanWindow(begins=queue.at, ends=ends, slots=more.slots)
        return queue.with_plan(name, _with_window(pool, window))
    own = pool.capacity.slots - more.slots
    left: dict[str, object] = {"capacity": own} if own else {"state": "paused"}
    shrinks = (ends, name, ChangeSpec.model_validate({"at": ends / 1000, **left}))
    return replace(queue, changes=(*queue.changes, shrinks))


def _with_window(pool: Pool, window: PlanWindow) -> PlanFacts:
    """What is known of the pool's plan, with another window."""
    known = pool.health.plan
    if known is None or not known.usable or known.arn != pool.plan_arn:
        return PlanFacts(arn=pool.plan_arn, status=PlanStatus.ACTIVE, windows=(window,))
    windows = sorted((*known.windows, window), key=lambda window: window.begins)
    return replace(known, windows=tuple(windows))


def named(queue: ForecastInput, name: str) -> list[Job]:
    """The job of this name, or the group's members that wait. Raises NoSuchJob."""
    if queue.job(name) is None:
        members = [job for job in queue.jobs if job.group == name and job.waits]
        if members:
            return members
    return [_found(queue, name)]


def _found(queue: ForecastInput, name: str) -> Job:
    job = queue.job(name)
    if job is None:
        near = did_you_mean(name, [job.name for job in queue.jobs])
        raise NoSuchJob(f"there is no job '{name}' that waits or runs{near}", field="name")
    return job


def _prioritised(job: Job, priority: int | str, queue: ForecastInput) -> Job:
    rights = rights_of(queue.settings.sharing, job.person)
    named = priority if isinstance(priority, str) else ""
    value = priority if isinstance(priority, int) else AUTO_VALUE
    asked = replace(
        job, priority=value, priority_class=named, admitted_class="", auto=named == AUTO
    )
    after = classed(asked, rights)
    return come_into(after, rights.classes) if after.priority_class != job.priority_class else after


def _moved(job: Job, pools: tuple[str, ...], queue: ForecastInput) -> Job:
    if job.parts:
        raise InvalidRequest(f"job {job.name} runs in several pools at once, and stays there")
    known = {pool.name: pool for pool in queue.pools}
    if missing := next((name for name in pools if name not in known), None):
        raise NoSuchPool(unknown("pool", missing, sorted(known)))
    claim = job.claim if job.claim and job.claim.pool in pools else None
    return replace(job, pools=pools, claim=claim)


def _on_nodes(job: Job, gpus: int, queue: ForecastInput) -> Job:
    """The waiting job with these GPUs of a node; 0: with a whole instance. A job that no node knows
    yet shares a node with jobs of its project and role."""
    if job.active:
        raise TooLate(f"job {job.name} is {job.state.value}, and keeps what it has")
    if not gpus:
        return replace(job, gpus=0, tenant="", longest_attempt=0, claim=None)
    if job.whole_because:
        raise InvalidRequest(f"job {job.name} {WholeInstance(causes=job.whole_because).sentence()}")
    if job.parts or job.demand.slots > 1:
        raise InvalidRequest(f"job {job.name} takes several instances, and no GPUs of a node")
    accepted = [pool for pool in queue.pools if pool.name in job.pools]
    if not any(pool.nodes for pool in accepted):
        names = ", ".join(pool.name for pool in accepted)
        raise InvalidRequest(f"job {job.name}: no pool of {names} keeps nodes: add --nodes")
    usable = tuple(pool.name for pool in able(accepted, gpus, queue.pools))
    return replace(with_gpus(job, gpus, accepted), pools=usable, claim=None)


def _cancelled(queue: ForecastInput, job: Job) -> ForecastInput:
    after = cancelled(job, WHO, queue.at)
    left = queue.with_job(after)
    if not after.terminal:
        return left
    followers = _followers(left)
    changed_jobs = consequences(job.name, JobState.CANCELLED, followers, queue.at)
    gone = {job.name, *(late.name for _, late in changed_jobs if late.terminal)}
    groups = tuple(
        replace(
            group,
            ended={
                **group.ended,
                **{name: JobState.CANCELLED for name in group.members if name in gone},
            },
        )
        for group in queue.groups
    )
    return replace(left.with_jobs(late for _, late in changed_jobs), groups=groups)


def _followers(queue: ForecastInput) -> Callable[[str], Iterable[Job]]:
    return lambda name: [job for job in queue.jobs if name in job.waits_for]


def _submitted(queue: ForecastInput, new: NewJob) -> ForecastInput:
    """Admit the job as the queue does, except for rules that only the queue's admission knows:
    allowed roles, and limits on callers."""
    if queue.job(new.submission.name) is not None:
        raise NameTaken(f"a job named '{new.submission.name}' exists already")
    sharing = queue.settings.sharing
    project = sharing.project(new.submission.project)
    by_default = project.pools if project else ()
    submission = in_parts(new.submission, queue.pools, by_default)
    pools = usable_pools(submission, queue.pools, project)
    people = People(session_roles=sharing.session_roles)
    job = admit(
        submission,
        pools,
        submitter=new.submitter,
        now=queue.at,
        states={job.name: job.state for job in queue.jobs},
        rights=rights_of(sharing, people.person(new.submitter)),
        people=people,
        by_default=by_default,
    )
    job = _entering(assured(job, pools), new, submission, pools)
    job = with_longest(job, new.request or runtime_limit(new.max_runtime), queue.pools)
    limits = dict(queue.limits)
    if new.max_runtime is not None:
        limits[job.name] = new.max_runtime
    return replace(queue.with_job(job), limits=limits)


def _entering(job: Job, new: NewJob, submission: Submission, pools: Sequence[Pool]) -> Job:
    """The new job with the GPUs that it asks for, in pools with nodes."""
    if not submission.gpus:
        return job
    if new.request is None:
        return with_gpus(job, submission.gpus, pools)
    submission, request = filled(submission, new.request, pools, None)
    return as_admitted(job, submission, request, pools)


def described(
    me: MeView,
    *,
    name: str,
    slots: int,
    pool: str,
    priority: int | str | None = None,
    project: str = "",
    workload: Workload = Workload.TRAINING,
    preemptible: Preemptible = True,
    gpus: int = 0,
) -> NewJob:
    """The job that `me` would submit. Raises InvalidRequest where it has no project."""
    submission = Submission(
        name=name,
        instance_type="",
        demand=Demand(slots=slots),
        pools=(pool,),
        priority=priority if isinstance(priority, int) else 0,
        priority_class=priority if isinstance(priority, str) else "",
        default_priority=priority is None,
        project=project,
        workload=workload,
        preemptible=preemptible,
        gpus=gpus,
    )
    return NewJob(submission=in_project(submission, me), submitter=me.caller)


def in_project(submission: Submission, me: MeView) -> Submission:
    """The submission with its caller's default project, as at admission. Raises InvalidRequest."""
    if submission.project or not me.projects:
        return submission
    usable = [project for project in me.projects if project.role != "viewer"]
    chosen = next((project for project in usable if project.default), None)
    if chosen is None:
        names = ", ".join(project.name for project in usable)
        raise InvalidRequest(f"the job names no project, and you have no default: name {names}")
    return replace(submission, project=chosen.name)


Step = tuple[str, Callable[[], object]]
"""The message after the step, and the step itself."""


def steps(
    queue: QueueClient,
    change: WhatIfChange,
    document: Mapping[str, Any] | None,
    revision: int,
    *,
    requests: Sequence[Mapping[str, Any]] = (),
) -> Iterator[Step]:
    """The configuration (None: it stays) first, if its revision is still this one, then each job.
    A step raises what the queue refuses with."""
    if document is not None:
        yield (
            "configuration changed",
            partial(queue.configuration.apply, document, revision=revision),
        )
    for name, priority in change.priorities.items():
        yield f"{name}: priority {priority}", partial(queue.jobs.set_priority, name, priority)
    for name, pools in change.moves.items():
        yield f"{name}: moved to {', '.join(pools)}", partial(queue.jobs.move, name, pools)
    for name in change.holds:
        yield f"{name}: held", partial(queue.jobs.hold, name)
    for name in change.releases:
        yield f"{name}: released", partial(queue.jobs.release, name)
    for name in change.cancels:
        yield f"{name}: cancelled", partial(queue.jobs.cancel, name)
    for request in requests:
        yield f"{request['TrainingJobName']}: submitted", partial(queue.submit, request)

"""The queue as a caller may see it: without the names of other people's jobs.

All inputs of decisions stay: slots, priorities, times, projects. A job that the caller may not see,
its user and its group get stand-in names, the same in every place. The limits of such a user are
left out, because they would identify the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from slotq_core.model.attempts import Attempt
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job
from slotq_core.model.projects import PastUse
from slotq_core.model.snapshot import QueueSnapshot
from slotq_core.model.users import Yielded
from slotq_core.usage.attempt_use import AttemptUse

STAND_IN = "(withheld {})"
"""The form of a stand-in name. No job, group or ARN has such a name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Names:
    """Names as the caller may see them, by true name."""

    jobs: Mapping[str, str]
    users: Mapping[str, str]
    """The stand-ins of users with withheld jobs."""
    groups: Mapping[str, str]
    tenants: Mapping[str, str]
    """Of all jobs: whoever knows a request could find its tenant's key."""
    warm_keys: Mapping[str, str]
    """Of all jobs and warm instances, for the same reason."""

    def of(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.jobs.get(name, name) for name in names)


def use_as_seen(use: AttemptUse, sees: Callable[[str, str], bool]) -> AttemptUse:
    """The attempt as shown to a viewer of the jobs for which `sees(project, person)` holds.

    A withheld job keeps project, class, slots, times, and whether it was evicted. The beneficiary
    of an eviction is named if the viewer may see that job."""
    gains = use.beneficiary
    if gains is not None and not sees(gains.project, gains.submitter):
        use = replace(use, evicted_for="", beneficiary=replace(gains, submitter=""))
    if sees(use.project, use.submitter):
        return use
    outcome = use.outcome if use.lost_since is not None else ""
    return replace(use, job="", submitter="", outcome=outcome)


def as_seen(queue: QueueSnapshot, sees: Callable[[Job], bool] | None) -> QueueSnapshot:
    """The queue as shown to a viewer of the jobs for which `sees` holds; None: all jobs."""
    hidden = {job.name for job in queue.jobs if sees is not None and not sees(job)}
    if not hidden:
        return queue
    names = _named(queue, hidden)
    # Stores list jobs and groups by their true names, which the order would reveal.
    ordered = sorted(queue.jobs, key=lambda job: (job.entry_time, job.name in hidden))
    groups = (_group(group, names) for group in queue.groups)
    return replace(
        queue,
        jobs=tuple(_job(job, names, hidden=job.name in hidden) for job in ordered),
        groups=tuple(sorted(groups, key=lambda group: group.name)),
        nodes=tuple(
            replace(node, tenant=names.tenants.get(node.tenant, "")) for node in queue.nodes
        ),
        warm=tuple(
            replace(
                slot,
                key=names.warm_keys[slot.key],
                released_for=names.jobs.get(slot.released_for, slot.released_for),
            )
            for slot in sorted(queue.warm, key=lambda slot: (slot.until, slot.since, slot.key))
        ),
        yields=tuple(
            shown for yielded in queue.yields for shown in _yields(yielded, queue, names, hidden)
        ),
        past_use=_past_use(queue, names, hidden),
        withheld=frozenset(names.jobs[name] for name in hidden),
        etas={name: eta for name, eta in queue.etas.items() if name not in hidden},
        limits={names.jobs.get(name, name): limit for name, limit in queue.limits.items()},
    )


def _named(queue: QueueSnapshot, hidden: set[str]) -> _Names:
    """Give stand-ins in the order of the entries, which reveals nothing about the names."""
    ordered = sorted(queue.jobs, key=lambda job: job.entry_time)
    seen_groups = {job.group for job in ordered if job.name not in hidden}
    count = iter(range(1, 2**31))

    def stand_ins(names: Iterable[str]) -> dict[str, str]:
        return {name: STAND_IN.format(next(count)) for name in dict.fromkeys(names) if name}

    jobs = stand_ins(job.name for job in ordered if job.name in hidden)
    visible = {job.name for job in ordered if job.name not in hidden}
    beside = (
        name
        for group in queue.groups
        for name in group.members
        if name not in visible and name not in jobs
    )
    return _Names(
        jobs=jobs | stand_ins(beside),
        users=stand_ins(job.person for job in ordered if job.name in hidden),
        groups=stand_ins(
            job.group for job in ordered if job.name in hidden and job.group not in seen_groups
        ),
        tenants=stand_ins([job.tenant for job in ordered] + [node.tenant for node in queue.nodes]),
        warm_keys=stand_ins(_warm_keys(ordered, queue)),
    )


def _warm_keys(jobs: Iterable[Job], queue: QueueSnapshot) -> Iterable[str]:
    for job in jobs:
        yield job.warm_key
        yield job.attempt.warm_key if job.attempt else ""
    yield from (slot.key for slot in queue.warm)


def _job(job: Job, names: _Names, *, hidden: bool) -> Job:
    """The job with the names of others withheld; if it is `hidden`, with its own as well."""
    shown = replace(
        job,
        after=names.of(job.after),
        after_any=names.of(job.after_any),
        depends_on=names.of(job.depends_on),
        tenant=names.tenants.get(job.tenant, ""),
        warm_key=names.warm_keys.get(job.warm_key, ""),
        attempt=_attempt(job.attempt, names, hidden=hidden),
    )
    if not hidden:
        return shown
    return replace(
        shown,
        name=names.jobs[job.name],
        group=names.groups.get(job.group, job.group),
        person=names.users.get(job.person, ""),
        submitter="",
        role="",
        message="",
        digest="",
    )


def _attempt(attempt: Attempt | None, names: _Names, *, hidden: bool) -> Attempt | None:
    if attempt is None:
        return None
    attempt = replace(attempt, warm_key=names.warm_keys.get(attempt.warm_key, ""))
    if attempt.stop is None:
        return attempt
    by = names.jobs.get(attempt.stop.by, "" if hidden else attempt.stop.by)
    return replace(attempt, stop=replace(attempt.stop, by=by, beneficiary=None))


def _group(group: Group, names: _Names) -> Group:
    return replace(
        group,
        name=names.groups.get(group.name, group.name),
        members=names.of(group.members),
        mandatory=names.of(group.mandatory),
        ends_with=names.jobs.get(group.ends_with, group.ends_with),
        sites={},
        ended={names.jobs.get(name, name): state for name, state in group.ended.items()},
    )


def _past_use(queue: QueueSnapshot, names: _Names, hidden: set[str]) -> PastUse:
    """The past use with the users' parts under the names that are shown for them. A user without a
    job in the queue is left out."""
    seen = {job.person for job in queue.jobs if job.name not in hidden}
    return replace(
        queue.past_use,
        users={
            project: {
                name: part
                for user, part in own.items()
                for name in ({user} & seen) | {names.users.get(user, "")} - {""}
            }
            for project, own in queue.past_use.users.items()
        },
    )


def _yields(
    yielded: Yielded, queue: QueueSnapshot, names: _Names, hidden: set[str]
) -> Iterable[Yielded]:
    """The yield, once for each name shown for its user."""
    if any(job.person == yielded.user and job.name not in hidden for job in queue.jobs):
        yield yielded
    if yielded.user in names.users:
        yield replace(yielded, user=names.users[yielded.user])

"""Admission rules: a submission's pools and class, and whether the job could ever run.

Admission refuses a job that can never run: one that needs more than the whole size of every
acceptable pool, or more than its user's total. It also refuses a class that the user may not
choose."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from slotq_core.admission.dependencies import (
    NO_GROUPS,
    GroupProgress,
    check_dependencies,
    incomplete_dependencies,
    unended_dependencies,
)
from slotq_core.admission.instances import capacity_kinds
from slotq_core.admission.requirements import Needs, needs_of
from slotq_core.errors import ClassNotAllowed, InvalidRequest, NeverFits
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState, Submission, settings_of
from slotq_core.model.pools import Pool
from slotq_core.model.users import AUTO, AUTO_VALUE
from slotq_core.policy.state.user_limits import Rights
from slotq_core.privacy.identity import BY_DEFAULT, People
from slotq_core.spelling import as_known, did_you_mean
from slotq_core.wire.training.instance_types import CONTENTS, NAMES

MAX_POOLS_PER_JOB = 16
"""A line's key names its pools, and a DynamoDB sort key holds at most 1,024 bytes."""


NO_RIGHTS = Rights()
"""No user limits, and HFAI's classes."""


def admit(
    submission: Submission,
    pools: Sequence[Pool],
    *,
    submitter: str,
    now: int,
    states: Mapping[str, JobState] | None = None,
    groups: Mapping[str, GroupProgress] = NO_GROUPS,
    rights: Rights = NO_RIGHTS,
    people: People = BY_DEFAULT,
    by_default: Sequence[str] = (),
) -> Job:
    """Make a job from a submission. Raises InvalidRequest, NeverFits or ClassNotAllowed, with the
    field.

    `by_default`: the pools of a job that names none, the preferred first; empty: all.
    `states` maps the jobs that the new one comes after to their states, and `groups` the groups, as
    `group:NAME`, to their progress; unknown names are absent.
    """
    after = submission.after
    after_any = tuple(name for name in submission.after_any if name not in after)
    check_dependencies(submission.name, after, after_any)
    needs, accepted = _accepted(submission, pools, by_default)
    needs = needs.with_contents(accepted)
    demand, requires = needs.whole.demand, needs.whole.requires
    large = [pool for pool in accepted if demand.within(pool.capacity)]
    if submission.parts:
        _check_parts(submission.group, needs, accepted)
    elif not large:
        raise NeverFits(_too_large(demand, accepted), field="ResourceConfig.InstanceCount")
    job = Job(
        name=submission.name,
        state=JobState.PENDING,
        priority=submission.priority,
        entry_time=now,
        changed_at=now,
        demand=demand,
        pools=tuple(pool.name for pool in accepted),
        parts=needs.parts,
        requires=requires,
        **{**settings_of(submission), "gpus": 0},  # `admission.instances.nodes` decides.
        project=submission.project,
        priority_class=_class_named_in(submission, rights),
        group=submission.group,
        checkpoints=submission.checkpoints,
        after=incomplete_dependencies(after, states or {}, groups),
        after_any=unended_dependencies(after_any, states or {}, groups),
        depends_on=tuple(dict.fromkeys((*after, *after_any))),
        submitter=submitter,
        person=people.person(submitter),
        role=submission.role,
        digest=submission.digest,
    )
    job = classed(job, rights)
    _check_rights(job, accepted if submission.parts else large, rights)
    return job


def _class_named_in(submission: Submission, rights: Rights) -> str:
    """The submission's class. Without a priority it is AUTO if classes are configured."""
    if submission.default_priority and rights.numbers_are_classes:
        return AUTO
    return submission.priority_class


def classed(job: Job, rights: Rights) -> Job:
    """The job with its priority class: the named one, or the class whose value is the priority.
    AUTO if its user may not choose that class."""
    named = _named_class(job, rights)
    return named if named.auto or rights.may_choose(named) else _as_auto(named)


def _as_auto(job: Job) -> Job:
    return replace(job, auto=True, priority=AUTO_VALUE, priority_class=AUTO)


def _named_class(job: Job, rights: Rights) -> Job:
    if job.priority_class:
        named = _known_class(job.priority_class, rights)
        if named == AUTO:
            return _as_auto(job)
        return replace(job, priority=rights.classes[named].value, priority_class=named)
    named = rights.class_of(job) if rights.numbers_are_classes else ""
    return replace(job, priority_class=named) if named else job


def _known_class(name: str, rights: Rights) -> str:
    """The class as the queue writes it; people may write it in any case. Empty: none."""
    known = [*rights.classes, AUTO]
    named = as_known(name, known) if name else ""
    if named is None:
        raise InvalidRequest(
            "the tag 'priority' or 'slotq:priority' takes an integer or a class, and names no "
            f"class: '{name}'; the classes are {', '.join(known)}{did_you_mean(name, known)}",
            field="Tags",
        )
    return named


def _check_rights(job: Job, pools: Sequence[Pool], rights: Rights) -> None:
    """Check the job against the user's total; for a job over several pools, each part in its own
    pool."""
    if not job.parts:
        _check_total(job, pools, rights)
    for pool, (_, demand) in zip(pools, job.parts, strict=False):
        _check_total(replace(job, demand=demand), [pool], rights)


def _check_total(job: Job, pools: Sequence[Pool], rights: Rights) -> None:
    """Raises ClassNotAllowed or NeverFits unless the user's total suffices in one of `pools`, which
    are all large enough."""
    choices = tuple(rights.choices(job))
    totals = {
        pool.name: max(
            _unlimited(rights.total(job.person, class_name, pool.name)) for class_name in choices
        )
        for pool in pools
    }
    if any(job.demand.slots <= total for total in totals.values()):
        return
    asked = f"class {job.priority_class}" if job.priority_class else f"priority {job.priority}"
    if not any(totals.values()):
        raise ClassNotAllowed(
            f"user {job.person} may hold no slots in {asked}; "
            f"{rights.limits_in_words(job.person, list(totals))}",
            field="Tags",
        )
    most = ", ".join(f"{total} in pool {pool}" for pool, total in totals.items())
    raise NeverFits(
        f"the job needs {job.demand.slots} slots, more than user {job.person} may hold in "
        f"{asked}: {most}{_ask(rights)}",
        field="ResourceConfig.InstanceCount",
    )


def _ask(rights: Rights) -> str:
    return f"; {rights.contact} can give more" if rights.contact else ""


def _unlimited(total: int | None) -> float:
    return inf if total is None else total


def _check_parts(group: str, needs: Needs, pools: Sequence[Pool]) -> None:
    """Check that each part fits into its pool, and that the job belongs to no group."""
    if group:
        raise InvalidRequest(
            "a job that runs in several pools at once cannot belong to a group; use one instance "
            "type for each member",
            field="ResourceConfig.InstanceGroups",
        )
    for pool, (_, demand) in zip(pools, needs.parts, strict=True):
        if not demand.within(pool.capacity):
            raise NeverFits(_too_large(demand, [pool]), field="ResourceConfig.InstanceGroups")


def bare(member: Submission, person: str, pools: Sequence[Pool]) -> Job:
    """The submission as a job with only its size and pools; with no pool if none has the required
    properties. Jobs with `gpus` share nodes by their roles."""
    needs = _needs(member, pools, _named(member, pools))
    met = [pool for pool in _named(member, pools) if needs.met_by(pool)]
    return Job(
        name=member.name,
        state=JobState.PENDING,
        priority=member.priority,
        priority_class=member.priority_class,
        entry_time=0,
        demand=needs.counted(met).whole.demand,
        pools=tuple(pool.name for pool in met),
        person=person,
        gpus=member.gpus,
        tenant=f":{member.role}" if member.gpus else "",
    )


def check_pools(submission: Submission, pools: Sequence[Pool]) -> None:
    """Raises InvalidRequest or NeverFits if none of these pools is the submission's, or if none has
    the properties that it requires."""
    _accepted(submission, pools)


def _too_large(demand: Demand, pools: Sequence[Pool]) -> str:
    """A message with each resource that no pool has enough of."""
    short = [name for name in demand if any(demand[name] > pool.capacity[name] for pool in pools)]
    needs = " and ".join(f"{demand[name]} {name}" for name in short)
    sizes = ", ".join(
        f"{pool.name} has " + " and ".join(str(pool.capacity[name]) for name in short)
        for pool in pools
    )
    return f"the job needs {needs}, more than any of its pools: {sizes}{_unknown(short, pools)}"


def _unknown(names: Iterable[str], pools: Sequence[Pool]) -> str:
    """A hint where a pool neither declares what the job asks for nor has known instances."""
    nowhere = [name for name in names if name in NAMES and not any(p.capacity[name] for p in pools)]
    odd = next((pool for pool in pools if pool.instance_type not in CONTENTS), None)
    if odd is None or not nowhere:
        return ""
    return (
        f"; SlotQ does not know what {odd.instance_type} contains: an operator can say so, "
        f"`slotq pools set {odd.name} --resource {nowhere[0]}=N`"
    )


def _needs(submission: Submission, pools: Sequence[Pool], named: Sequence[Pool]) -> Needs:
    return needs_of(submission.demand, submission.parts, pools=pools, named=named)


def _accepted(
    submission: Submission, pools: Sequence[Pool], by_default: Sequence[str] = ()
) -> tuple[Needs, list[Pool]]:
    """What the job needs, and the pools that it may run in: those that it named, or those of its
    instance type, which meet the needs."""
    named = _named(submission, pools, by_default)
    needs = _needs(submission, pools, named)
    needs.check(named)
    found = [pool for pool in named if needs.met_by(pool)]
    if submission.gpus:
        from slotq_core.admission.instances.nodes import able  # Few jobs ask for GPUs of a node.

        found = able(found, submission.gpus, pools)
    return needs, _few(found)


def check_names(
    before: Submission, after: Submission, pools: Iterable[Pool], rights: Rights
) -> None:
    """Raises InvalidRequest if a change of the submission names a pool or a class that does not
    exist."""
    if after.pools != before.pools:
        _check_pool_names(after, [pool.name for pool in pools])
    if after.priority_class != before.priority_class:
        _known_class(after.priority_class, rights)


def _check_pool_names(submission: Submission, known: Collection[str]) -> None:
    unknown = [name for name in submission.pools if name not in known]
    if unknown:
        raise InvalidRequest(
            f"the tag 'slotq:pools' names no pool of this queue: {', '.join(unknown)}; the "
            f"pools are {', '.join(known) or 'none'}{did_you_mean(unknown[0], known)}",
            field="Tags",
        )


def _named(
    submission: Submission, pools: Sequence[Pool], by_default: Sequence[str] = ()
) -> list[Pool]:
    by_name = {pool.name: pool for pool in pools}
    if submission.pools:
        _check_pool_names(submission, by_name)
        named = [by_name[name] for name in submission.pools]
        capacity_kinds.check_named(submission, named, pools)
        _check_preferences(submission, named)
        return named
    usable = [by_name[name] for name in by_default if name in by_name] or pools
    usable = capacity_kinds.of_its_work(submission, usable)
    types = submission.instance_types
    offering = [pool for kind in types for pool in usable if pool.instance_type == kind]
    if not offering:
        kinds = ", ".join(sorted({pool.instance_type for pool in usable}))
        of_project = f" of project {submission.project}" if by_default else ""
        wanted = " or ".join(f"'{kind}'" for kind in types)
        if not usable:
            raise InvalidRequest(_no_work(submission, of_project), field="Tags")
        preferences = bool(submission.preferred)
        raise InvalidRequest(
            f"no pool{of_project} has instance type {wanted}; the pools{of_project} have {kinds}",
            field=f"ResourceConfig.Instance{'Preferences' if preferences else 'Type'}",
        )
    return capacity_kinds.offered(submission, offering, pools, by_default=bool(by_default))


def _no_work(submission: Submission, of_project: str) -> str:
    return (
        f"no pool{of_project} holds {submission.work} jobs; an operator can add one: "
        f"`slotq pools set NAME --work {submission.work}`"
    )


def _check_preferences(submission: Submission, named: Iterable[Pool]) -> None:
    """Raises InvalidRequest if the tag names a pool of a type that is not among the preferred."""
    wrong = [pool for pool in named if pool.instance_type not in submission.instance_types]
    if submission.preferred and wrong:
        raise InvalidRequest(
            f"InstancePreferences names {', '.join(submission.preferred)}, and the tag "
            f"'slotq:pools' names {wrong[0].name} ({wrong[0].instance_type}): leave out one of the "
            "two",
            field="Tags",
        )


def _few(pools: list[Pool]) -> list[Pool]:
    if len(pools) > MAX_POOLS_PER_JOB:
        raise InvalidRequest(
            f"a job accepts at most {MAX_POOLS_PER_JOB} pools, not {len(pools)}; name up to "
            "that many in the tag 'slotq:pools'",
            field="Tags",
        )
    return pools

"""At the door: which pools a submission may use, and whether it could ever run.

""Can never run" is refused at the door: more than every acceptable pool's whole size."
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotq_core.errors import InvalidRequest, NeverFits
from slotq_core.model import Demand, Group, Job, JobState, Pool, Submission
from slotq_core.policy.dependencies import still_to_come
from slotq_core.policy.gang import Gang
from slotq_core.policy.together import assign

MAX_POOLS_PER_JOB = 16
"""A line's key names its pools, and DynamoDB's sort key ends at 1,024 bytes."""


def admit(
    submission: Submission,
    pools: Sequence[Pool],
    *,
    submitter: str,
    now: int,
    states: Mapping[str, JobState] | None = None,
) -> Job:
    """The job that the submission becomes. Raises InvalidRequest or NeverFits, naming the field.

    `states`: of the jobs that it comes after, as far as there are any.
    """
    accepted = _accepted(submission, pools)
    if submission.parts:
        _check_parts(submission, accepted)
    elif not any(submission.demand.within(pool.capacity) for pool in accepted):
        raise NeverFits(
            _too_large(submission.demand, accepted), field="ResourceConfig.InstanceCount"
        )
    return Job(
        name=submission.name,
        state=JobState.PENDING,
        priority=submission.priority,
        entry_time=now,
        changed_at=now,
        demand=submission.demand,
        pools=tuple(pool.name for pool in accepted),
        parts=submission.parts,
        preemptible=submission.preemptible,
        min_runtime=submission.min_runtime,
        retries=submission.retries,
        workload=submission.workload,
        project=submission.project,
        priority_class=submission.priority_class,
        group=submission.group,
        after=still_to_come(submission.after, states or {}),
        submitter=submitter,
        digest=submission.digest,
    )


def _check_parts(submission: Submission, pools: Sequence[Pool]) -> None:
    """Each part must fit into its pool, and a member of a group has none."""
    if submission.group:
        raise InvalidRequest(
            "a job that runs over several pools at once is no member of a group", field="Tags"
        )
    for pool, (_, demand) in zip(pools, submission.parts, strict=True):
        if not demand.within(pool.capacity):
            raise NeverFits(_too_large(demand, [pool]), field="ResourceConfig.InstanceGroups")


def check_gang(group: Group, members: Sequence[Submission], pools: Sequence[Pool]) -> None:
    """Raises NeverFits where even empty pools could not hold enough of the gang at once."""
    gang = Gang(
        group=group,
        waiting=tuple(_bare(each, pools) for each in members),
        active=(),
    )
    jobs = gang.standing()
    for allowed in gang.allowed_pools():
        target = assign(
            jobs,
            {job.name: [name for name in job.pools if name in allowed] for job in jobs},
            {pool.name: pool.capacity for pool in pools},
        )
        if gang.enough(target):
            return
    raise NeverFits(
        f"gang '{group.name}' starts with {gang.needed} of its jobs at once, more than its pools "
        "could hold even if they were empty",
        field="Tags",
    )


def _bare(member: Submission, pools: Sequence[Pool]) -> Job:
    accepted = tuple(pool.name for pool in _accepted(member, pools))
    return Job(
        name=member.name,
        state=JobState.PENDING,
        priority=member.priority,
        entry_time=0,
        demand=member.demand,
        pools=accepted,
    )


def _too_large(demand: Demand, pools: Sequence[Pool]) -> str:
    """Names what is missing: the slots, and whatever else a pool has too little of."""
    short = [name for name in demand if any(demand[name] > pool.capacity[name] for pool in pools)]
    needs = " and ".join(f"{demand[name]} {name}" for name in short)
    sizes = ", ".join(
        f"{pool.name} has " + " and ".join(str(pool.capacity[name]) for name in short)
        for pool in pools
    )
    return f"the job needs {needs}, more than any of its pools: {sizes}"


def _accepted(submission: Submission, pools: Sequence[Pool]) -> list[Pool]:
    by_name = {pool.name: pool for pool in pools}
    if submission.pools:
        unknown = [name for name in submission.pools if name not in by_name]
        if unknown:
            raise InvalidRequest(
                f"the tag 'slotq:pools' names no pool of this queue: {', '.join(unknown)}; "
                f"there are {', '.join(by_name) or 'none'}",
                field="Tags",
            )
        return _few([by_name[name] for name in submission.pools])
    offering = [pool for pool in pools if pool.instance_type == submission.instance_type]
    if not offering:
        kinds = ", ".join(sorted({pool.instance_type for pool in pools}))
        raise InvalidRequest(
            f"no pool offers instance type '{submission.instance_type}'; the pools have {kinds}",
            field="ResourceConfig.InstanceType",
        )
    return _few(offering)


def _few(pools: list[Pool]) -> list[Pool]:
    if len(pools) > MAX_POOLS_PER_JOB:
        raise InvalidRequest(
            f"a job accepts at most {MAX_POOLS_PER_JOB} pools, not {len(pools)}; "
            "name the best ones in the tag 'slotq:pools'",
            field="Tags",
        )
    return pools

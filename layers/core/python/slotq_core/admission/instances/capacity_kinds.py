"""How a job's instances are bought: what its request asks for, and what its pools offer.

A request that asks for spot instances means the spot pools of its type, one that names a training
plan the pool of that plan, any other the pools on demand; where its type has none, the pools of
training plans, whose instances are paid for already. Pools that the tag `slotq:pools` names, or the
project, may be of any kind where the request leaves the question open; the attempt then runs as its
pool is bought.

In a queue without spot pools a request for spot instances runs as it is, in a pool on demand, with
a warning; so does one that names a training plan in a queue without pools of plans. From version
0.4 on both are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slotq_core.errors import InvalidRequest
from slotq_core.model.jobs import Job, Submission
from slotq_core.model.pools import CapacityKind, Pool
from slotq_core.names import POOLS_TAG

FIELD = "EnableManagedSpotTraining"
PLAN_FIELD = "ResourceConfig.TrainingPlanArn"
_IN_WORDS = {
    CapacityKind.ON_DEMAND: "on demand",
    CapacityKind.SPOT: "spot",
    CapacityKind.PLAN: "a training plan",
}
_LISTED = 12
"""The most pools in a message."""


def any_spot(pools: Iterable[Pool]) -> bool:
    return any(pool.capacity_kind is CapacityKind.SPOT for pool in pools)


def any_plan(pools: Iterable[Pool]) -> bool:
    return any(pool.capacity_kind is CapacityKind.PLAN for pool in pools)


def of_its_work(submission: Submission, pools: Iterable[Pool]) -> list[Pool]:
    """The pools that hold the submission's kind of work."""
    return [pool for pool in pools if pool.work is submission.work]


def check_named(submission: Submission, named: Sequence[Pool], every: Sequence[Pool]) -> None:
    """Check the pools that the submission names: they do not contradict its request, and those of a
    job over several pools are of one kind. `every`: the queue's pools. Raises InvalidRequest."""
    others = [pool for pool in named if pool.work is not submission.work]
    if others:
        raise InvalidRequest(
            f"{submission.name} is a {submission.work} job, and the tag '{POOLS_TAG}' names "
            f"{_listed(others)} of {others[0].work} jobs: SageMaker has a quota for each",
            field="Tags",
        )
    if submission.parts and len({pool.capacity_kind for pool in named}) > 1:
        raise InvalidRequest(
            f"the job runs in several pools at once, and these are not bought alike: "
            f"{_listed(named)}; a training job is spot in all of them or in none",
            field="Tags",
        )
    if submission.parts and any_plan(named):
        raise InvalidRequest(
            "the job runs in several pools at once, and a training plan has one instance type: "
            f"{_listed(_of_kind(CapacityKind.PLAN, named))} cannot be among them",
            field="Tags",
        )
    if submission.plan and any_plan(every):
        _check_plan(submission, named, every)
    if submission.plan and any_spot(named):
        raise InvalidRequest(
            f"the request names a training plan, and the tag '{POOLS_TAG}' the spot pools "
            f"{_listed(_of_kind(CapacityKind.SPOT, named))}: a plan's capacity is no spot capacity",
            field="Tags",
        )
    if submission.capacity_kind is None or not any_spot(every):
        return
    spot = submission.capacity_kind is CapacityKind.SPOT
    bought = [pool for pool in named if (pool.capacity_kind is CapacityKind.SPOT) is not spot]
    if bought:
        raise InvalidRequest(
            f"{_asked(submission.capacity_kind)}, and the tag '{POOLS_TAG}' names "
            f"{_listed(bought)}: leave {FIELD} out, and each pool decides, or name pools that are "
            f"{_IN_WORDS[submission.capacity_kind]}{_fitting(submission, every)}",
            field="Tags",
        )


def offered(
    submission: Submission, pools: Sequence[Pool], every: Sequence[Pool], *, by_default: bool
) -> list[Pool]:
    """The pools that a submission means which names none, among the `pools` of its instance type.
    `by_default`: its project names them. `every`: the queue's. Raises InvalidRequest if none is
    left, with those that would do."""
    kind = submission.capacity_kind
    if submission.plan and any_plan(every):
        return _of_plan(submission, pools, every)
    if by_default and kind is not CapacityKind.SPOT:
        found = [pool for pool in pools if kind is None or not any_spot([pool])]
    elif kind is CapacityKind.SPOT and any_spot(every):
        found = _of_kind(kind, pools)
    else:
        # With a request for spot instances, the queue has no spot pools: as before version 0.4.
        plans = [] if kind is CapacityKind.SPOT else _of_kind(CapacityKind.PLAN, pools)
        found = _of_kind(CapacityKind.ON_DEMAND, pools) or plans
    if not found:
        raise InvalidRequest(_nowhere(submission, pools, every), field=FIELD)
    return found


def meant(submission: Submission, pools: Sequence[Pool], *, named: bool) -> list[Pool]:
    """The pools among which a job of several instance types finds one for each. `named`: the
    submission or its project names them."""
    pools = of_its_work(submission, pools)
    kind = submission.capacity_kind or (None if named else CapacityKind.ON_DEMAND)
    if kind is None:
        return [*pools]
    if kind is CapacityKind.SPOT and not any_spot(pools):
        return [pool for pool in pools if pool.capacity_kind is not CapacityKind.PLAN]
    return _of_kind(kind, pools)


def as_accepted(submission: Submission, job: Job, pools: Iterable[Pool]) -> Submission:
    """A changed submission that names the same pools as before. A request for spot instances, or
    for a training plan, that was accepted in pools on demand, when the queue had no others, stays
    accepted there."""
    own = [pool for pool in pools if pool.name in job.pools]
    if submission.plan and not any_plan(own):
        submission = replace(submission, plan="")
    if submission.capacity_kind is not CapacityKind.SPOT or any_spot(own):
        return submission
    return replace(submission, capacity_kind=None)


def warnings(submission: Submission, job: Job, pools: Sequence[Pool]) -> tuple[str, ...]:
    """The warnings of a request for spot instances in a queue without spot pools, and of one for a
    training plan in a queue without pools of plans."""
    found: list[str] = []
    if submission.capacity_kind is CapacityKind.SPOT and not any_spot(pools):
        said = f"no pool here is spot, so {job.name} waits for spot instances in slots on demand"
        found.append(f"{FIELD}: {said}")
    if submission.plan and not any_plan(pools):
        said = f"no pool here is a training plan, so {job.name} counts in slots on demand"
        found.append(f"{PLAN_FIELD}: {said}")
    return tuple(f"{said}; from version 0.4 on such a request is refused" for said in found)


def _check_plan(submission: Submission, named: Sequence[Pool], every: Sequence[Pool]) -> None:
    others = [pool for pool in named if pool.plan_arn != submission.plan]
    if others:
        raise InvalidRequest(
            f"the request names the training plan {submission.plan} ({PLAN_FIELD}), and the tag "
            f"'{POOLS_TAG}' names {_listed(others)}: leave the plan out, and each pool decides, or "
            f"name the plan's pool{_fitting_plan(submission, every)}",
            field="Tags",
        )


def _of_plan(submission: Submission, pools: Sequence[Pool], every: Sequence[Pool]) -> list[Pool]:
    found = [pool for pool in pools if pool.plan_arn == submission.plan]
    if not found:
        fitting = _fitting_plan(submission, every)
        plans = f"; the pools of plans are {_listed(_of_kind(CapacityKind.PLAN, every))}"
        raise InvalidRequest(
            f"the request names the training plan {submission.plan}, and no pool of instance type "
            f"'{submission.instance_type}' that it may use has that plan{fitting or plans}",
            field=PLAN_FIELD,
        )
    return found


def _fitting_plan(submission: Submission, every: Iterable[Pool]) -> str:
    fitting = [pool for pool in every if pool.plan_arn == submission.plan]
    return f": {_listed(fitting)}" if fitting else ""


def _nowhere(submission: Submission, pools: Sequence[Pool], every: Sequence[Pool]) -> str:
    kind = submission.capacity_kind
    if kind is CapacityKind.SPOT and not any_spot(every):
        return (
            f"{_asked(kind)}, and the pools of instance type '{submission.instance_type}' are "
            f"training plans: leave {FIELD} out to run in {_listed(pools)}"
        )
    if kind is CapacityKind.SPOT:
        fitting = _fitting(submission, every)
        others = "" if fitting else f"; the spot pools are {_listed(_of_kind(kind, every))}"
        return (
            f"{_asked(kind)}, and no spot pool has instance type '{submission.instance_type}'"
            f"{fitting}{others}"
        )
    return (
        f"no pool on demand has instance type '{submission.instance_type}', and the request does "
        f"not ask for spot instances: set {FIELD} to true, or leave it out and name the pool in "
        f"the tag '{POOLS_TAG}': {_listed(pools)}"
    )


def _asked(kind: CapacityKind) -> str:
    if kind is CapacityKind.SPOT:
        return f"the request asks for spot instances ({FIELD})"
    return f"the request asks for no spot instances ({FIELD} is false)"


def _fitting(submission: Submission, every: Iterable[Pool]) -> str:
    kind = submission.capacity_kind
    found = [pool for pool in every if pool.instance_type == submission.instance_type]
    fitting = _of_kind(kind, found) if kind else []
    return f": {_listed(fitting)}" if fitting else ""


def _of_kind(kind: CapacityKind, pools: Iterable[Pool]) -> list[Pool]:
    return [pool for pool in pools if pool.capacity_kind is kind]


def _listed(pools: Sequence[Pool]) -> str:
    shown = [f"{p.name} ({p.instance_type}, {_IN_WORDS[p.capacity_kind]})" for p in pools[:_LISTED]]
    return ", ".join(shown) + (" …" if len(pools) > _LISTED else "")

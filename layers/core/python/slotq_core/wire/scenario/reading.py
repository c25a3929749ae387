"""JSON -> model: the whole queue, as `views` has written it."""

from __future__ import annotations

from collections.abc import Mapping

from slotq_core import names
from slotq_core.model.attempts import Attempt, StopCause, StopOrder
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Claim, Job, JobState, Workload
from slotq_core.model.pools import MissingRight, PoolHealth
from slotq_core.model.projects import NOTHING_SPENT, Spending
from slotq_core.model.users import Yielded
from slotq_core.timestamps import from_iso
from slotq_core.wire.scenario.views import (
    ClaimView,
    SpentView,
    StandingAttemptView,
    StandingGroupView,
    StandingJobView,
    StopView,
    YieldedView,
)
from slotq_core.wire.views.pools import PoolHealthView


def job_of(view: StandingJobView) -> Job:
    return Job(
        name=view.name,
        state=JobState(view.state),
        priority=view.priority,
        entry_time=from_iso(view.entry_time),
        changed_at=from_iso(view.changed_at),
        demand=Demand(view.demand),
        parts=tuple((pool, Demand(amounts)) for pool, amounts in view.parts.items()),
        requires=Demand(view.requires),
        pools=tuple(view.pools),
        preemptible=view.preemptible,
        min_runtime=milliseconds(view.min_runtime),
        retries=view.retries,
        project=view.project,
        group=view.group,
        after=tuple(view.after),
        after_any=tuple(view.after_any),
        workload=Workload(view.workload),
        priority_class=view.priority_class,
        admitted_class=view.admitted_class,
        auto=view.auto,
        ran_before_class=milliseconds(view.ran_before_class),
        checkpoints=view.checkpoints,
        person=view.user,
        role=view.role,
        attempts=view.attempts,
        evictions=view.evictions,
        schedule_attempts=view.schedule_attempts,
        faults=view.faults,
        refused_in=tuple(view.refused_in),
        denied_in=tuple(view.denied_in),
        releases=tuple(from_iso(it) for it in view.releases),
        ran=milliseconds(view.ran),
        reports=view.reports,
        line_by_user=view.line_by_user,
        cause=view.cause,
        message=view.message,
        not_before=_moment(view.not_before),
        claim=_claim(view.claim) if view.claim else None,
        attempt=_attempt(view.name, view.attempt) if view.attempt else None,
    )


def _claim(view: ClaimView) -> Claim:
    return Claim(
        pool=view.pool,
        amount=Demand(view.amount),
        since=from_iso(view.since),
        priority_class=view.priority_class,
        moved=view.moved,
    )


def _attempt(job: str, view: StandingAttemptView) -> Attempt:
    return Attempt(
        number=view.number,
        training_job=names.training_job_name(job, view.number),
        token="",  # an attempt's, and nobody starts it from here # nosec B106
        pool=view.pool,
        instance_type=view.instance_type,
        admitted_at=from_iso(view.admitted_at),
        waiting_since=_moment(view.waiting_since),
        created=view.created,
        probes=view.probes,
        pending_since=_moment(view.pending_since),
        running_since=_moment(view.running_since),
        checkpoint_at=_moment(view.checkpoint_at),
        reported=view.reported,
        silent_since=_moment(view.silent_since),
        heartbeat_missed=view.heartbeat_missed,
        stalled_at=_moment(view.stalled_at),
        stop=_stop(view.stop) if view.stop else None,
    )


def _stop(view: StopView) -> StopOrder:
    return StopOrder(
        cause=StopCause(view.cause),
        by=view.by,
        at=from_iso(view.at),
        sent=view.sent,
        grace_until=_moment(view.grace_until),
    )


def health_of(view: PoolHealthView | None) -> PoolHealth:
    if view is None:
        return PoolHealth()
    return PoolHealth(
        errors=view.errors,
        not_before=_moment(view.not_before),
        learned=view.learned,
        learned_until=_moment(view.learned_until),
        message=view.message,
        missing_rights=tuple(
            MissingRight(
                role=it.role,
                action=it.action,
                since=from_iso(it.since),
                refusals=it.refusals,
                not_before=from_iso(it.not_before),
                message=it.message,
            )
            for it in view.missing_rights
        ),
    )


def group_of(view: StandingGroupView) -> Group:
    return Group(
        name=view.name,
        members=tuple(view.members),
        min_members=view.min_members,
        mandatory=tuple(view.mandatory),
        same_pool=view.same_pool,
        ends_with=view.ends_with,
        heartbeat=None if view.heartbeat is None else milliseconds(view.heartbeat),
        max_parallel=view.max_parallel,
        ended={name: JobState(state) for name, state in view.ended.items()},
    )


def yielded_of(view: YieldedView) -> Yielded:
    return Yielded(
        user=view.user,
        workload=Workload(view.workload),
        priority=view.priority,
        at=from_iso(view.at),
        project=view.project,
    )


def spending_of(view: SpentView | None) -> Spending:
    if view is None:
        return NOTHING_SPENT
    return Spending(
        month=from_iso(view.month),
        slot_ms={name: milliseconds(each) for name, each in view.slot_seconds.items()},
        warned=frozenset(view.warned),
    )


def durations_of(views: Mapping[str, float | None]) -> dict[str, int]:
    """The durations that are known, in milliseconds."""
    return {name: milliseconds(each) for name, each in views.items() if each is not None}


def milliseconds(duration: float) -> int:
    return round(duration * 1000)


def _moment(text: str | None) -> int | None:
    return None if text is None else from_iso(text)

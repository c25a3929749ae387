"""JSON -> model: the whole queue, as `views` has written it."""

from __future__ import annotations

from collections.abc import Mapping

from slotq_core import names
from slotq_core.model.attempts import Attempt, StopOrder
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Claim, Job
from slotq_core.model.pools import MissingRight, PoolHealth
from slotq_core.model.projects import NOTHING_SPENT, Spending
from slotq_core.model.users import Yielded
from slotq_core.timestamps import from_iso, milliseconds
from slotq_core.wire.scenario.views import (
    SpentView,
    StandingAttemptView,
    StandingGroupView,
    StandingJobView,
    YieldedView,
)
from slotq_core.wire.views.forms import record_of
from slotq_core.wire.views.pools import PoolHealthView


def job_of(view: StandingJobView) -> Job:
    return record_of(
        view,
        Job,
        person=view.user,
        claim=record_of(view.claim, Claim) if view.claim else None,
        attempt=_attempt(view.name, view.attempt) if view.attempt else None,
    )


def _attempt(job: str, view: StandingAttemptView) -> Attempt:
    return record_of(
        view,
        Attempt,
        training_job=names.training_job_name(job, view.number),
        token="",  # an attempt's, and nobody starts it from here # nosec B106
        stop=record_of(view.stop, StopOrder) if view.stop else None,
    )


def health_of(view: PoolHealthView | None) -> PoolHealth:
    if view is None:
        return PoolHealth()
    rights = tuple(record_of(missing, MissingRight) for missing in view.missing_rights)
    return record_of(view, PoolHealth, missing_rights=rights)


def group_of(view: StandingGroupView) -> Group:
    return record_of(view, Group)


def yielded_of(view: YieldedView) -> Yielded:
    return record_of(view, Yielded)


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

"""Read the queue's answers: views, or refusals as exceptions."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError

from slotq.configuration.settings import Config
from slotq.errors import UnexpectedAnswer
from slotq.transport import refusals
from slotq.transport.signed_http import HttpAnswer, Transport
from slotq_core.wire.base import VERSION
from slotq_core.wire.configuration import LimitsView
from slotq_core.wire.document.views import (
    AppliedView,
    ConfigurationView,
    ProjectsView,
    QuotasView,
)
from slotq_core.wire.groups.views import GroupsView, GroupView
from slotq_core.wire.job_changes import OutcomesView
from slotq_core.wire.record import ChangesView
from slotq_core.wire.scenario.views import ScenarioView
from slotq_core.wire.views.about import AboutView, DoctorView, MeView
from slotq_core.wire.views.jobs import JobView, QueueView, RequestView
from slotq_core.wire.views.pools import PoolsView
from slotq_core.wire.views.usage import AttemptsPageView, UsagePageView

View = TypeVar(
    "View",
    JobView,
    GroupView,
    GroupsView,
    QueueView,
    OutcomesView,
    PoolsView,
    LimitsView,
    ConfigurationView,
    AppliedView,
    ProjectsView,
    QuotasView,
    ChangesView,
    DoctorView,
    RequestView,
    AboutView,
    MeView,
    UsagePageView,
    AttemptsPageView,
    ScenarioView,
)


def read(view: type[View], answer: HttpAnswer, transport: Transport, config: Config) -> View:
    """The view that a successful answer carries.

    Raises the queue's refusal otherwise, and UnexpectedAnswer for what is not the queue's.
    """
    if not 200 <= answer.status_code < 300:
        signed = transport.credentials() is not None
        raise refusals.error(answer, config=config, signed=signed)
    try:
        found = view.model_validate_json(answer.content)
    except ValidationError:
        raise _not_the_queue(answer, config) from None
    if "version" not in found.model_fields_set or found.version != VERSION:
        raise _not_the_queue(answer, config)
    return found


def _not_the_queue(answer: HttpAnswer, config: Config) -> UnexpectedAnswer:
    return UnexpectedAnswer(
        f"{config.endpoint} answered {answer.status_code}, but not as the queue does: "
        "check that the endpoint is the queue's API and ends with its stage (…/prod), and "
        f"that the queue speaks this client's version ({VERSION})"
    )

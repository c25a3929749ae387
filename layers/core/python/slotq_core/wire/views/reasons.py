"""Why something waits, as JSON."""

from __future__ import annotations

from slotq_core.model.reasons import Number, Reason
from slotq_core.wire.base import BaseModel


class ReasonView(BaseModel):
    """Why a job waits: `code` and `numbers` for programs, `text` for people."""

    code: str
    text: str
    """The reason and, where there is one, the second cause, as sentences."""
    numbers: dict[str, Number]
    also: ReasonView | None = None
    """A second cause, which would keep the job back without the first one."""


def reason_view(reason: Reason) -> ReasonView:
    also = reason_view(reason.also) if reason.also else None
    return ReasonView(code=reason.code, text=reason.text(), numbers=reason.numbers(), also=also)

"""Why something waits, as JSON."""

from __future__ import annotations

from slotq_core.model.reasons import Number, Reason
from slotq_core.wire.base import BaseModel


class ReasonView(BaseModel):
    """Why a job waits: `code` and `numbers` for programs, `text` for people."""

    code: str
    text: str
    numbers: dict[str, Number]


def reason_view(reason: Reason) -> ReasonView:
    return ReasonView(code=reason.code, text=reason.sentence(), numbers=reason.numbers())

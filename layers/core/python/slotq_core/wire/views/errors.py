"""Refusals and failures as JSON."""

from __future__ import annotations

from pydantic import Field

from slotq_core.wire.base import VERSION, BaseModel


class FaultView(BaseModel):
    """One fault of a request."""

    path: str
    """The faulty field, e.g. `projects[2].quota`."""
    message: str


class ErrorView(BaseModel):
    """The body of every 4xx and 5xx answer."""

    version: int = VERSION
    code: str
    message: str
    field: str = ""
    faults: list[FaultView] = Field(default=[])
    """All faults of a malformed request; the message tells them too."""

"""The base of every model of the API, and refusals."""

from __future__ import annotations

import pydantic
from pydantic import ConfigDict, Field

from slotq_core.wire import VERSION


class BaseModel(pydantic.BaseModel):
    """Built with its first use, not at import: a cold start answers one request, with few of
    them."""

    model_config = ConfigDict(defer_build=True)


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
    """All faults of a malformed request; the message lists them too."""

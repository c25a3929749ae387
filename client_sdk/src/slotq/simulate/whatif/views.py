"""The answer to what if, as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from slotq_core.wire.document.views import EntryChangeView

What = Literal["starts", "evicted", "runs", "stops", "waits", "held", "ended", "absent"]
Event = Literal["start", "evict", "complete", "fail", "cancel"]


class NowView(BaseModel):
    """What the next passes do with a job, before any time goes by."""

    what: What
    """`absent`: there is no such job."""
    pool: str | None = None
    why: str = ""
    """Why it waits, or for whom it is evicted, as a sentence."""


class NowRow(BaseModel):
    job: str
    project: str = ""
    before: NowView
    """Without the change."""
    after: NowView


class MomentView(BaseModel):
    """When something happens to a job."""

    at: str
    pool: str | None = None
    why: str = ""


class TimelineRow(BaseModel):
    """Something that happens at another time, elsewhere, or only with or without the change."""

    job: str
    event: Event
    before: MomentView | None
    """Null: it does not happen without the change, within the time looked at."""
    after: MomentView | None
    """Null: it does not happen with the change."""


class AssumedView(BaseModel):
    """What nobody can know."""

    stop_seconds: float
    """How long a stop takes."""
    runtimes: dict[str, int]
    """How many jobs have their running time from where: `eta` (the job reports it), `given` (the
    caller says so), `max_runtime` (their request allows so much), `default` (SageMaker's)."""


class WhatIfView(BaseModel):
    """The queue as it stands, with a change and without."""

    at: str
    """The moment of the queue that the answer starts from."""
    until: str
    revision: int
    """The configuration's."""
    withheld: int
    """How many jobs bear stand-in names because the caller may not see them. The answer is partial
    then: the limits of their users are not counted."""
    left_out: int
    """How many waiting jobs are not looked at, at least."""
    assumed: AssumedView
    now: list[NowRow]
    """The jobs that start or are evicted now, with the change or without, and those changed."""
    timeline: list[TimelineRow]
    """How the time after that differs, the earliest first."""
    configuration: list[EntryChangeView]
    """The change of the configuration."""

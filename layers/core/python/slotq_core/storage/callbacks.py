"""Decide which token of a job counts: the newest."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from slotq_core.model.jobs import Job
from slotq_core.model.notices import Callback
from slotq_core.ports.callbacks import KeptCallback

MOST_FORMER = 50
"""How many replaced tokens of a job are known. A state machine tries a task a few times."""


def kept(job: Job, callback: Callback) -> KeptCallback:
    """Return a job's callback as it is kept."""
    return KeptCallback(
        job=job.name,
        entered=job.entry_time,
        kind=callback.kind,
        token=callback.token,
        token_id=hashlib.sha256(callback.token.encode()).hexdigest()[:16],
        when_abandoned=callback.when_abandoned,
    )


def attached(current: KeptCallback | None, new: KeptCallback) -> tuple[KeptCallback, ...]:
    """Return what to store when a new callback comes: it, and the one that it replaces. Empty:
    nothing changes."""
    if current is None:
        return (new,)
    if current.token_id == new.token_id:
        same = current.when_abandoned is new.when_abandoned
        return () if same else (replace(current, when_abandoned=new.when_abandoned),)
    if new.token_id in current.former:
        return ()
    former = (*current.former, current.token_id)[-MOST_FORMER:]
    old = replace(current, superseded=True, former=(), due=0, tries=0, trouble="")
    return replace(new, former=former), old

"""Decide which token of a job counts: the newest."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from slotq_core import names
from slotq_core.errors import InvalidRequest
from slotq_core.model.jobs import Job
from slotq_core.model.notices import Callback
from slotq_core.ports.callbacks import KeptCallback

MOST_TOKENS = 50
"""How many tokens a job has in its life: each that is replaced costs the queue a call. A state
machine tries a task a few times."""


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
    nothing changes. Raises InvalidRequest if the job has had too many."""
    if current is None:
        return (new,)
    if current.token_id == new.token_id:
        same = current.when_abandoned is new.when_abandoned
        return () if same else (replace(current, when_abandoned=new.when_abandoned),)
    if new.token_id in current.former:
        return ()
    former = (*current.former, current.token_id)
    if len(former) >= MOST_TOKENS:
        raise InvalidRequest(
            f"job {new.job} has had {MOST_TOKENS} tokens, the most of one job",
            field=names.CALLBACK,
        )
    old = replace(current, superseded=True, former=(), due=0, tries=0, trouble="")
    return replace(new, former=former), old

"""Find whoever waits for a job's end and cannot be told of it, for operators."""

from __future__ import annotations

from collections.abc import Iterator

from slotq_core.ports.callbacks import Callbacks, KeptCallback
from slotq_core.ports.stored import Finding
from slotq_core.timestamps import iso


def examine(callbacks: Callbacks) -> Iterator[Finding]:
    """Yield those whose last call was refused. Never their tokens."""
    for kept in callbacks.all():
        if kept.trouble:
            yield Finding(kind="callback", subject=kept.job, text=_text(kept))


def _text(kept: KeptCallback) -> str:
    whom = f"the {kept.kind.value} that waits for its end"
    if not kept.tries:
        return f"{whom} cannot be shown that it lives: {kept.trouble}"
    times = "once" if kept.tries == 1 else f"{kept.tries} times"
    return f"{whom} has refused the answer {times}: {kept.trouble}; again at {iso(kept.due)}"

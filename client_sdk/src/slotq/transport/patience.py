"""Wait until the queue's limits admit a request: for a bounded time, and with a message."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from slotq.errors import LimitReached

T = TypeVar("T")

LONGEST = 180
"""Total seconds that one request may wait."""


def patiently(
    call: Callable[[], T],
    *kinds: type[LimitReached],
    sleep: Callable[[float], None],
    say: Callable[[str], None],
) -> T:
    """Return what `call` returns. On a refusal of one of these kinds, wait as long as the queue
    asks and retry. Raises the refusal if the total wait would exceed LONGEST."""
    waited = 0
    while True:
        try:
            return call()
        except kinds as refused:
            pause = max(1, refused.retry_after)
            if waited + pause > LONGEST:
                raise
            say(f"{refused}; waiting {pause} s")
            sleep(pause)
            waited += pause


def to_stderr(text: str) -> None:
    """Write a message to stderr, apart from the command's output."""
    sys.stderr.write(f"slotq: {text}\n")
    sys.stderr.flush()

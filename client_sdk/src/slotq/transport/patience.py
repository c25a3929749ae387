"""Waiting until the queue's own limits let a request through: for so long, and not in silence."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from slotq.errors import LimitReached

T = TypeVar("T")

LONGEST = 180
"""Seconds that one request waits in all."""


def patiently(
    call: Callable[[], T],
    *kinds: type[LimitReached],
    sleep: Callable[[float], None],
    say: Callable[[str], None],
) -> T:
    """What `call` gives. Where it is refused with one of these, wait for as long as the queue says
    and try again; raises the refusal once that would be longer than LONGEST."""
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
    """Where nobody says otherwise: beside what a command answers."""
    sys.stderr.write(f"slotq: {text}\n")
    sys.stderr.flush()

"""GPUs of one node as amounts: hundredths of a GPU in the core, the number of GPUs outside.

A job has a part of one GPU (0.05 to 0.95), or whole GPUs (1 to 64). People, tags, JSON and the
store write the number: `0.25`, `2`.
"""

from __future__ import annotations

import re

Gpus = int
"""Hundredths of a GPU. A field of this type is stored and shown as the number of GPUs."""

WHOLE = 100
"""One GPU."""
LEAST_PART, MOST_PART = 5, 95
"""A part of one GPU."""
MOST = 64 * WHOLE

RULE = (
    "a part of one GPU from 0.05 to 0.95 in hundredths, such as 0.25, or whole GPUs from 1 to 64 "
    "(0: whole instances)"
)
"""What people may write."""

_NUMBER = re.compile(r"\+?(?P<whole>[0-9]{0,9})(\.(?P<hundredths>[0-9]{1,2})0*)?")
_SHOWN = 40
"""The most characters of a wrong value in a message."""


def read_gpus(value: object) -> Gpus:
    """Return the hundredths of a number of GPUs, from text or JSON. 0: none. Raises ValueError with
    what to write."""
    known = isinstance(value, str | int | float) and not isinstance(value, bool)
    amount = _hundredths(str(value)) if known else None
    if amount is None or not is_amount(amount):
        shown = f"'{value[:_SHOWN]}'" if isinstance(value, str) else str(value)[:_SHOWN]
        raise ValueError(f"write {RULE}, not {shown}")
    return amount


def is_amount(amount: Gpus) -> bool:
    """Whether a job may have so many GPUs of a node, or none."""
    whole = amount % WHOLE == 0
    return (0 <= amount <= MOST) if whole else (LEAST_PART <= amount <= MOST_PART)


def gpus_number(amount: Gpus) -> int | float:
    """Return the number of GPUs: `2`, `0.25`. Not only of one job: `3.75`."""
    return amount / WHOLE if amount % WHOLE else amount // WHOLE


def gpus_text(amount: Gpus) -> str:
    """Return the number of GPUs as people read it: `2`, `0.50`."""
    return f"{amount / WHOLE:.2f}" if amount % WHOLE else str(amount // WHOLE)


def in_gpus(amount: Gpus) -> str:
    """Return `1 GPU`, `2 GPUs`, `0.50 GPUs`."""
    return f"{gpus_text(amount)} {'GPU' if amount == WHOLE else 'GPUs'}"


def _hundredths(text: str) -> int | None:
    found = _NUMBER.fullmatch(text)
    if found is None or not (found["whole"] or found["hundredths"]):
        return None
    return WHOLE * int(found["whole"] or 0) + int((found["hundredths"] or "").ljust(2, "0"))

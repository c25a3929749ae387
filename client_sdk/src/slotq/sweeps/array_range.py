"""The indices of an array of jobs, as Slurm's users write them: `1-10`, `1,3,7`, `0-15:4`, `%4`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slotq.errors import InvalidRequest
from slotq_core.wire.groups.submission import MOST_MEMBERS

LARGEST_INDEX = 9_999_999

_PART = re.compile(r"(?P<low>\d{1,7})(-(?P<high>\d{1,7})(:(?P<step>\d{1,7}))?)?")
_LIMIT = re.compile(r"\d{1,7}")
_WHAT = "1-10, 1,3,7 or 0-15:4, and %N for at most N at once"


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrayRange:
    """The indices in ascending order, and how many jobs hold slots at once."""

    indices: tuple[int, ...]
    at_once: int


def read_range(text: str) -> ArrayRange:
    """Raises InvalidRequest that says what would be right."""
    listed, percent, limit = text.strip().partition("%")
    if percent and not (_LIMIT.fullmatch(limit) and int(limit) >= 1):
        raise _refusal(text, f"after % comes how many run at once, from 1, not '{limit[:40]}'")
    indices: set[int] = set()
    for part in listed.split(","):
        indices |= _indices(part.strip(), text)
    if len(indices) > MOST_MEMBERS:
        raise _refusal(
            text, f"it has {len(indices):,} indices, and an array has at most {MOST_MEMBERS:,}"
        )
    ordered = tuple(sorted(indices))
    return ArrayRange(indices=ordered, at_once=int(limit) if percent else len(ordered))


def _indices(part: str, text: str) -> set[int]:
    found = _PART.fullmatch(part)
    if found is None:
        raise _refusal(text, f"'{part}' is no index and no range")
    low = int(found["low"])
    high = low if found["high"] is None else int(found["high"])
    step = 1 if found["step"] is None else int(found["step"])
    if high < low:
        raise _refusal(text, f"{part} ends before it begins")
    if step == 0:
        raise _refusal(text, f"the step of {part} is 0")
    numbers = range(low, high + 1, step)
    if len(numbers) > MOST_MEMBERS:
        raise _refusal(
            text, f"{part} has {len(numbers):,} indices, and an array has at most {MOST_MEMBERS:,}"
        )
    return set(numbers)


def _refusal(text: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"--array {text[:40]}: {why}. Write {_WHAT}", field="array")

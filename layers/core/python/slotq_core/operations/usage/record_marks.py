"""The position of a read among a day's records, without the name of a job.

A record's key contains the name of its job, and the caller may lack access to some jobs. A mark
contains the time of recording, and the number of records read of that time.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotq_core.ports.usage import UsageBook

_AT_ONE_MOMENT = 9_999
"""More than are ever recorded within one millisecond: each in a transaction of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordMark:
    """The last record read."""

    moment: str = ""
    """When it was recorded; empty: none is read."""
    number: int = 0
    """How many records of this very moment are read."""


NO_RECORD = RecordMark()


def mark_of(book: UsageBook, day: str, position: str) -> RecordMark:
    """The mark of the record at a position of the day; empty: before the first."""
    if not position:
        return NO_RECORD
    moment = position.split("#", maxsplit=1)[0]
    same = book.ended(day, after=moment, before=f"{position}~", limit=_AT_ONE_MOMENT)
    return RecordMark(moment=moment, number=len(same.uses) + same.unreadable)


def position_of(book: UsageBook, day: str, mark: RecordMark) -> str:
    """The position of the marked record; empty: before the first."""
    if not mark.number:
        return ""
    same = book.ended(day, after=mark.moment, before=f"{mark.moment}~", limit=mark.number)
    return same.last

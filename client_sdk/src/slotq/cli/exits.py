"""Exit codes; `slotq --help` shows this table."""

from __future__ import annotations

from enum import IntEnum

from slotq.errors import (
    CannotReach,
    DocumentError,
    NotAllowed,
    NotConfigured,
    Refused,
    SlotQError,
    TooLate,
    Unavailable,
    UnexpectedAnswer,
)


class CannotUseFile(SlotQError):
    """The operating system refuses a file or a stream."""


class Exit(IntEnum):
    """The meaning of a command's exit code."""

    OK = 0
    NO = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_ALLOWED = 4
    TOO_LATE = 5
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "done, or the answer is yes",
    Exit.NO: "the answer is no: refused, not found, or the job did not complete",
    Exit.USAGE: "the command line, a file or a setting is wrong",
    Exit.UNREACHABLE: "the queue cannot be reached, or its answer is not the queue's",
    Exit.NOT_ALLOWED: "the API did not let you in",
    Exit.TOO_LATE: "too late: the job has ended or moved on, and nothing was changed",
    Exit.INTERRUPTED: "interrupted (Ctrl-C); the queue goes on",
}

_OF_ERROR: tuple[tuple[type[SlotQError], Exit], ...] = (
    (TooLate, Exit.TOO_LATE),
    (Refused, Exit.NO),
    (NotConfigured, Exit.USAGE),
    (DocumentError, Exit.USAGE),
    (CannotUseFile, Exit.USAGE),
    (NotAllowed, Exit.NOT_ALLOWED),
    (CannotReach, Exit.UNREACHABLE),
    (Unavailable, Exit.UNREACHABLE),
    (UnexpectedAnswer, Exit.UNREACHABLE),
)
"""The first match counts."""


def exit_of(error: SlotQError) -> Exit:
    """The exit code for an uncaught error."""
    return next((code for kind, code in _OF_ERROR if isinstance(error, kind)), Exit.NO)

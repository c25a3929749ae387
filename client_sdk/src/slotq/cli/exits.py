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


class ExitCode(IntEnum):
    """The meaning of a command's exit code."""

    OK = 0
    NO = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_ALLOWED = 4
    TOO_LATE = 5
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: "done, or the answer is yes",
    ExitCode.NO: "the answer is no: refused, not found, or the job did not complete",
    ExitCode.USAGE: "the command line, a file or a setting is wrong",
    ExitCode.UNREACHABLE: "the queue cannot be reached, or its answer is not the queue's",
    ExitCode.NOT_ALLOWED: "the API did not let you in",
    ExitCode.TOO_LATE: "too late: the job has ended or moved on, and nothing was changed",
    ExitCode.INTERRUPTED: "interrupted (Ctrl-C); the queue goes on",
}

_OF_ERROR: tuple[tuple[type[SlotQError], ExitCode], ...] = (
    (TooLate, ExitCode.TOO_LATE),
    (Refused, ExitCode.NO),
    (NotConfigured, ExitCode.USAGE),
    (DocumentError, ExitCode.USAGE),
    (CannotUseFile, ExitCode.USAGE),
    (NotAllowed, ExitCode.NOT_ALLOWED),
    (CannotReach, ExitCode.UNREACHABLE),
    (Unavailable, ExitCode.UNREACHABLE),
    (UnexpectedAnswer, ExitCode.UNREACHABLE),
)
"""The first match counts."""


def exit_of(error: SlotQError) -> ExitCode:
    """The exit code for an uncaught error."""
    return next((code for kind, code in _OF_ERROR if isinstance(error, kind)), ExitCode.NO)

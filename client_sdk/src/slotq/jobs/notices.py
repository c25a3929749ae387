"""Messages to the user, in two places: printed, and logged to the logger `slotq`.

Lines are logged at INFO, trouble (`Trouble`) at WARNING. Output of the training goes to the logger
`slotq.training`, so that it can be filtered. A line is not printed if a logging handler already
shows it on this program's output.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

from slotq_core.model.reports import SlowSave

if TYPE_CHECKING:
    from slotq_core.wire.views.jobs import JobView

LOGGER = logging.getLogger("slotq")
# Without a handler, Python itself prints warnings if the program configures no logging.
LOGGER.addHandler(logging.NullHandler())
_TRAINING = logging.getLogger("slotq.training")

Say = Callable[[str], None]


class Trouble(str):
    """A line about a problem."""

    __slots__ = ()


class Output(str):
    """A line written by the training."""

    __slots__ = ()


def log(line: str) -> bool:
    """Log the line. Returns whether a handler has shown it on this program's output."""
    logger, level = _where(line)
    logger.log(level, "%s", line)
    return shows(logger, level)


def print_line(line: str) -> None:
    """Log the line, and print it unless a logging handler has shown it already."""
    if not log(line):
        print_only(line)


def print_only(line: str) -> None:
    """Print the line without logging it."""
    print(encodable(line, sys.stdout), flush=True)  # noqa: T201 - where the SDKs print too


def encodable(text: str, out: TextIO) -> str:
    """The text with a question mark for each character that a stream cannot encode."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def one_line(text: str) -> str:
    """The text of a stranger without line breaks and control characters: no terminal obeys it."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def logged(say: Say) -> Say:
    """A function that logs a line and passes it to `say`."""

    def both(line: str) -> None:
        log(line)
        say(line)

    return both


def shows(logger: logging.Logger = LOGGER, level: int = logging.INFO) -> bool:
    """Whether a handler writes records of this logger and level to this program's output."""
    if not logger.isEnabledFor(level):
        return False
    output = (sys.stdout, sys.stderr)
    return any(
        level >= handler.level and any(_stream(handler) is stream for stream in output)
        for handler in _handlers(logger)
    )


def _handlers(logger: logging.Logger) -> Iterator[logging.Handler]:
    """The handlers that receive the records of `logger`."""
    above: logging.Logger | None = logger
    while above is not None:
        yield from above.handlers
        above = above.parent if above.propagate else None


def _stream(handler: logging.Handler) -> object:
    """The stream that a handler of logging or rich writes to; None if it has no stream."""
    console = getattr(handler, "console", None)
    return getattr(handler, "stream", None) or getattr(console, "file", None)


def _where(line: str) -> tuple[logging.Logger, int]:
    if isinstance(line, Output):
        return _TRAINING, logging.INFO
    return LOGGER, logging.WARNING if isinstance(line, Trouble) else logging.INFO


class Warned:
    """Reports the warnings of jobs, each once."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._reported: set[tuple[str, str]] = set()

    def report(self, job: JobView, *, submitted: bool = False) -> None:
        """Say the job's new warnings as trouble. `submitted`: the view is the answer to the job's
        submission, whose warnings are said too."""
        codes = {job.slow_save.text: SlowSave.code} if job.slow_save else {}
        for warning in job.warnings if submitted else job.news:
            key = (job.name, codes.get(warning, warning))
            if key not in self._reported:
                self._reported.add(key)
                self._say(Trouble(f"{job.name}: warning: {one_line(warning)}"))

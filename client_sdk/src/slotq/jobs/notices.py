"""What the session says, in two places: printed for whoever looks on, and to the logger `slotq`.

A line is logged at INFO; one about trouble (`Trouble`) at WARNING; what the training itself has
written goes to the logger `slotq.training`, so that it can be filtered. Where logging is configured
so that a handler shows such a line on this program's output, it is not printed beside.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator

LOGGER = logging.getLogger("slotq")
# Without it Python itself would print warnings where no log is configured.
LOGGER.addHandler(logging.NullHandler())
_TRAINING = logging.getLogger("slotq.training")

Say = Callable[[str], None]


class Trouble(str):
    """A line about something that is wrong."""

    __slots__ = ()


class Output(str):
    """A line that the training has written."""

    __slots__ = ()


def log(line: str) -> bool:
    """Log the line; whether a handler has shown it on this program's output."""
    logger, level = _where(line)
    logger.log(level, "%s", line)
    return shows(logger, level)


def print_line(line: str) -> None:
    """Log the line, and print it unless a handler of the log shows it already."""
    if not log(line):
        print(line, flush=True)  # noqa: T201 - where the SDKs print too


def logged(say: Say) -> Say:
    """`say`, and the log."""

    def both(line: str) -> None:
        log(line)
        say(line)

    return both


def shows(logger: logging.Logger = LOGGER, level: int = logging.INFO) -> bool:
    """Whether a handler writes what is logged there to this program's output."""
    if not logger.isEnabledFor(level):
        return False
    output = (sys.stdout, sys.stderr)
    return any(
        level >= handler.level and any(_stream(handler) is each for each in output)
        for handler in _handlers(logger)
    )


def _handlers(logger: logging.Logger) -> Iterator[logging.Handler]:
    """Those that see what is logged there."""
    above: logging.Logger | None = logger
    while above is not None:
        yield from above.handlers
        above = above.parent if above.propagate else None


def _stream(handler: logging.Handler) -> object:
    """What a handler writes to, logging's or rich's; None where it is nothing of that kind."""
    console = getattr(handler, "console", None)
    return getattr(handler, "stream", None) or getattr(console, "file", None)


def _where(line: str) -> tuple[logging.Logger, int]:
    if isinstance(line, Output):
        return _TRAINING, logging.INFO
    return LOGGER, logging.WARNING if isinstance(line, Trouble) else logging.INFO

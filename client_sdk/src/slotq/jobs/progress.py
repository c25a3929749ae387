"""Ways to show waiting and progress: plain lines, one line of a terminal, or a card in a
notebook."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TextIO

from slotq.jobs.follow import status_line
from slotq.jobs.notebook.card import card
from slotq.jobs.notebook.live import Display, display_here
from slotq.jobs.notices import encodable, log, print_line, shows
from slotq.jobs.progress_bar import bar, marks

if TYPE_CHECKING:
    from slotq.jobs.rendering import Bundle
    from slotq_core.wire.views.jobs import JobView


class ProgressScreen(Protocol):
    """Shows permanent lines, and the state of a waiting job."""

    def say(self, line: str) -> None:
        """Show a line permanently."""

    def waiting(self, job: JobView) -> bool:
        """Show the job's status, replacing the previous display. Returns False if this screen
        cannot do so; the caller then uses `say`."""

    def running(self, job: JobView) -> bool:
        """The same for a running job that reports its progress."""

    def seen(self, job: JobView) -> None:
        """Take in every answer, so that no earlier display stays."""


class Plain:
    """Permanent lines only: for a file, a pipe, a log."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say

    def waiting(self, job: JobView) -> bool:
        return False

    def running(self, job: JobView) -> bool:
        return False

    def seen(self, job: JobView) -> None:
        pass


class Terminal:
    """Rewrites the bottom line of a terminal; permanent lines go above it."""

    def __init__(self, out: TextIO, width: Callable[[], int] | None = None) -> None:
        self._out = out
        self._width = width or (lambda: shutil.get_terminal_size().columns)
        self._shown = self._said = ""

    def say(self, line: str) -> None:
        self._write(self._erased())
        self._shown = ""
        if not log(line):
            self._write(f"{line}\n")

    def waiting(self, job: JobView) -> bool:
        if shows():
            return False
        line = f"{job.name}: {status_line(job)}"
        if line != self._said:
            log(line)
            self._said = line
        self._show(line[: max(20, self._width() - 1)])
        return True

    def running(self, job: JobView) -> bool:
        if shows() or job.progress is None:
            return False
        room = max(20, self._width() - 1)
        name = job.name if len(job.name) <= room // 3 else job.name[: room // 3 - 1] + "…"
        shown = bar(job.progress, room - len(name) - 2, marks(getattr(self._out, "encoding", None)))
        self._show(f"{name}: {shown}")
        return True

    def seen(self, job: JobView) -> None:
        pass

    def _show(self, line: str) -> None:
        if line != self._shown:
            self._write(f"{self._erased()}{line}")
            self._shown = line

    def _erased(self) -> str:
        return "\r\x1b[K" if self._shown else ""

    def _write(self, text: str) -> None:
        self._out.write(encodable(text, self._out))
        self._out.flush()


class Notebook:
    """A card below the cell, once the job waits, or runs and reports."""

    def __init__(self, say: Callable[[str], None], display: Display) -> None:
        self.say, self._display = say, display
        self._said = ""
        self._shown: dict[str, Bundle] = {}

    def waiting(self, job: JobView) -> bool:
        line = f"{job.name}: {status_line(job)}"
        if line != self._said:
            log(line)
            self._said = line
        self._show(job)
        return True

    def running(self, job: JobView) -> bool:
        if job.progress is None:
            return False
        self._show(job)
        return True

    def seen(self, job: JobView) -> None:
        if job.name in self._shown:
            self._show(job)

    def _show(self, job: JobView) -> None:
        made = card(job)
        if made != self._shown.get(job.name):
            self._shown[job.name] = made
            self._display(f"slotq-{job.name}", made)


def here() -> ProgressScreen:
    """The screen for this process: a notebook, a terminal, or plain lines."""
    display = display_here()
    if display is not None:
        return Notebook(print_line, display)
    return Terminal(sys.stdout) if sys.stdout.isatty() else Plain(print_line)

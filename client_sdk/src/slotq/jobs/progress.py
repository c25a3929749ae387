"""Ways to show waiting and progress: plain lines, one line of a terminal, or a small table in a
notebook."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, TextIO

from slotq.jobs.follow import standing
from slotq.jobs.notices import log, print_line, shows
from slotq.jobs.rendering import JOB, PROGRESS, Bundle, bundle
from slotq.jobs.reports.progress_bar import bar, marks
from slotq_core.wire.views import JobView


class Screen(Protocol):
    """Shows permanent lines, and the state of a waiting job."""

    def say(self, line: str) -> None:
        """Show a line permanently."""

    def waiting(self, job: JobView) -> bool:
        """Show where the job stands, replacing the previous display. Returns False if this screen
        cannot do so; the caller then uses `say`."""

    def running(self, job: JobView) -> bool:
        """The same for a running job that reports its progress."""


class Plain:
    """Permanent lines only: for a file, a pipe, a log."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say

    def waiting(self, job: JobView) -> bool:
        return False

    def running(self, job: JobView) -> bool:
        return False


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
        line = f"{job.name}: {standing(job)}"
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

    def _show(self, line: str) -> None:
        if line != self._shown:
            self._write(f"{self._erased()}{line}")
            self._shown = line

    def _erased(self) -> str:
        return "\r\x1b[K" if self._shown else ""

    def _write(self, text: str) -> None:
        encoding = getattr(self._out, "encoding", None) or "utf-8"
        self._out.write(text.encode(encoding, "replace").decode(encoding))
        self._out.flush()


class Notebook:
    """A table of one row below the cell, while the job waits, or runs and reports."""

    def __init__(self, say: Callable[[str], None], display: Callable[[str, Bundle], Any]) -> None:
        """`display` shows a table under an id, replacing what it showed under that id."""
        self.say, self._display = say, display
        self._said = ""

    def waiting(self, job: JobView) -> bool:
        line = f"{job.name}: {standing(job)}"
        if line != self._said:
            log(line)
            self._said = line
        self._display(f"slotq-{job.name}", bundle(JOB, [job]))
        return True

    def running(self, job: JobView) -> bool:
        if job.progress is None:
            return False
        self._display(f"slotq-{job.name}", bundle((*JOB, PROGRESS), [job]))
        return True


def here() -> Screen:
    """The screen for this process: a notebook, a terminal, or plain lines."""
    display = _notebook_display()
    if display is not None:
        return Notebook(print_line, display)
    return Terminal(sys.stdout) if sys.stdout.isatty() else Plain(print_line)


def _notebook_display() -> Callable[[str, Bundle], Any] | None:
    """IPython's display in a notebook's kernel, else None. Never imports IPython to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    cell: Any = import_module("IPython.display")

    shown: set[str] = set()

    def show(key: str, both: Bundle) -> None:
        # Send both forms: a console attached to the same kernel cannot show HTML.
        show_in = cell.update_display if key in shown else cell.display
        show_in(both, raw=True, display_id=key)
        shown.add(key)

    return show

"""Cards that follow their jobs: displayed once, then updated in place."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from typing import Any

from slotq.errors import SlotQError
from slotq.jobs.follow import ended
from slotq.jobs.job_calls import JobCalls
from slotq.jobs.notebook.buttons import Buttons, buttons_of
from slotq.jobs.notebook.card import card
from slotq.jobs.rendering import Bundle
from slotq_core.wire.views.jobs import JobView

Display = Callable[[str, Bundle], Any]
"""Shows something under an id, replacing what it showed under that id."""


def display_here() -> Display | None:
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


def show_widget(widget: object) -> None:
    """Display an ipywidgets widget. Only within a notebook's kernel."""
    cell: Any = import_module("IPython.display")
    cell.display(widget)


PAUSE = 5.0
"""Seconds between two looks at the queue."""
MOST = 20
"""The most cards that follow their jobs at once; the oldest stop first."""
PATIENCE = 60
"""Looks in a row that may fail before a card stops following."""


@dataclass
class _Card:
    key: str
    name: str
    jobs: JobCalls
    shown: Bundle
    buttons: Buttons | None = None
    failures: int = 0


class LiveCards:
    """The cards of one kernel. A thread looks for them while there are any."""

    def __init__(self, display: Display, *, starts: Callable[[Callable[[], None]], None]) -> None:
        """`starts` runs a function beside the caller's."""
        self._display, self._starts = display, starts
        self._cards: list[_Card] = []
        self._lock = threading.Lock()
        self._follows = False
        self._numbers = count(1)

    def show(self, job: JobView, jobs: JobCalls) -> None:
        """Display a card, and follow its job until it has ended."""
        made = _Card(f"slotq-card-{next(self._numbers)}", job.name, jobs, card(job))
        self._display(made.key, made.shown)
        if ended(job):
            return
        made.buttons = buttons_of(job, jobs, self.seen)
        if made.buttons is not None:
            show_widget(made.buttons.box)
        with self._lock:
            self._cards = [*self._cards, made][-MOST:]
            begins, self._follows = not self._follows, True
        if begins:
            self._starts(self._follow)

    def seen(self, job: JobView) -> None:
        """Update the job's cards with a view that other code has fetched."""
        for live_card in [card_ for card_ in self._cards if card_.name == job.name]:
            self._update(live_card, job)

    def look(self) -> bool:
        """Look at each job once. Returns whether any card still follows."""
        for live_card in list(self._cards):
            try:
                self._update(live_card, live_card.jobs.view(live_card.name))
                live_card.failures = 0
            except SlotQError:
                live_card.failures += 1
                if live_card.failures >= PATIENCE:
                    self._forget(live_card)
        with self._lock:
            self._follows = bool(self._cards)
            return self._follows

    def _follow(self) -> None:
        time.sleep(PAUSE)
        while self.look():
            time.sleep(PAUSE)

    def _update(self, live_card: _Card, job: JobView) -> None:
        html = card(job)
        if html != live_card.shown:
            live_card.shown = html
            self._display(live_card.key, html)
        if live_card.buttons is not None:
            live_card.buttons.update(job)
        if ended(job):
            self._forget(live_card)

    def _forget(self, live_card: _Card) -> None:
        with self._lock:
            self._cards = [other for other in self._cards if other is not live_card]


def _in_a_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="slotq-cards", daemon=True).start()


_here: list[LiveCards] = []
"""The cards of this process; none before the first card."""


def show(job: JobView, jobs: JobCalls) -> bool:
    """Display a live card. Returns False where no notebook is served."""
    if not _here:
        display = display_here()
        if display is None:
            return False
        _here.append(LiveCards(display, starts=_in_a_thread))
    _here[0].show(job, jobs)
    return True


def seen(job: JobView) -> None:
    """Update the cards of this job, if any."""
    for cards in _here:
        cards.seen(job)

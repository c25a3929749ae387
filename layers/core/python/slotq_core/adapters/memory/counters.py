"""Callers' use of their limits, in memory (`ports.counters.Counters`)."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from slotq_core.model.callers import (
    NOTHING_USED,
    CallerLimits,
    CallerUse,
    OpenLine,
    QueueUse,
)
from slotq_core.model.jobs import QUEUED_STATES, Job
from slotq_core.policy.lines import line_of
from slotq_core.ports.counters import Census, Counter


class MemoryCounters:
    """In-memory counters, safe for threads."""

    def __init__(
        self, jobs: Callable[[], Sequence[Job]], lines: Callable[[], Mapping[str, str]]
    ) -> None:
        """`jobs` returns all stored jobs; `lines` returns the lines, each with the mark of its
        opener."""
        self._jobs, self._lines = jobs, lines
        self._lock = threading.Lock()
        self._waiting: dict[str, int] = {}
        self._lines_of: dict[str, int] = {}
        self._minutes: dict[str, dict[int, int]] = {}
        self._audits: dict[str, int] = {}
        self.queue_use = NOTHING_USED

    def take(self, caller: str, *, minute: int | None, limits: CallerLimits) -> bool:
        return self.count(caller, minute=minute, limits=limits) is not None

    def count(
        self, caller: str, *, minute: int | None, limits: CallerLimits, number: int = 1
    ) -> CallerUse | None:
        with self._lock:
            use = self._use(caller, minute)
            if limits.never_hold(number):
                return None
            if limits.waiting and use.waiting > limits.waiting - number:
                return None
            submitted = limits.submissions and minute is not None
            if submitted and use.submissions > limits.submissions - number:
                return None
            self._add(caller, minute, number)
            return self._use(caller, minute)

    def has_line_of(self, job: Job) -> bool:
        return line_of(job) in self._lines()

    def opened(self, caller: str) -> None:
        with self._lock:
            self._lines_of[caller] = self._lines_of.get(caller, 0) + 1
            self._add(caller, None, 0)

    def open_line(self, caller: str, *, minute: int | None, lines: int, submissions: int) -> bool:
        with self._lock:
            use = self._use(caller, minute)
            if 0 < lines <= use.lines:
                return False
            if minute is not None and 0 < submissions <= use.submissions:
                return False
            self._lines_of[caller] = use.lines + 1
            self._add(caller, minute, 1, waiting=0)
            return True

    def give_back(self, caller: str, *, minute: int | None, number: int = 1) -> None:
        with self._lock:
            if self._waiting.get(caller, 0) < number:
                return
            self._add(caller, minute, -number)

    def use(self, caller: str, *, minute: int) -> CallerUse:
        with self._lock:
            return self._use(caller, minute)

    def all(self) -> Mapping[str, Counter]:
        with self._lock:
            return {
                caller: Counter(
                    waiting=waiting,
                    lines=self._lines_of.get(caller, 0),
                    audits=self._audits.get(caller, 0),
                    minutes=frozenset(self._minutes[caller]),
                )
                for caller, waiting in self._waiting.items()
            }

    def census(self) -> Census:
        queued = [job for job in self._jobs() if job.state in QUEUED_STATES]
        queued.sort(key=attrgetter("entry_time"))
        openers = self._lines()
        lines: dict[str, list[str]] = {line: [] for line in openers}
        coming = [job for job in queued if job.comes_to_line]
        for job in sorted(coming, key=attrgetter("waits"), reverse=True):
            lines.setdefault(line_of(job), []).append(job.submitter)
        return Census(
            waiting=Tally(job.submitter for job in queued),
            lines=len({line_of(job) for job in queued if job.waits}),
            open_lines=[
                OpenLine(opener=openers.get(line, ""), submitters=[*dict.fromkeys(submitters)])
                for line, submitters in lines.items()
            ],
            projects=Tally(job.project for job in queued),
        )

    def correct(
        self, caller: str, seen: Counter, *, waiting: int, minute: int, lines: int = 0
    ) -> None:
        with self._lock:
            if self._audits.get(caller, 0) != seen.audits:
                return
            now = self._waiting.get(caller, 0) + waiting - seen.waiting
            opened = self._lines_of.get(caller, 0) + lines - seen.lines
            minutes = self._minutes.setdefault(caller, {})
            for gone in [counted for counted in minutes if counted < minute - 1]:
                del minutes[gone]
            if not now and not opened and not minutes:
                for part in (self._waiting, self._lines_of, self._minutes, self._audits):
                    part.pop(caller, None)
                return
            self._waiting[caller], self._lines_of[caller] = now, opened
            self._audits[caller] = seen.audits + 1

    def set_queue_use(self, use: QueueUse) -> None:
        self.queue_use = use

    def _use(self, caller: str, minute: int | None) -> CallerUse:
        submitted = 0 if minute is None else self._minutes.get(caller, {}).get(minute, 0)
        return CallerUse(
            waiting=self._waiting.get(caller, 0),
            submissions=submitted,
            lines=self._lines_of.get(caller, 0),
        )

    def _add(
        self, caller: str, minute: int | None, amount: int, *, waiting: int | None = None
    ) -> None:
        minutes = self._minutes.setdefault(caller, {})
        if minute is not None:
            minutes[minute] = minutes.get(minute, 0) + amount
        more = amount if waiting is None else waiting
        self._waiting[caller] = self._waiting.get(caller, 0) + more

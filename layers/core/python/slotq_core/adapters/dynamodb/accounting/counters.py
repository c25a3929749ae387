"""Callers' use of their limits on DynamoDB (`ports.counters.Counters`), and the census of the jobs.

The attribute `m<minute>` counts the submissions of one minute. Therefore a new minute begins at
zero without a reset, and old minutes that no audit has removed yet are never misread.

A census reads every waiting job. Jobs of one line differ in attributes that it does not read, so
each line is named once.
"""

from __future__ import annotations

import json
import threading
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import job_of
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE
from slotq_core.adapters.dynamodb.line_bounds import checked_line
from slotq_core.errors import Conflict, Malformed
from slotq_core.model.callers import CallerLimits, CallerUse, OpenLine, QueueUse
from slotq_core.model.jobs import QUEUED_STATES, Job
from slotq_core.policy.lines import line_of
from slotq_core.ports.counters import Census, Counter

_OTHERS: Item = {"jobName": {"S": "x"}, "entryTime": {"S": "1970-01-01T00:00:00Z"}}
_OTHERS["changedAt"] = {"N": "0"}
"""Attributes that a job must have and that name no line."""


class LinesOfItems:
    ATTRIBUTES = (
        "jobState",
        "priority",
        "priorityClass",
        "admittedClass",
        "auto",
        "workload",
        "project",
        "group",
        "demand",
        "pools",
        "parts",
        "preemptible",
        "submitter",
        "person",
        "role",
        "lineByUser",
        "refusedIn",
        "after",
        "afterAny",
    )
    """The attributes of an item that `line_of` reads."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, bool]] = {}

    def line_of(self, item: Item) -> tuple[str, bool]:
        """The line that a job is in or will enter by itself, and whether the job is in it now.
        Empty: the job enters none, or is unreadable."""
        key = json.dumps(item, sort_keys=True)
        if key not in self._known:
            self._known[key] = _line_of(item)
        return self._known[key]


def _line_of(item: Item) -> tuple[str, bool]:
    try:
        job = job_of({**_OTHERS, **item})
        return (line_of(job) if job.comes_to_line else ""), job.waits
    except UNREADABLE:
        return "", False


_MINUTE = "m"
USE = frozenset({"waiting", "lines"})
"""The attributes of the REVISION item that hold the queue's use as of the last audit."""

_OLD = 20
"""Maximum number of old minutes that one correction removes; the next continues."""


class DynamoCounters:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._opened = Tally[str]()
        """Lines opened by submissions that no counter has counted yet, by caller."""

    def take(self, caller: str, *, minute: int | None, limits: CallerLimits) -> bool:
        return self.count(caller, minute=minute, limits=limits) is not None

    def count(
        self, caller: str, *, minute: int | None, limits: CallerLimits, number: int = 1
    ) -> CallerUse | None:
        """Count submissions, or waiting jobs. Return None if a limit leaves no room for all. A
        malformed item is deleted and started again, so that no caller stays locked out."""
        opened = 0
        if limits.never_hold(number):
            return None
        if minute is None:
            expression = expressions.count_waiting_jobs(number, waiting=limits.waiting)
        else:
            with self._lock:
                opened = self._opened.pop(caller, 0)
            expression = expressions.count_submissions(
                _attribute(minute),
                number,
                waiting=limits.waiting,
                submissions=limits.submissions,
                opened=opened,
            )
        for _ in range(2):
            try:
                return _use_in(self._calls.updated(table.caller_key(caller), expression), minute)
            except Malformed:
                self._calls.delete(table.caller_key(caller))
            except Conflict:
                self._note_opened(caller, opened)
                return None
        return CallerUse()  # The item keeps breaking: no caller may lose a job by that.

    def has_line_of(self, job: Job) -> bool:
        return self._calls.item(table.line_key(checked_line(line_of(job)))) is not None

    def opened(self, caller: str) -> None:
        self._note_opened(caller, 1)

    def _note_opened(self, caller: str, lines: int) -> None:
        if lines:
            with self._lock:
                self._opened[caller] += lines

    def open_line(self, caller: str, *, minute: int | None, lines: int, submissions: int) -> bool:
        attribute = None if minute is None else _attribute(minute)
        with self._lock:
            opened = self._opened.pop(caller, 0)
        counted = expressions.count_line(
            attribute, lines=lines, submissions=submissions, opened=opened
        )
        for _ in range(2):
            try:
                self._calls.update(table.caller_key(caller), counted)
            except Malformed:
                self._calls.delete(table.caller_key(caller))
            except Conflict:
                self._note_opened(caller, opened)
                return False
            else:
                return True
        return True  # As in `count`.

    def give_back(self, caller: str, *, minute: int | None, number: int = 1) -> None:
        with suppress(Conflict, Malformed):
            expression = (
                expressions.uncount_waiting(number)
                if minute is None
                else expressions.uncount_submissions(_attribute(minute), number)
            )
            self._calls.update(table.caller_key(caller), expression)

    def use(self, caller: str, *, minute: int) -> CallerUse:
        return _use_in(self._calls.item(table.caller_key(caller)) or {}, minute)

    def all(self) -> Mapping[str, Counter]:
        items = self._calls.query(expressions.partition(table.CALLERS))
        return {item["sk"]["S"]: _counter_of(item) for item in items}

    def census(self) -> Census:
        waiting, projects = Tally[str](), Tally[str]()
        inside = defaultdict[str, dict[str, None]](dict)
        coming = defaultdict[str, dict[str, None]](dict)
        lines = LinesOfItems()
        for state in sorted(QUEUED_STATES):
            attributes = expressions.attributes_in_state(state, LinesOfItems.ATTRIBUTES)
            jobs = {**attributes, "IndexName": table.BY_STATE}
            for item in self._calls.query(jobs, consistent=False):
                submitter = item.get("submitter", {}).get("S", "")
                waiting[submitter] += 1
                projects[item.get("project", {}).get("S", "")] += 1
                line, is_in = lines.line_of(item)
                if line:
                    (inside if is_in else coming)[line][submitter] = None
        kept = self._calls.query(expressions.openers(table.LINES), consistent=False)
        openers = {item["sk"]["S"]: item.get("opener", {}).get("S", "") for item in kept}
        return Census(
            waiting=waiting,
            lines=len(inside),
            open_lines=[
                OpenLine(
                    opener=openers.get(line, ""),
                    submitters=[*(inside.get(line, {}) | coming.get(line, {}))],
                )
                for line in dict.fromkeys((*openers, *inside, *coming))
            ],
            projects=projects,
        )

    def correct(
        self, caller: str, seen: Counter, *, waiting: int, minute: int, lines: int = 0
    ) -> None:
        old = sorted(number for number in seen.minutes if number < minute - 1)[:_OLD]
        change, key = waiting - seen.waiting, table.caller_key(caller)
        opened = lines - seen.lines
        if not (change or opened or old) and (waiting or lines or seen.minutes):
            return
        with suppress(Conflict):
            if not seen.readable:
                self._calls.delete(key)
            elif not (waiting or lines) and len(old) == len(seen.minutes):
                self._forget(caller, seen)
            else:
                minutes = [_attribute(number) for number in old]
                expression = expressions.correct_count(
                    change, seen.audits, forget=minutes, lines=opened
                )
                self._calls.update(key, expression)

    def _forget(self, caller: str, seen: Counter) -> None:
        """Delete the counter, unless it changed since it was read; then the next audit examines it
        again."""
        item = self._calls.item(table.caller_key(caller))
        if item and _counter_of(item) == seen:
            self._calls.delete(table.caller_key(caller), expressions.unchanged(item))

    def set_queue_use(self, use: QueueUse) -> None:
        expression = expressions.record_use(waiting=use.waiting, lines=use.lines)
        self._calls.update(table.revision_key(), expression)


def _use_in(item: Item, minute: int | None) -> CallerUse:
    """Return the use in a counter; none if it is unreadable."""
    with suppress(*UNREADABLE):
        return CallerUse(
            waiting=_whole(item, "waiting"),
            submissions=0 if minute is None else _whole(item, _attribute(minute)),
            lines=_whole(item, "lines"),
        )
    return CallerUse()


def queue_use_of(item: Item) -> QueueUse:
    """Return the queue's use in the REVISION item. Raises one of UNREADABLE."""
    return QueueUse(waiting=_whole(item, "waiting"), lines=_whole(item, "lines"))


def _counter_of(item: Item) -> Counter:
    try:
        minutes = frozenset(
            int(name.removeprefix(_MINUTE))
            for name in item
            if name.startswith(_MINUTE) and name[1:].isdigit()
        )
        return Counter(
            waiting=_whole(item, "waiting"),
            lines=_whole(item, "lines"),
            audits=_whole(item, "audits"),
            minutes=minutes,
        )
    except UNREADABLE:
        return Counter(readable=False)


def _attribute(minute: int) -> str:
    return f"{_MINUTE}{minute}"


def _whole(item: Item, attribute: str) -> int:
    return int(item.get(attribute, {"N": "0"})["N"])

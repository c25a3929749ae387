"""The jobs' state changes as events on EventBridge. docs/events.md is their description.

Taken note of when they have been committed, and sent when the handler has done its work: no pass
waits for it. An event is lost where the handler dies in between or EventBridge does not take it;
whoever must know every change asks the queue. Nothing of a request is in an event.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slotq_core import names
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.model.jobs import Job
from slotq_core.ports import Change, Request
from slotq_core.timestamps import iso

VARIABLE = "SLOTQ_ANNOUNCE"
"""1: changes are announced."""
SOURCE = "slotq"
DETAIL_TYPE = "SlotQ Job State Change"
VERSION = 1
_PER_CALL = 10
"""EventBridge takes no more entries at once."""


class Announcements:
    """What is to be announced. Never raises: what was committed stands, whoever hears of it."""

    def __init__(
        self, client: Callable[[], Any], *, queue: str, report: Callable[[Exception], None]
    ) -> None:
        """`client` makes boto3's EventBridge client when it is first needed; `queue` is said in
        every event."""
        self._client = client
        self._queue = queue
        self._report = report
        self._details: list[dict[str, Any]] = []

    def note(self, before: Job | None, after: Job) -> None:
        """A committed change; one that leaves the state as it was is none."""
        if before is None or before.state is not after.state:
            self._details.append(detail(self._queue, before, after))

    def send(self) -> int:
        """Send all of it, in the order of the commits. Returns how many were not taken; after a
        call without an answer the rest is given up, for the handler's time is short."""
        details, self._details = self._details, []
        lost = 0
        for start in range(0, len(details), _PER_CALL):
            part = details[start : start + _PER_CALL]
            try:
                answer = self._client().put_events(Entries=[_entry(each) for each in part])
            except Exception as error:  # noqa: BLE001 - a lost notice must stop nothing
                self._report(error)
                return lost + len(details) - start
            lost += int(answer.get("FailedEntryCount", 0))
        return lost


class AnnouncingStore(DynamoStore):
    """The store, whose commits are taken note of."""

    def __init__(self, *args: Any, announcements: Announcements, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._announcements = announcements

    def submit(self, job: Job, request: Request, *, opens_line: bool = True) -> Job:
        kept = super().submit(job, request, opens_line=opens_line)
        self._announcements.note(None, kept)
        return kept

    def commit(
        self, changes: Sequence[Change], *, seen: Mapping[str, int] | None = None
    ) -> tuple[Job, ...]:
        jobs = super().commit(changes, seen=seen)
        for change, after in zip(changes, jobs, strict=False):
            self._announcements.note(change.before, after)
        return jobs


def detail(queue: str, before: Job | None, after: Job) -> dict[str, Any]:
    """An event's `detail`. `job_version` rises with each change of a job: the order of its events,
    which may arrive in any."""
    return {
        "version": VERSION,
        "queue": queue,
        "job": after.name,
        "job_version": after.version,
        "from": before.state.value if before else None,
        "to": after.state.value,
        "at": iso(after.changed_at),
        "cause": after.cause,
        "priority": after.priority,
        "project": after.project,
        "submitter": after.submitter,
        "pool": after.attempt.pool if after.attempt else None,
        "attempts": after.attempts,
        "training_job": (
            names.training_job_name(after.name, after.attempts) if after.attempts else None
        ),
    }


def _entry(its: Mapping[str, Any]) -> dict[str, Any]:
    return {"Source": SOURCE, "DetailType": DETAIL_TYPE, "Detail": json.dumps(its)}

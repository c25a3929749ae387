"""Announce job state changes and warnings on EventBridge. docs/events.md describes them.

Each committed change is noted, and the notes are sent after the handler's work, so no pass waits
for EventBridge. An event is lost if the handler dies first or EventBridge refuses the event;
readers who must know every change ask the queue. No event contains any part of a request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from slotq_core import names
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job
from slotq_core.model.projects import BudgetStatus
from slotq_core.policy.lifecycle.stall import warned_of
from slotq_core.ports.stored import Change
from slotq_core.timestamps import iso

VARIABLE = "SLOTQ_ANNOUNCE"
"""Environment variable; 1: changes are announced."""
SOURCE = "slotq"
DETAIL_TYPE = "SlotQ Job State Change"
BUDGET_TYPE = "SlotQ Budget Warning"
WARNING_TYPE = "SlotQ Job Warning"
VERSION = 1
_PER_CALL = 10
"""EventBridge's maximum number of entries in one call."""


class Announcements:
    """Changes to announce, as a store's `Witness` sees them. Never raises: a committed change
    is final, announced or not."""

    def __init__(
        self, client: Callable[[], Any], *, queue: str, report: Callable[[Exception], None]
    ) -> None:
        """Set up the announcements. `client` creates boto3's EventBridge client on first use; every
        event names `queue`."""
        self._client = client
        self._queue = queue
        self._report = report
        self._details: list[tuple[str, dict[str, Any]]] = []
        """Each with its detail type."""

    def submitted(self, job: Job) -> None:
        """Note a new job."""
        self._details.append((DETAIL_TYPE, detail(self._queue, None, job)))

    def committed(self, change: Change, after: Job) -> None:
        """Note a committed change, unless the job's state stays the same; and its warnings: a
        stalled script, or one that never released."""
        if change.before.state is not after.state:
            self._details.append((DETAIL_TYPE, detail(self._queue, change.before, after)))
        for code, text in warnings(change, after):
            warning = warning_detail(self._queue, after, code, text, change.ended or after.attempt)
            self._details.append((WARNING_TYPE, warning))

    def note_budget(self, status: BudgetStatus) -> None:
        """Note that a project has come near its budget."""
        self._details.append((BUDGET_TYPE, budget_detail(self._queue, status)))

    def send(self) -> int:
        """Send all noted changes in the order of the commits. Return how many were not accepted.

        After a call without an answer, the rest counts as lost: the handler has little time left.
        """
        details, self._details = self._details, []
        lost = 0
        for start in range(0, len(details), _PER_CALL):
            part = details[start : start + _PER_CALL]
            try:
                answer = self._client().put_events(Entries=[_entry(*detail) for detail in part])
            except Exception as error:  # noqa: BLE001 - a lost notice must stop nothing
                self._report(error)
                return lost + len(details) - start
            lost += int(answer.get("FailedEntryCount", 0))
        return lost


def detail(queue: str, before: Job | None, after: Job) -> dict[str, Any]:
    """Return an event's `detail`. `job_version` rises with each change of a job and gives the order
    of the job's events, which may arrive in any order."""
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


def warnings(change: Change, after: Job) -> Iterator[tuple[str, str]]:
    """Yield code and sentence of each warning that comes with a change."""
    stalled = warned_of(after)
    if stalled is not None and warned_of(change.before) is None:
        yield stalled.code, stalled.sentence()
    if change.ended is not None and change.ended.warning:
        yield "unreleased", change.ended.warning


def warning_detail(
    queue: str, job: Job, code: str, text: str, attempt: Attempt | None
) -> dict[str, Any]:
    """Return the `detail` of a job's warning."""
    return {
        "version": VERSION,
        "queue": queue,
        "job": job.name,
        "job_version": job.version,
        "code": code,
        "text": text,
        "project": job.project,
        "submitter": job.submitter,
        "pool": attempt.pool if attempt else None,
        "training_job": attempt.training_job if attempt else None,
    }


def budget_detail(queue: str, status: BudgetStatus) -> dict[str, Any]:
    """Return the `detail` of a budget's warning."""
    return {
        "version": VERSION,
        "queue": queue,
        "project": status.project,
        "slot_seconds": status.budget.slot_ms // 1000,
        "spent_slot_seconds": status.spent // 1000,
        "beyond": status.budget.beyond.value,
        "resets_at": iso(status.resets_at),
    }


def _entry(detail_type: str, detail: Mapping[str, Any]) -> dict[str, Any]:
    return {"Source": SOURCE, "DetailType": detail_type, "Detail": json.dumps(detail)}

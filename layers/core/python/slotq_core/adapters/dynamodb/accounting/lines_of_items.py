"""The lines of waiting jobs, from the few attributes that name them (`policy.lines`).

A census reads every waiting job. Jobs of one line differ in attributes that it does not read, so
each line is named once.
"""

from __future__ import annotations

import json

from slotq_core.adapters.dynamodb.layout.items import job_of
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE
from slotq_core.policy.lines import line_of

_OTHERS: Item = {"jobName": {"S": "x"}, "entryTime": {"S": "1970-01-01T00:00:00Z"}}
_OTHERS["changedAt"] = {"N": "0"}
"""What a job has to have and no line is named by."""


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
    """What `line_of` has to be given of an item."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, bool]] = {}

    def line_of(self, item: Item) -> tuple[str, bool]:
        """The line that a job is in or will come to without anybody's doing, and whether it is in
        it. Empty: it comes to none, or is unreadable."""
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

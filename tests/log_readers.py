"""A reader of CloudWatch's log streams, with the requests that orchestrators make."""

from __future__ import annotations

from typing import Any

from slotq_core.names import LOG_GROUP


class ReaderByTime:
    """Asks anew each time, from the time of its last event, and skips the events of that time that
    it knows. So do SDK v2's `fit(logs=…)` without a queue session and Airflow's operator.

    `empties`: after how many empty pages one look ends, if no token is repeated before."""

    def __init__(self, logs: Any, job: str, *, empties: int) -> None:
        self.logs, self.job, self.empties = logs, job, empties
        self.since, self.known = 0, 0

    def look(self) -> list[str]:
        """The new lines: none while the job has no log stream."""
        try:
            found = self.logs.describe_log_streams(
                logGroupName=LOG_GROUP,
                logStreamNamePrefix=f"{self.job}/",
                orderBy="LogStreamName",
                limit=1,
            )["logStreams"]
        except self.logs.exceptions.ResourceNotFoundException:
            return []  # The group comes with the account's first line.
        return self._new(found[0]["logStreamName"]) if found else []

    def _new(self, stream: str) -> list[str]:
        lines: list[str] = []
        token: dict[str, str] = {}
        empties, skip = 0, self.known
        while empties < self.empties:
            page = self.logs.get_log_events(
                logGroupName=LOG_GROUP,
                logStreamName=stream,
                startTime=self.since,
                startFromHead=True,
                **token,
            )
            for event in page["events"][skip:]:
                lines.append(event["message"])
                self.known = self.known + 1 if event["timestamp"] == self.since else 1
                self.since = event["timestamp"]
            skip = max(0, skip - len(page["events"]))
            empties = 0 if page["events"] else empties + 1
            if token == {"nextToken": page["nextForwardToken"]}:
                break
            token = {"nextToken": page["nextForwardToken"]}
        return lines

"""State machines that wait for jobs: a double of Step Functions, and what must hold of it.

A token is `<job>-<number>`. Each takes one answer and is over then, as on AWS; a call with one that
is over is refused, and counts all the same.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from slotq_core.adapters.dynamodb.layout.table import CALLBACKS
from slotq_core.model.jobs import JobState
from slotq_core.notices.job_answers import SUPERSEDED
from tests.faults.promises import ANSWERED

if TYPE_CHECKING:
    from tests.faults.world import World

STATES = {
    JobState.COMPLETED: "",
    JobState.FAILED: "SlotQ.Failed",
    JobState.CANCELLED: "SlotQ.Cancelled",
    JobState.STOPPED: "SlotQ.Stopped",
}


class Tasks:
    """Step Functions."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.accepted: list[str] = []
        """The tokens whose submission was answered with success, the latest last."""
        self.ends: dict[str, str] = {}
        """What each token was told first: an error, or nothing where its task has succeeded."""
        self.stopped: set[str] = set()
        """The tokens whose execution somebody has stopped."""

    def send_task_heartbeat(self, *, taskToken: str) -> dict[str, Any]:  # noqa: N803
        self._check_open(taskToken)
        return {}

    def send_task_success(self, *, taskToken: str, output: str) -> dict[str, Any]:  # noqa: N803
        assert json.loads(output)["job"] == job_of(taskToken)
        return self._end(taskToken, "")

    def send_task_failure(
        self,
        *,
        taskToken: str,  # noqa: N803
        error: str,
        cause: str,
    ) -> dict[str, Any]:
        assert json.loads(cause)["job"] == job_of(taskToken)
        return self._end(taskToken, error)

    def _end(self, token: str, error: str) -> dict[str, Any]:
        job = self._world.watch.jobs[job_of(token)]
        if error != SUPERSEDED and (not job.terminal or STATES[job.state] != error):
            told = error or "success"
            self._world.watch.note(ANSWERED, f"{token} is told {told}, and it is {job.state}")
        self._check_open(token)
        self.ends[token] = error
        return {}

    def _check_open(self, token: str) -> None:
        if token in self.ends or token in self.stopped:
            said = {"Error": {"Code": "TaskTimedOut", "Message": token}}
            raise ClientError(said, "SendTask")

    def kept(self) -> bool:
        """Whether the queue still has to answer anybody."""
        return any(pk == CALLBACKS for pk, _ in self._world.table.items)


def job_of(token: str) -> str:
    """The job that a token is of."""
    return token.rpartition("-")[0]

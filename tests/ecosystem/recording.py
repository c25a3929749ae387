"""Records the calls of SageMaker and CloudWatch Logs that a real package makes.

`tests/e2e/recorded/<package>.json` has each operation with the members that the package has sent,
in the order of the first of its kind. Names, times and tokens are replaced:
`tests/e2e/test_recorded.py` fills in its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from slotq import install
from slotq.local.endpoint import Endpoint
from slotq.session.relay import JsonRelay, Said, clients, pointed_at, served

RECORDED = Path(__file__).parents[1] / "e2e" / "recorded"
_MADE = {
    "TrainingJobName": "NAME",
    "logStreamNamePrefix": "NAME/",
    "logStreamName": "STREAM",
    "nextToken": "TOKEN",
    "startTime": "TIME",
    "endTime": "TIME",
}
"""Members whose values belong to one run, and what stands for them."""


class Recorder(JsonRelay):
    """A relay that keeps each kind of call."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.calls: list[dict[str, Any]] = []

    def answer(self, headers: Mapping[str, str], body: bytes) -> Said:
        operation = headers["x-amz-target"].partition(".")[2]
        sent = {key: _MADE.get(key, value) for key, value in json.loads(body).items()}
        if operation == "CreateTrainingJob":
            sent = dict.fromkeys(sent, "OF THE TEST")  # The request is the test's own.
        call = {"operation": operation, "sent": sent}
        if call not in self.calls:
            self.calls.append(call)
        return super().answer(headers, body)


@contextmanager
def recorded_by(package: str, aws: Endpoint) -> Iterator[dict[str, str]]:
    """The variables that lead a package to the relay, as `slotq exec` gives them. Its calls are
    written down when the context ends."""
    session = boto3.Session()
    install(session)
    relay = Recorder(clients(session, aws.region))
    with served(relay) as url:
        yield pointed_at(url)
    RECORDED.mkdir(exist_ok=True)
    file = RECORDED / f"{package}.json"
    file.write_text(json.dumps(relay.calls, indent=1) + "\n")

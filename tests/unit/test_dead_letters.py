"""Dead letters in SQS: their contents, and that sending never fails."""

from __future__ import annotations

import json
from typing import Any

from slotq.local.training.virtual_runner import VirtualClock
from slotq_core.adapters.sqs import SqsDeadLetters


class Sqs:
    def __init__(self, error: Exception | None = None) -> None:
        self.sent: list[dict[str, Any]] = []
        self.error = error

    def send_message(self, **request: Any) -> None:
        if self.error:
            raise self.error
        self.sent.append(request)


def letters(client: Any, url: str = "url") -> tuple[SqsDeadLetters, list[Exception]]:
    reported: list[Exception] = []
    written = SqsDeadLetters(client, url, clock=VirtualClock(0), report=reported.append)
    return written, reported


def test_a_letter_has_its_subject_reason_and_time() -> None:
    sqs = Sqs()
    letters(lambda: sqs)[0].put("item", "JOB#job1 JOB", "it has no state" + "!" * 5000)
    (request,) = sqs.sent
    assert request["QueueUrl"] == "url"
    letter = json.loads(request["MessageBody"])
    assert set(letter) == {"kind", "subject", "reason", "at"}
    assert letter["at"] == "1970-01-01T00:00:00.000Z"
    assert letter["reason"].startswith("it has no state!")
    assert len(request["MessageBody"]) < 3000


def test_an_error_while_sending_is_logged_and_not_raised() -> None:
    error = RuntimeError("no such queue")
    written, reported = letters(lambda: Sqs(error))
    written.put("event", "job1", "odd")
    assert reported == [error]


def test_the_client_is_made_on_first_use() -> None:
    def never() -> Any:
        raise AssertionError

    written, reported = letters(never, url="")
    written.put("event", "job1", "odd")
    assert reported == []

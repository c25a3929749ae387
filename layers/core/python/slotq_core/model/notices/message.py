"""One message, ready to be sent."""

from __future__ import annotations

from dataclasses import dataclass

DIGEST = "digest"
TEST = "test"
"""Kinds of messages that are about no event of one job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A message of one rule. It has nothing of a job's request."""

    id: str
    """The same each time that the message is sent: receivers drop what they have had."""
    notification: str
    """The rule's name."""
    event: str
    """An `Event`, `DIGEST` or `TEST`."""
    title: str
    text: str
    """Plain text. Names and SageMaker's words in it are whatever users made them: escape them."""
    at: int
    """When it happened (ms)."""
    job: str = ""
    project: str = ""
    person: str = ""
    pool: str = ""
    attempt: int = 0
    """The number of the latest attempt; 0: none."""
    training_job: str = ""

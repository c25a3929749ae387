"""Errors of calls to the training plane."""

from __future__ import annotations


class PlaneError(Exception):
    """An error answer. `code` and `message` are SageMaker's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


def denied(action: str, resource: str) -> PlaneError:
    """IAM's answer to a caller without permission."""
    return PlaneError(
        "AccessDeniedException",
        "User: arn:aws:sts::123456789012:assumed-role/slotq/slotq is not authorized to perform: "
        f"{action} on resource: {resource} because no identity-based policy allows the {action} "
        "action",
    )


class NoAnswer(Exception):
    """The call took effect, but the answer is lost (knob `lose_answers`)."""

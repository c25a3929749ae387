"""How a call to the training plane can go wrong."""

from __future__ import annotations


class PlaneError(Exception):
    """An error answer: `code` and `message` as SageMaker gives them."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


def denied(action: str, resource: str) -> PlaneError:
    """IAM's answer to whoever may not do that."""
    return PlaneError(
        "AccessDeniedException",
        "User: arn:aws:sts::123456789012:assumed-role/slotq/slotq is not authorized to perform: "
        f"{action} on resource: {resource} because no identity-based policy allows the {action} "
        "action",
    )


class NoAnswer(Exception):
    """The call took effect, but its answer is lost (knob `lose_answers`)."""

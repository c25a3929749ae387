"""How a call to the training plane can go wrong."""

from __future__ import annotations


class PlaneError(Exception):
    """An error answer: `code` and `message` as SageMaker gives them."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class NoAnswer(Exception):
    """The call took effect, but its answer is lost (knob `lose_answers`)."""

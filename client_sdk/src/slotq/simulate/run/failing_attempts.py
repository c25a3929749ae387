"""Attempts that a scenario lets fail: the job's `fails`, one entry for each attempt.

A number: its script fails after so many seconds. `fault`: SageMaker's own error, at the start.
`no_capacity`: no instances, at the start. `no_role`: its role cannot be assumed, at the start.
Nothing: it does not fail by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotq.local.training.plane import CAPACITY, INTERNAL, UNASSUMED
from slotq.local.training.runner import Exit
from slotq.simulate.scenario.fields import FAULT, NO_CAPACITY, NO_ROLE, Failure
from slotq_core.policy.lifecycle.retry import Ending

SCRIPT = Exit(code=1, failure="as the scenario has it")
"""How a script of a scenario fails."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """How one attempt fails."""

    ending: Ending
    message: str
    """As the training plane words it."""
    after: int | None = None
    """Milliseconds of running; None: before it runs."""


_AT_THE_START = {
    FAULT: Fate(ending=Ending.FAULT, message=INTERNAL),
    NO_CAPACITY: Fate(ending=Ending.NO_CAPACITY, message=CAPACITY),
    NO_ROLE: Fate(ending=Ending.NO_RIGHTS, message=UNASSUMED),
}


def fate_of(fails: tuple[Failure, ...], attempt: int) -> Fate | None:
    """How the attempt of that number fails; None where it does not by itself."""
    failure = fails[attempt - 1] if attempt <= len(fails) else None
    if failure is None:
        return None
    if isinstance(failure, int):
        return Fate(ending=Ending.FAILED, message=SCRIPT.reason, after=failure)
    return _AT_THE_START[failure]

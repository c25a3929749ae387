"""Attempts that fail by a scenario's wish: the job's `fails`, one entry for each attempt.

A number: the script fails after so many seconds. `fault`: SageMaker's own error, at the start.
`no_capacity`: no instances, at the start. `no_role`: the role cannot be assumed, at the start.
Null: no failure by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotq.local.training.life import CAPACITY, INTERNAL, UNASSUMED
from slotq.local.training.runner import Exit
from slotq.simulate.scenario.fields import FAULT, NO_CAPACITY, NO_ROLE, Failure
from slotq_core.policy.lifecycle.retry import Ending

SCRIPT = Exit(code=1, failure="as the scenario has it")
"""The exit of a script that fails by a scenario's wish."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """The failure of one attempt."""

    ending: Ending
    message: str
    """The message of the training plane."""
    after: int | None = None
    """Milliseconds of running before the failure. None: the attempt fails before it runs."""


_AT_THE_START = {
    FAULT: Fate(ending=Ending.FAULT, message=INTERNAL),
    NO_CAPACITY: Fate(ending=Ending.NO_CAPACITY, message=CAPACITY),
    NO_ROLE: Fate(ending=Ending.NO_RIGHTS, message=UNASSUMED),
}


def fate_of(fails: tuple[Failure, ...], attempt: int) -> Fate | None:
    """The failure of the attempt of that number. None: no failure by itself."""
    failure = fails[attempt - 1] if attempt <= len(fails) else None
    if failure is None:
        return None
    if isinstance(failure, int):
        return Fate(ending=Ending.FAILED, message=SCRIPT.reason, after=failure)
    return _AT_THE_START[failure]

"""Rules for submitting an ended job again: which jobs, and under which names.

A name is used only once, so that a job's history stays. A retry is therefore a new job with the
same request under the next name: `train` becomes `train-r2`, `train-r2` becomes `train-r3`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count, islice

from slotq_core import names
from slotq_core.errors import InvalidRequest, NameTaken, RequestWithheld
from slotq_core.model.jobs import TERMINAL_STATES, JobState

MOST_NAMES = 20
"""Number of names to try; if all are taken, the user has to choose one."""

_NUMBERED = re.compile(r"(?P<base>.+)-r(?P<number>[2-9]|[1-9][0-9]+)")


def check_retryable(name: str, state: str) -> None:
    """Raises InvalidRequest if the job has not ended, or has completed."""
    if state not in TERMINAL_STATES:
        raise InvalidRequest(
            f"job {name} is {state}: only an ended job can be retried "
            f"(`slotq requeue {name}` stops its attempt, and the job waits again)",
            field="name",
        )
    if state == JobState.COMPLETED:
        raise InvalidRequest(
            f"job {name} has completed; `slotq clone {name} NEW_NAME` runs it again",
            field="name",
        )


def check_shown(name: str, withheld: Sequence[str]) -> None:
    """Raises RequestWithheld if fields of the job's request are not shown to the caller: only a
    reader of the whole request may submit it again."""
    if withheld:
        raise RequestWithheld(
            f"'{name}' was submitted by another person, and only that person may see its "
            f"{withheld[0]}: ask its submitter to clone it",
            field="name",
        )


def names_to_try(name: str) -> list[str]:
    """The names to try for a retry of this job, in order."""
    return [*islice(next_names(name), MOST_NAMES)]


def all_taken(name: str) -> NameTaken:
    """The refusal if none of `names_to_try` is free."""
    return NameTaken(
        f"the names up to {names_to_try(name)[-1]} are taken; choose a name",
        field="TrainingJobName",
    )


def next_names(name: str, *, longest: int = names.LONGEST) -> Iterator[str]:
    """The names that follow `name`, without end, of at most `longest` characters."""
    found = _NUMBERED.fullmatch(name)
    base, number = (found["base"], int(found["number"])) if found else (name, 1)
    for following in count(number + 1):
        mark = f"-r{following}"
        yield base[: longest - len(mark)].rstrip("-") + mark

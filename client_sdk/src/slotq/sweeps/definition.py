"""A sweep as its user says it: a request, a space, how many at once, and what it looks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from slotq.errors import InvalidRequest
from slotq.sweeps import members
from slotq.sweeps.space import Parameters, Value, is_number, is_value, read_space, trials_of
from slotq.sweeps.tuner_ranges import with_samplers
from slotq_core.model.jobs import JobState
from slotq_core.wire.groups.sweep import TrialView, ranked

MOST_ROUNDS = 99
_DIGITS = 4
"""Digits of a trial's number if the number of trials is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Objective:
    """The metric that ranks the trials. `goal`: a value that is good enough."""

    metric: str
    maximize: bool = False
    goal: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Halving:
    """Successive halving: every trial runs to the first of `rungs`, and the best of them go on to
    the next, one in `keep`."""

    parameter: str
    """The parameter for a trial's length; the script goes on from its checkpoint."""
    rungs: tuple[Value, ...]
    keep: int = 3


Propose = Callable[[Sequence[TrialView]], Sequence[Mapping[str, Value]] | None]
"""Proposes the trials of the next round from the trials so far; None: the sweep is complete."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """One sweep, whose trials come in one round or several."""

    name: str
    template: Mapping[str, Any]
    max_parallel: int
    trials: Sequence[Parameters] = ()
    objective: Objective | None = None
    halving: Halving | None = None
    propose: Propose | None = None

    def group_name(self, round_number: int) -> str:
        return round_name(self.name, round_number)

    def first(self) -> dict[int, Parameters]:
        """The trials of the first round, by number. Raises InvalidRequest."""
        if self.propose is not None:
            return self._numbered(self.propose([]), 1)
        found = dict(enumerate(self.trials, 1))
        return found if self.halving is None else self._up_to(found, 0)

    def following(self, rounds: Sequence[Sequence[TrialView]]) -> dict[int, Parameters]:
        """The trials of the next round after these rounds, which have all ended; empty: no further
        round. Depends on the trials alone, so that another process gets the same result."""
        if self.propose is not None:
            past = [trial for trials in rounds for trial in trials]
            return self._numbered(self.propose(past), len(past) + 1)
        if self.halving is None or len(rounds) >= len(self.halving.rungs):
            return {}
        best = ranked(rounds[-1], maximize=bool(self.objective and self.objective.maximize))
        kept = sorted(map(number_of, best[: math.ceil(len(rounds[-1]) / self.halving.keep)]))
        return self._up_to({n: dict(self.trials[n - 1]) for n in kept}, len(rounds))

    def requests(self, round_number: int, trials: Mapping[int, Parameters]) -> list[dict[str, Any]]:
        """The members of a round. Raises InvalidRequest."""
        return members.of_sweep(
            self.group_name(round_number),
            self.template,
            trials,
            digits=_DIGITS if self.propose else len(str(len(self.trials))),
            first_round=self.name,
        )

    def sweep_body(self, trials: Mapping[int, Parameters]) -> dict[str, Any]:
        """What the queue keeps of a round, as `sweep` of POST /groups."""
        said: dict[str, Any] = {"parameters": [*trials.values()]}
        if self.objective:
            said |= {"metric": self.objective.metric, "maximize": self.objective.maximize}
            if self.objective.goal is not None:
                said["goal"] = self.objective.goal
        return said

    def _up_to(self, trials: Mapping[int, Parameters], rung: int) -> dict[int, Parameters]:
        assert self.halving is not None
        own = {self.halving.parameter: self.halving.rungs[rung]}
        return {number: {**trial, **own} for number, trial in trials.items()}

    def _numbered(
        self, proposed: Sequence[Mapping[str, Value]] | None, first: int
    ) -> dict[int, Parameters]:
        if not proposed:
            return {}
        return dict(enumerate(trials_of(proposed), first))


def round_name(sweep: str, number: int) -> str:
    """The group of a sweep's round, counted from 1."""
    return sweep if number == 1 else f"{sweep}-round-{number}"


def number_of(trial: TrialView) -> int:
    """The trial's number: the end of its name."""
    return int(trial.name.rpartition("-")[2])


def define(
    *,
    name: str,
    template: Mapping[str, Any],
    space: object,
    max_parallel: int,
    trials: int | None = None,
    seed: int = 0,
    first: int = 1,
    objective: object = None,
    halving: object = None,
) -> Definition:
    """A sweep from a user's values, in Python or in a file. `space` may also be a function that
    proposes trials. Raises InvalidRequest with the field."""
    if not isinstance(name, str):
        raise InvalidRequest(f"name takes a text, not {name!r}: put it in quotes", field="name")
    _whole("max_parallel", max_parallel)
    wanted = _objective(objective)
    rungs = _halving(halving)
    if rungs is not None and wanted is None:
        raise InvalidRequest("halving needs an objective: say by which metric", field="objective")
    if rungs is not None and wanted is not None and wanted.goal is not None:
        raise InvalidRequest(
            "a halving has no goal: its last rung ends it; leave one of the two out",
            field="objective.goal",
        )
    if callable(space):
        if rungs is not None or trials is not None or seed != 0 or first != 1:
            raise InvalidRequest(
                "a space that is a function takes no trials, seed, first or halving: it proposes "
                "each round itself",
                field="space",
            )
        return Definition(
            name=name,
            template=template,
            max_parallel=max_parallel,
            objective=wanted,
            propose=cast(Propose, space),
        )
    found = trials_of(with_samplers(read_space(space)), trials=trials, seed=seed, first=first)
    if rungs is not None and any(rungs.parameter in trial for trial in found):
        raise InvalidRequest(
            f"{rungs.parameter} is in the space, and halving sets it to its rungs: leave it out "
            "of one of the two",
            field="halving.parameter",
        )
    return Definition(
        name=name,
        template=template,
        max_parallel=max_parallel,
        trials=found,
        objective=wanted,
        halving=rungs,
    )


def _objective(objective: object) -> Objective | None:
    """`loss`, or `{metric: loss, maximize: false, goal: 0.1}`."""
    if objective is None or isinstance(objective, Objective):
        return objective
    fields = {"metric": objective} if isinstance(objective, str) else objective
    metric = fields.get("metric") if isinstance(fields, Mapping) else None
    if not isinstance(fields, Mapping) or not isinstance(metric, str) or not metric:
        raise InvalidRequest(
            "objective takes a metric's name, or metric with maximize and goal", field="objective"
        )
    if more := sorted(map(str, set(fields) - {"metric", "maximize", "goal"})):
        raise InvalidRequest(f"objective has no {more[0]}", field="objective")
    goal, maximize = fields.get("goal"), fields.get("maximize", False)
    if not isinstance(maximize, bool) or not (goal is None or is_number(goal)):
        raise InvalidRequest(
            "objective: maximize is true or false, and goal is a number", field="objective"
        )
    return Objective(metric=metric, maximize=maximize, goal=goal)


def _halving(halving: object) -> Halving | None:
    """`{parameter: epochs, rungs: [1, 3, 9], keep: 3}`."""
    if halving is None or isinstance(halving, Halving):
        return halving
    what = "halving takes a parameter, its rungs (at least two) and keep, from 2"
    if not isinstance(halving, Mapping) or set(halving) - {"parameter", "rungs", "keep"}:
        raise InvalidRequest(what, field="halving")
    rungs, keep = halving.get("rungs"), halving.get("keep", 3)
    parameter = halving.get("parameter")
    listed = isinstance(rungs, list | tuple) and 2 <= len(rungs) <= MOST_ROUNDS
    if not isinstance(parameter, str) or not parameter or not listed:
        raise InvalidRequest(what, field="halving")
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 2:
        raise InvalidRequest(what, field="halving.keep")
    assert isinstance(rungs, list | tuple)
    if not all(map(is_value, rungs)):
        raise InvalidRequest(
            "each rung is a value of the parameter: a number or a text", field="halving.rungs"
        )
    return Halving(parameter=parameter, rungs=tuple(rungs), keep=keep)


def _whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidRequest(f"{name} takes a whole number from 1, not {value!r}", field=name)


def has_ended(trial: TrialView) -> bool:
    """Whether nothing of the trial runs or waits. One whose record has expired has ended."""
    return trial.state is None or trial.state in _ENDED


_ENDED = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.STOPPED})

"""`queue.sweeps`: many jobs from one request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slotq.sweeps.definition import define
from slotq.sweeps.sweep import Sweep, rounds_of, submitted
from slotq.transport.connection import ConnectedCalls


class SweepCalls(ConnectedCalls):
    """Sweeps by name."""

    def submit(
        self,
        name: str,
        request: Mapping[str, Any],
        space: Any,
        *,
        max_parallel: int,
        trials: int | None = None,
        seed: int = 0,
        first: int = 1,
        objective: str | Mapping[str, Any] | None = None,
        halving: Mapping[str, Any] | None = None,
    ) -> Sweep:
        """Try many values of a training's parameters: one job for each point of `space`, all under
        one name, at most `max_parallel` at once.

        `request`: the CreateTrainingJob request that they share. `space`: a grid (lists by
        parameter), a list of dicts, samplers by parameter (`slotq.uniform` …; then `trials` from
        number `first` on, by `seed`), or a function that is given the trials so far and returns
        those of the next round. A parameter is a hyperparameter, or with a dot another field
        (`Environment.SEED`). `objective`: a metric to minimise, or `{"metric": …, "maximize": True,
        "goal": …}`. `halving`: `{"parameter": …, "rungs": [1, 3, 9], "keep": 3}`.

        The same sweep again is the same sweep; `wait` goes on with its rounds. Raises
        InvalidRequest, and what `groups.submit` raises.
        """
        definition = define(
            name=name,
            template={key: it for key, it in request.items() if key != "TrainingJobName"},
            space=space,
            max_parallel=max_parallel,
            trials=trials,
            seed=seed,
            first=first,
            objective=objective,
            halving=halving,
        )
        return submitted(self._connection, definition)

    def get(self, name: str) -> Sweep:
        """A sweep that was submitted earlier, by whomever. Raises NoSuchGroup, and InvalidRequest
        if the group is no sweep."""
        return Sweep(self._connection, rounds_of(self._connection, name))

"""`session.sweep(estimator, space)`, `session.fit_many(estimators)`: many jobs of what estimators
or trainers would run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from slotq.errors import InvalidRequest
from slotq.groups.batches import Batch, batch, collecting
from slotq.jobs.verbs import Outcome
from slotq.sweeps.definition import define
from slotq.sweeps.of_tuners import is_tuner, of_tuner
from slotq.sweeps.sweep import Sweep, submitted
from slotq.transport.connection import Connection
from slotq_core import names

_APART = 0.002
"""Seconds between two trainings. The SDKs name jobs by the millisecond."""


class Training(Protocol):
    """What of TrainingCalls is used here."""

    def captured(self, call: Callable[[], object]) -> dict[str, Any]: ...

    say: Callable[[str], object]


class Sweeping:
    """The sweeps and batches of a session. The session has `queue` and its training calls."""

    queue: Connection
    _training: Training

    def sweep(
        self,
        estimator: Any,
        space: Any = None,
        *,
        max_parallel: int | None = None,
        name: str | None = None,
        inputs: Any = None,
        trials: int | None = None,
        seed: int = 0,
        first: int = 1,
        objective: str | Mapping[str, Any] | None = None,
        halving: Mapping[str, Any] | None = None,
    ) -> Sweep:
        """Train an estimator (or a `ModelTrainer`) for each point of `space`, at most
        `max_parallel` at once. Uploads its code once, and returns when the queue has all jobs.

        `inputs`: the argument of `fit` (or `train`). The rest is as for `queue.sweeps.submit`. Give
        a `name`, and the same call again finds the sweep.

        A `HyperparameterTuner` says the rest itself: `session.sweep(tuner)`; what is given here
        counts instead. Raises InvalidRequest with the tuner's argument that a sweep cannot follow.
        """
        given = {
            "space": space,
            "max_parallel": max_parallel,
            "trials": trials,
            "seed": seed or None,
            "objective": objective,
        }
        tuner = of_tuner(estimator, halving=halving) if is_tuner(estimator) else None
        own = {} if tuner is None else tuner.settings
        said = own | {key: value for key, value in given.items() if value is not None}
        trainer = estimator if tuner is None else tuner.trainer
        chosen = name or _name(tuner.base_name if tuner else None, trainer)
        if not names.is_legal(chosen):
            raise InvalidRequest(f"'{chosen}' cannot be a name: use {names.RULE}", field="name")
        template = self._training.captured(_call(trainer, chosen, inputs))
        if tuner is not None:
            template = tuner.template(template)
        definition = define(
            name=chosen,
            template={key: item for key, item in template.items() if key != "TrainingJobName"},
            first=first,
            halving=halving,
            **{"space": None, "max_parallel": None, **said},
        )
        if tuner is not None and tuner.note:
            self._training.say(f"{chosen}: {tuner.note}")
        return submitted(self.queue, definition)

    def batch(self) -> AbstractContextManager[Batch]:
        """Collect the training jobs of the block, and submit them together when it ends
        (`QueueClient.batch`)."""
        return batch(self.queue)

    def fit_many(self, estimators: Iterable[Any], inputs: Any = None) -> list[Outcome]:
        """Train each of these estimators (or `ModelTrainer`s), without waiting. Submits their jobs
        together, and returns an outcome for each: the job, or the queue's refusal.

        `inputs`: the argument of each `fit` (or `train`). Raises what a `fit` raises before it
        submits; then nothing is submitted.
        """
        with collecting(self.queue) as made:
            for estimator in estimators:
                _call(estimator, None, inputs)()
                time.sleep(_APART)
        return made.outcomes


def _call(estimator: Any, name: str | None, inputs: Any) -> Callable[[], object]:
    """The call that makes the SDK build the request. Without a name the SDK chooses one."""
    if hasattr(estimator, "fit"):
        return lambda: estimator.fit(inputs, wait=False, job_name=name)
    if hasattr(estimator, "train"):
        more = {} if inputs is None else {"input_data_config": inputs}
        return lambda: estimator.train(wait=False, logs=False, **more)
    raise InvalidRequest(
        f"this takes an estimator or a ModelTrainer, not a {type(estimator).__name__}",
        field="estimator",
    )


def _name(base_name: str | None, estimator: Any) -> str:
    """A name that no earlier sweep has."""
    base = str(base_name or getattr(estimator, "base_job_name", None) or "sweep")
    legal = re.sub(r"[^a-zA-Z0-9]+", "-", base).strip("-")[:30] or "sweep"
    return f"{legal}-{time.strftime('%y%m%d-%H%M%S', time.gmtime())}"

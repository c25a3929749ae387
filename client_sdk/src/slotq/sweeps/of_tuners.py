"""`session.sweep(tuner)`: what a `HyperparameterTuner` of SageMaker's SDK, of either major, tries.

A sweep draws at random, whatever the strategy; that of Hyperband is a halving. What a sweep cannot
do is refused by the name of the tuner's argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slotq.errors import InvalidRequest
from slotq.jobs.submission import with_tags
from slotq.sweeps.tuner_ranges import CATEGORICAL, sdk_class

_NOT_TAKEN: Mapping[str, str] = {
    "warm_start_config": "a sweep starts without other sweeps' results",
    "max_runtime_in_seconds": "a sweep has no time limit; the estimator's max_run is each trial's",
    "autotune": "say what to try: hyperparameter_ranges",
    "instance_configs": "give the estimator its instance type, and the session pools",
}
"""Arguments of a tuner that a sweep has nothing for, and what to do instead."""
_RESOURCE = ("min_resource", "max_resource")
_KEEP = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class OfTuner:
    """What a tuner says of a sweep."""

    trainer: Any
    """Its estimator or `ModelTrainer`."""
    base_name: str | None
    settings: dict[str, Any]
    """The arguments of `session.sweep`."""
    note: str
    """What the user should know; empty: nothing."""
    tags: Mapping[str, str]
    metrics: list[Any] | None
    """The definitions of metrics; None: those of the trainer."""

    def template(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The trainer's request with the tuner's tags and metrics."""
        made = with_tags(request, self.tags)
        if self.metrics is not None:
            algorithm = {**made["AlgorithmSpecification"], "MetricDefinitions": self.metrics}
            made["AlgorithmSpecification"] = algorithm
        return made


def is_tuner(value: object) -> bool:
    return bool(sdk_class(value, "HyperparameterTuner"))


def of_tuner(tuner: Any, *, halving: object) -> OfTuner:
    """What the tuner says. `halving`: that of the sweep, in place of Hyperband. Raises
    InvalidRequest with the tuner's argument."""
    trainer = getattr(tuner, "estimator", None) or getattr(tuner, "model_trainer", None)
    if trainer is None:
        raise _refused("estimator_name", "a sweep has one estimator: make a sweep for each")
    for name, instead in _NOT_TAKEN.items():
        if getattr(tuner, name, None):
            raise _refused(name, instead)
    if tuner.early_stopping_type != "Off" and halving is None:
        raise _refused(
            "early_stopping_type", "a sweep stops no trial early; halving lets only the best go on"
        )
    strategy = str(getattr(tuner.strategy, "value", tuner.strategy))
    if strategy == "Hyperband" and halving is None:
        raise _refused("strategy", f"a sweep has halving instead of Hyperband: {_halving(tuner)}")
    ranges = dict(tuner._hyperparameter_ranges)  # noqa: SLF001 - the SDK's form before JSON
    grid = strategy == "Grid"
    if grid:
        ranges = {name: list(range_.values) for name, range_ in _categorical(ranges)}
    return OfTuner(
        trainer=trainer,
        base_name=tuner.base_tuning_job_name,
        settings={
            "space": ranges,
            "max_parallel": tuner.max_parallel_jobs,
            "trials": None if grid else tuner.max_jobs,
            "seed": 0 if grid else tuner.random_seed or 0,
            "objective": {
                "metric": tuner.objective_metric_name,
                "maximize": str(tuner.objective_type) == "Maximize",
                **_goal(tuner.completion_criteria_config),
            },
        },
        note="a sweep draws its trials at random: strategy Bayesian is not followed"
        if strategy == "Bayesian"
        else "",
        tags={tag["Key"]: tag["Value"] for tag in tuner.tags or ()},
        metrics=tuner.metric_definitions,
    )


def _categorical(ranges: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, range_ in ranges.items():
        if not sdk_class(range_, CATEGORICAL):
            raise _refused("strategy", f"Grid takes values, and {name} is a range: take Random")
        yield name, range_


def _goal(criteria: Any) -> dict[str, float]:
    """The value that is good enough."""
    said = {} if criteria is None else _said(criteria)
    goal = said.pop("target_objective_metric_value", None)
    if said:
        raise _refused(
            "completion_criteria_config", f"a sweep knows a target value, not {min(said)}"
        )
    return {} if goal is None else {"goal": float(goal)}


def _halving(tuner: Any) -> str:
    """The halving that is nearest to the tuner's Hyperband."""
    config = getattr(tuner.strategy_config, "hyperband_strategy_config", None)
    said = {} if config is None else _said(config)
    least, most = (said.get(name) or other for name, other in zip(_RESOURCE, (1, 9), strict=True))
    rungs = [least]
    while rungs[-1] * _KEEP <= most:
        rungs.append(rungs[-1] * _KEEP)
    if len(rungs) == 1:
        rungs.append(max(most, least + 1))
    return (
        f'session.sweep(tuner, halving={{"parameter": "epochs", "rungs": {rungs}, '
        f'"keep": {_KEEP}}}) (docs/sweeps.md)'
    )


def _said(config: Any) -> dict[str, Any]:
    """The fields of one of the SDK's configurations that have a value."""
    return {
        name: value
        for name, value in vars(config).items()
        if value is not None and value is not False and type(value).__name__ != "Unassigned"
    }


def _refused(argument: str, instead: str) -> InvalidRequest:
    return InvalidRequest(f"{argument} of the tuner: {instead}", field=argument)

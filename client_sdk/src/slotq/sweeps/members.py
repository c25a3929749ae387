"""The requests of a sweep's or an array's members, made from one template.

In every text of the template, `{index}` becomes the member's index and `{name}` its name. Members
never share a place for checkpoints: where the template's has neither, each gets a folder below it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slotq.errors import InvalidRequest
from slotq.sweeps.space import Parameters
from slotq_core import names
from slotq_core.wire.groups.group_submission import MOST_MEMBERS
from slotq_core.wire.training.training_fields import STRUCTURES
from slotq_core.wire.training.training_request import REQUEST

INDEX, _NAME = "{index}", "{name}"
_SCRIPT, _JOB_NAME = "sagemaker_submit_directory", "sagemaker_job_name"
"""Hyperparameters of script mode, whose values are JSON."""
_KEPT = frozenset({"MetricDefinitions"})
"""Fields in which braces are regular expressions."""


def of_sweep(
    name: str,
    template: Mapping[str, Any],
    trials: Mapping[int, Parameters],
    *,
    digits: int,
    first_round: str = "",
) -> list[dict[str, Any]]:
    """A request for each trial, named `<name>-<number>`. `first_round`: the sweep of which this one
    is a later round; a trial goes on in the places that it had there. Raises InvalidRequest."""
    found = []
    for number, trial in trials.items():
        index = f"{number:0{digits}}"
        place = f"{first_round or name}-{index}"
        request = member(template, f"{name}-{index}", index=index, place=place)
        found.append(_with_parameters(request, trial))
    return found


def of_array(
    name: str, template: Mapping[str, Any], indices: Sequence[int]
) -> list[dict[str, Any]]:
    """A request for each index, named `<name>-<index>`, with Slurm's variables under SLOTQ's
    names."""
    shared = {
        "SLOTQ_ARRAY_JOB_ID": name,
        "SLOTQ_ARRAY_TASK_COUNT": str(len(indices)),
        "SLOTQ_ARRAY_TASK_MIN": str(min(indices)),
        "SLOTQ_ARRAY_TASK_MAX": str(max(indices)),
    }
    found = []
    for index in indices:
        request = member(template, f"{name}-{index}", index=str(index), place=f"{name}-{index}")
        own = {**shared, "SLOTQ_ARRAY_TASK_ID": str(index)}
        found.append({**request, "Environment": {**(request.get("Environment") or {}), **own}})
    return found


def member(template: Mapping[str, Any], name: str, *, index: str, place: str) -> dict[str, Any]:
    """The template as the request of one member. `place` replaces `{name}` in it. Raises
    InvalidRequest if the name is too long."""
    if not names.is_legal(name):
        raise InvalidRequest(
            f"'{name}' cannot be a job's name: use {names.RULE}; choose a shorter name for the "
            "whole",
            field="name",
        )
    request = {key: _filled(value, key, index, place) for key, value in template.items()}
    request["TrainingJobName"] = name
    config, shared = request.get("CheckpointConfig"), template.get("CheckpointConfig")
    if isinstance(config, Mapping) and isinstance(shared, Mapping) and config == shared:
        uri = str(config.get("S3Uri", "")).rstrip("/")
        request["CheckpointConfig"] = {**config, "S3Uri": f"{uri}/{place}"}
    values = request.get("HyperParameters")
    if isinstance(values, Mapping) and _JOB_NAME in values:
        request["HyperParameters"] = {**values, _JOB_NAME: json.dumps(name)}
    return request


def _filled(value: Any, key: str, index: str, name: str) -> Any:
    if isinstance(value, str):
        return value.replace(INDEX, index).replace(_NAME, name)
    if isinstance(value, Mapping):
        return {
            own: item if own in _KEPT else _filled(item, own, index, name)
            for own, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_filled(item, key, index, name) for item in value]
    return value


def _with_parameters(request: dict[str, Any], trial: Parameters) -> dict[str, Any]:
    """The request with this trial's parameters: hyperparameters, or where the name is a path
    (`Environment.SEED`, `ResourceConfig.InstanceCount`) that field."""
    encoded = _is_json(request)
    for name, value in trial.items():
        field, *path = name.split(".")
        if path and field in STRUCTURES[REQUEST]:
            text = field in {"Environment", "HyperParameters"}
            _put(request, [field, *path], _text(value, encoded=False) if text else value)
        else:
            _put(request, ["HyperParameters", name], _text(value, encoded=encoded))
    return request


def _put(request: dict[str, Any], path: Sequence[str], value: object) -> None:
    own = request
    *folders, last = path
    for folder in folders:
        below = own.get(folder) or {}
        if not isinstance(below, Mapping):
            raise InvalidRequest(
                f"space.{'.'.join(path)}: {folder} of the template is no object", field="space"
            )
        own[folder] = dict(below)
        own = own[folder]
    own[last] = value


def _is_json(request: Mapping[str, Any]) -> bool:
    """Whether the hyperparameters are JSON, as those of SDK v2's estimators with a script are."""
    values = request.get("HyperParameters")
    return isinstance(values, Mapping) and str(values.get(_SCRIPT, "")).startswith('"')


def _text(value: object, *, encoded: bool) -> str:
    return value if isinstance(value, str) and not encoded else json.dumps(value)


LARGEST_INDEX = 9_999_999

_PART = re.compile(r"(?P<low>\d{1,7})(-(?P<high>\d{1,7})(:(?P<step>\d{1,7}))?)?")
_LIMIT = re.compile(r"\d{1,7}")
_WHAT = "1-10, 1,3,7 or 0-15:4, and %N for at most N at once"


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrayRange:
    """The indices in ascending order, and how many jobs hold slots at once."""

    indices: tuple[int, ...]
    at_once: int


def read_range(text: str) -> ArrayRange:
    """Raises InvalidRequest that says what would be right."""
    listed, percent, limit = text.strip().partition("%")
    if percent and not (_LIMIT.fullmatch(limit) and int(limit) >= 1):
        raise _refusal(text, f"after % comes how many run at once, from 1, not '{limit[:40]}'")
    indices: set[int] = set()
    for part in listed.split(","):
        indices |= _indices(part.strip(), text)
    if len(indices) > MOST_MEMBERS:
        raise _refusal(
            text, f"it has {len(indices):,} indices, and an array has at most {MOST_MEMBERS:,}"
        )
    ordered = tuple(sorted(indices))
    return ArrayRange(indices=ordered, at_once=int(limit) if percent else len(ordered))


def _indices(part: str, text: str) -> set[int]:
    found = _PART.fullmatch(part)
    if found is None:
        raise _refusal(text, f"'{part}' is no index and no range")
    low = int(found["low"])
    high = low if found["high"] is None else int(found["high"])
    step = 1 if found["step"] is None else int(found["step"])
    if high < low:
        raise _refusal(text, f"{part} ends before it begins")
    if step == 0:
        raise _refusal(text, f"the step of {part} is 0")
    numbers = range(low, high + 1, step)
    if len(numbers) > MOST_MEMBERS:
        raise _refusal(
            text, f"{part} has {len(numbers):,} indices, and an array has at most {MOST_MEMBERS:,}"
        )
    return set(numbers)


def _refusal(text: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"--array {text[:40]}: {why}. Write {_WHAT}", field="array")

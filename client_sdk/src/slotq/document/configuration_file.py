"""A queue's configuration in a YAML file, and its faults by line.

A scenario file is one too: what only a simulation has is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotq.document.yaml_file import Document, faults_text
from slotq.errors import DocumentError, InvalidRequest, Refused
from slotq_core.wire.document.contents import read
from slotq_core.wire.document.faults import DocumentFault
from slotq_core.wire.document.writing import written

_OF_SIMULATIONS = ("jobs", "groups", "until", "expect")
"""Sections of a scenario that no configuration has."""
_OF_SIMULATED_POOLS = ("foreign", "changes", "stop_seconds")
"""Keys of a scenario's pools that no configuration has."""


@dataclass(frozen=True, kw_only=True)
class ConfigurationFile:
    document: dict[str, Any]
    """The canonical document: what has its default is left out."""
    left_out: tuple[str, ...]
    """Sections and keys that only a simulation has."""
    source: Document

    def refused(self, error: Refused) -> DocumentError | Refused:
        """Return the queue's refusal, by lines of the file if it says where the faults are."""
        if not error.faults:
            return error
        return type(error)(
            _by_line(self.source, error.faults), field=error.field, faults=error.faults
        )


def load(path: Path) -> ConfigurationFile:
    """Read a file. Raises DocumentError with every fault, its line, and what would be right."""
    source = Document(path)
    try:
        faults = [*_not_json(source.data, "")]
    except RecursionError:  # YAML's aliases can do that.
        raise DocumentError(f"{path}: it contains itself") from None
    if faults:
        raise DocumentError(_by_line(source, faults))
    data, left_out = _configured(source.data)
    try:
        settings = read(data)
    except InvalidRequest as error:
        raise DocumentError(_by_line(source, error.faults)) from None
    return ConfigurationFile(document=written(settings), left_out=left_out, source=source)


def _configured(data: Any) -> tuple[Any, tuple[str, ...]]:
    """Return what a configuration has, and the names of the rest."""
    if not isinstance(data, dict):
        return data, ()
    left_out = [name for name in _OF_SIMULATIONS if name in data]
    kept = {name: section for name, section in data.items() if name not in _OF_SIMULATIONS}
    if isinstance(pools := kept.get("pools"), list):
        left_out += [
            f"pools.{key}"
            for key in _OF_SIMULATED_POOLS
            if any(isinstance(pool, dict) and key in pool for pool in pools)
        ]
        kept["pools"] = [_pool(pool) for pool in pools]
    return kept, tuple(left_out)


def _pool(pool: Any) -> Any:
    if not isinstance(pool, dict):
        return pool
    return {key: value for key, value in pool.items() if key not in _OF_SIMULATED_POOLS}


def _not_json(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield what YAML has and JSON has not, such as dates."""
    if isinstance(value, dict):
        for key, own in value.items():
            yield from _not_json(own, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for place, own in enumerate(value):
            yield from _not_json(own, f"{path}[{place}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, "a finite number is needed"
    elif not isinstance(value, str | int | float | None):
        yield path, f"'{value}' is a {type(value).__name__}: put it in quotes"


def _by_line(source: Document, faults: Iterable[tuple[str, str]]) -> str:
    """Return a line for each fault: FILE:LINE: key: what would be right."""
    return faults_text(
        (DocumentFault((path,), message) for path, message in faults),
        lambda loc: (source.path, source.line(source.loc(str(loc[0]))), str(loc[0])),
    )

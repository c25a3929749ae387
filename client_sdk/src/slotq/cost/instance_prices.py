"""Prices of instances: the public ones that come with the client, or the operator's own."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slotq.configuration.settings import Config, at_home
from slotq.errors import NotConfigured
from slotq_core.model.pools import CapacityKind

SHIPPED = Path(__file__).with_name("instance_prices.toml")
_TEXTS = ("as_of", "region", "source")
_TABLE = "usd_per_hour"
_OF_KINDS = {
    f"{kind.value}_{_TABLE}": kind.value for kind in CapacityKind if kind.value != "on_demand"
}
"""The tables of prices of instances that are not bought on demand, and their kinds."""
_MOST = 1_000_000
"""The highest price (USD per hour)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InstancePrices:
    usd_per_hour: Mapping[str, float]
    """By instance type, on demand. A missing type has no known price."""
    of_kinds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The same for other kinds of capacity, by kind. A missing type costs what it costs on
    demand."""
    as_of: str = "not stated"
    region: str = "not stated"
    source: str = "not stated"

    @property
    def in_words(self) -> str:
        return f"prices of {self.as_of}, {self.region}: {self.source}"

    def of(self, instance_type: str, kind: str) -> float | None:
        """The price of an hour; None: not known."""
        own = self.of_kinds.get(kind, {}).get(instance_type)
        return self.usd_per_hour.get(instance_type) if own is None else own


def instance_prices(path: Path | None = None) -> InstancePrices:
    """The prices in a file; None: those that come with the client.

    Raises NotConfigured, with every fault of the file.
    """
    file = SHIPPED if path is None else path
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, no TOML, or a number too long.
        raise NotConfigured(f"the prices in {file} cannot be read: {error}") from None
    if faults := [*_faults(found)]:
        raise NotConfigured(f"the prices in {file} cannot be used: {'; '.join(faults)}")
    texts = {name: str(found.get(name, "not stated")) for name in _TEXTS}
    others = {kind: _prices(found[table]) for table, kind in _OF_KINDS.items() if table in found}
    return InstancePrices(usd_per_hour=_prices(found[_TABLE]), of_kinds=others, **texts)


def prices_of(config: Config, file: Path | None = None) -> InstancePrices:
    """The prices in the file, else those that the settings name, else public ones. Raises
    NotConfigured."""
    named = config.prices
    return instance_prices(file or (at_home(named) if named else None))


def _prices(table: Mapping[str, float]) -> dict[str, float]:
    return {name: float(usd) for name, usd in table.items()}


def _faults(found: Mapping[str, Any]) -> list[str]:
    known = {*_TEXTS, _TABLE, *_OF_KINDS}
    faults = [f"there is no key '{key}'" for key in found if key not in known]
    for table in (_TABLE, *(name for name in _OF_KINDS if name in found)):
        faults += _table_faults(table, found.get(table))
    return faults


def _table_faults(table: str, prices: Any) -> list[str]:
    if not isinstance(prices, dict):
        return [f'it needs a table [{table}] with lines such as "ml.g5.xlarge" = 1.408']
    faults = []
    for name, usd in prices.items():
        if not name.startswith("ml."):
            faults.append(f"'{name}' is no instance type such as ml.g5.xlarge")
        if type(usd) not in {int, float} or not 0 <= usd <= _MOST:
            faults.append(f"the price of {name} must be from 0 to {_MOST}, not {str(usd)[:40]}")
    return faults

"""Prices of instances: the public ones that come with the client, or the operator's own."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotq.errors import NotConfigured

SHIPPED = Path(__file__).with_name("instance_prices.toml")
_TEXTS = ("as_of", "region", "source")
_TABLE = "usd_per_hour"
_MOST = 1_000_000
"""The highest price (USD per hour)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InstancePrices:
    usd_per_hour: Mapping[str, float]
    """By instance type. A missing type has no known price."""
    as_of: str
    region: str
    source: str


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
    prices = {name: float(usd) for name, usd in found[_TABLE].items()}
    texts = {name: str(found.get(name, "not stated")) for name in _TEXTS}
    return InstancePrices(usd_per_hour=prices, **texts)


def _faults(found: Mapping[str, Any]) -> list[str]:
    faults = [f"there is no key '{key}'" for key in found if key not in {*_TEXTS, _TABLE}]
    prices = found.get(_TABLE)
    if not isinstance(prices, dict):
        return [*faults, f'it needs a table [{_TABLE}] with lines such as "ml.g5.xlarge" = 1.408']
    for name, usd in prices.items():
        if not name.startswith("ml."):
            faults.append(f"'{name}' is no instance type such as ml.g5.xlarge")
        if type(usd) not in {int, float} or not 0 <= usd <= _MOST:
            faults.append(f"the price of {name} must be from 0 to {_MOST}, not {str(usd)[:40]}")
    return faults

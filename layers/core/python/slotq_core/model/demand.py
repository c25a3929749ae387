"""Amounts: a job's demand and a pool's capacity."""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterable, Iterator, Mapping
from math import inf
from operator import attrgetter
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


class Demand(Mapping[str, int]):
    """A small named vector: a job's demand in its pool, or a pool's capacity.

    `slots` is always defined; other names (`gpus`, a licence) only where a pool declares them.
    Amounts are whole numbers; only differences may be negative. Immutable and hashable. An absent
    name counts as 0.
    """

    __slots__ = ("_amounts", "_hash")
    _amounts: dict[str, int]
    _hash: int
    """Set on first use. Each plan hashes the demands of waiting jobs."""

    def __init__(self, amounts: Mapping[str, int] | None = None, /, **named: int) -> None:
        merged = {**(amounts or {}), **named}
        if len(merged) > 1 or 0 in merged.values():
            merged = {name: merged[name] for name in sorted(merged) if merged[name]}
        object.__setattr__(self, "_amounts", merged)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Demand is immutable")

    @property
    def slots(self) -> int:
        return self._amounts.get("slots", 0)

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def items(self) -> ItemsView[str, int]:
        return self._amounts.items()

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash(tuple(self._amounts.items())))
            return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Demand) and self._amounts == other._amounts

    def __add__(self, other: Demand) -> Demand:
        if not other._amounts:
            return self
        if not self._amounts:
            return other
        found = self._amounts.copy()
        for name, amount in other._amounts.items():
            found[name] = found.get(name, 0) + amount
        return _made(found)

    def __sub__(self, other: Demand) -> Demand:
        if not other._amounts:
            return self
        found = self._amounts.copy()
        for name, amount in other._amounts.items():
            found[name] = found.get(name, 0) - amount
        return _made(found)

    def __mul__(self, times: int) -> Demand:
        return _made({name: amount * times for name, amount in self._amounts.items()})

    def within(self, room: Demand) -> bool:
        """Whether `room` has at least every amount of this demand."""
        mine, there = self._amounts, room._amounts
        for name in mine:  # noqa: SIM110 `all` would take twice as long
            if mine[name] > (there[name] if name in there else 0):  # noqa: SIM401 as above
                return False
        return True

    def smaller(self, other: Demand) -> Demand:
        """The smaller amount of each resource. None may be negative."""
        mine, there = self._amounts, other._amounts
        return _made({name: min(mine[name], there[name]) for name in mine if name in there})

    def larger(self, other: Demand) -> Demand:
        """The larger amount of each resource. None may be negative."""
        mine, there = self._amounts, other._amounts
        beyond = {name: amount for name, amount in there.items() if amount > mine.get(name, 0)}
        return _made(mine | beyond) if beyond else self

    def exceeds(self, most: Demand, names: Iterable[str], more: Demand) -> bool:
        """Whether this demand, together with `more`, is above `most` in any of these resources."""
        mine, there, added = self._amounts, most._amounts, more._amounts
        for name in names:  # noqa: SIM110 `any` would take twice as long
            if mine.get(name, 0) + added.get(name, 0) > there.get(name, 0):
                return True
        return False

    def reaches(self, most: Demand, names: Iterable[str]) -> bool:
        """Whether this demand is at least `most` in any of these resources."""
        mine, there = self._amounts, most._amounts
        for name in names:  # noqa: SIM110 `any` would take twice as long
            if mine.get(name, 0) >= there.get(name, 0):
                return True
        return False

    def largest_part(self, whole: Demand, names: Iterable[str], more: Demand) -> float:
        """The largest ratio of this demand together with `more` to `whole` in any of these
        resources; infinite where the whole is 0, and 0 where nothing is held."""
        mine, there, added = self._amounts, whole._amounts, more._amounts
        most = 0.0
        for name in names:
            held = mine.get(name, 0) + added.get(name, 0)
            if held > 0:
                base = there.get(name, 0)
                part = held / base if base > 0 else inf
                most = max(most, part)
        return most

    @classmethod
    def total(cls, demands: Iterable[Demand]) -> Demand:
        """The sum of many demands; faster than repeated addition."""
        amounts: dict[str, int] = {}
        for part in map(_amounts_of, demands):
            for name, amount in part.items():
                amounts[name] = amounts.get(name, 0) + amount
        return _made(amounts)

    @classmethod
    def totals(cls, demands: Iterable[tuple[K, Demand, int]]) -> dict[K, Demand]:
        """The sum for each key of demands, each taken so many times."""
        sums: dict[K, dict[str, int]] = {}
        for key, demand, times in demands:
            amounts_of_key = sums.get(key)
            if amounts_of_key is None:
                amounts_of_key = sums[key] = {}
            for name, amount in _amounts_of(demand).items():
                amounts_of_key[name] = amounts_of_key.get(name, 0) + amount * times
        return {key: _made(amounts) for key, amounts in sums.items()}

    def __repr__(self) -> str:
        return "Demand(" + ", ".join(f"{k}={v}" for k, v in self._amounts.items()) + ")"


_new = object.__new__
_amounts_of = attrgetter("_amounts")
_set_amounts = Demand.__dict__["_amounts"].__set__


def _made(amounts: dict[str, int]) -> Demand:
    """`Demand(amounts)`, but faster. Plans add very often, and a single name needs no sorting."""
    if len(amounts) > 1 or 0 in amounts.values():
        return Demand(amounts)
    made = _new(Demand)
    _set_amounts(made, amounts)
    return made


NOTHING = Demand()
Properties = Demand
"""Properties of slots, declared or required. A text or boolean is an amount of 1 of `NAME=VALUE`
(`wire.traits`)."""

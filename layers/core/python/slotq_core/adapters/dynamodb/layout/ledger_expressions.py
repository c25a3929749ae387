"""Every condition and update of a pool's ledger, named and explained. No other module contains any.

The promise "never over capacity" rests on this module alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotq_core.adapters.dynamodb.layout.expressions import Expression
from slotq_core.adapters.dynamodb.layout.items import (
    foreign_attribute,
    free_attribute,
    used_attribute,
)
from slotq_core.model.demand import Demand


def change_use(
    *,
    gained: Demand,
    admitted: frozenset[str],
    seen: int | None,
    decides: bool,
    holders: int,
    activity: str = "",
) -> Expression:
    """Move a pool's ledger by a transaction's net change (`gained`; negative: slots given back).

    - free_<resource> >= :gain, for each resource of which some job newly holds any: the free amount
      covers the gain. Also false if the pool lacks the resource or is no longer configured (the
      attribute is missing).
    - version = :seen, only if the decision depends on the state as read: no other decision about
      this pool was committed since.
    - ADD changes use and free by the same amount, in opposite directions, raises the version for a
      decision, and updates the sum of marks.
    - SET activity: an item of the pool's partition has changed, so every cached reading of the pool
      is outdated. No decision depends on this attribute, so an event refuses no decision.
    """
    build = _Builder()
    for resource in sorted(admitted):
        build.require(f"{build.name(free_attribute(resource))} >= {build.value(gained[resource])}")
    if seen is not None:
        build.require(f"version = {build.value(seen)}")
    for resource, amount in gained.items():
        build.add(used_attribute(resource), amount)
        build.add(free_attribute(resource), -amount)
    build.add("version", 1 if decides else 0)
    build.add("holders", holders)
    if activity:
        build.set_text("activity", activity)
    return build.expression()


def note_activity(activity: str) -> Expression:
    """Record that a repair has changed an item of the pool's partition."""
    build = _Builder()
    build.set_text("activity", activity)
    return build.expression()


def note_fact() -> Expression:
    """Record that a learned fact about the pool (HEALTH) has changed. A counter, because facts may
    come again.

    Condition: the ledger exists, so that no fact makes one.
    """
    build = _Builder()
    build.require("attribute_exists(version)")
    build.add("facts", 1)
    return build.expression()


def open_pool(room: Demand, since: int = 0) -> Expression:
    """Open a pool that is new or was once removed. The pool is empty, so all of its room is free.
    `since`: as in `resize_pool`.

    Condition: the pool is not open. ADD keeps the version rising across a removal and a return.
    """
    build = _Builder()
    build.require("attribute_not_exists(free_slots)")
    for resource, amount in {"slots": 0, **room}.items():
        build.set(free_attribute(resource), amount)
    build.since(since)
    build.add("version", 1)
    return build.expression()


def reopen_pool(room: Demand, resources: Iterable[str], seen: int, since: int = 0) -> Expression:
    """Reopen a pool whose definition was lost, but not its ledger: `room` is free of each resource.

    Condition: the ledger has not changed since it was read.
    """
    build = _Builder()
    build.require(f"version = {build.value(seen)}")
    for resource in sorted(resources):
        build.set(free_attribute(resource), room[resource])
    build.since(since)
    build.add("version", 1)
    return build.expression()


def take_back_pool(room: Demand | None, resources: Iterable[str], seen: int) -> Expression:
    """Give a pool the room again that it has under the configuration, after a change in parts that
    did not come to its end. `room` None: the pool is not configured, and admits nothing.

    Condition: the ledger has not changed since it was read.
    """
    build = _Builder()
    build.require(f"version = {build.value(seen)}")
    for resource in sorted(resources):
        if room is None:
            build.remove(free_attribute(resource))
            build.remove(foreign_attribute(resource))
        else:
            build.set(free_attribute(resource), room[resource])
    build.remove("since")
    build.add("version", 1)
    return build.expression()


def resize_pool(gained: Demand, since: int = 0) -> Expression:
    """Resize a pool: free changes by the difference, and falls below 0 if use exceeds the new
    capacity.

    The caller's condition on the configuration's revision, or on the mark of a change in parts,
    guarantees that the old capacity still holds. `since`: the revision from which the ledger holds,
    if the same transaction does not raise it: whoever has read an earlier one decides nothing.
    """
    build = _Builder()
    for resource, amount in gained.items():
        build.add(free_attribute(resource), amount)
    build.since(since)
    build.add("version", 1)
    return build.expression()


def close_pool(room: Demand, used: Demand, foreign: Demand, since: int = 0) -> Expression:
    """Close a pool: no job may run there, and without `free_*` the pool admits nothing.

    `used` and `foreign` name the resources that the ledger has counted so far; the used amount of
    each must be 0. `since`: as in `resize_pool`.
    """
    build = _Builder()
    for resource in sorted({"slots", *room, *used, *foreign}):
        counted = build.name(used_attribute(resource))
        build.require(f"(attribute_not_exists({counted}) OR {counted} = {build.value(0)})")
        build.remove(free_attribute(resource))
        build.remove(foreign_attribute(resource))
    build.since(since)
    build.add("version", 1)
    return build.expression()


def count_foreign(amount: Demand, before: Demand, seen: int) -> Expression:
    """Record what foreign training jobs occupy, and reduce the free amount by the difference.

    Conditions: the ledger has not changed since it was read, and the pool is configured.
    """
    build = _Builder()
    build.require(f"version = {build.value(seen)}")
    build.require("attribute_exists(free_slots)")
    for resource, more in (amount - before).items():
        build.add(foreign_attribute(resource), more)
        build.add(free_attribute(resource), -more)
    build.add("version", 1)
    return build.expression()


class _Builder:
    """Collects the parts of one expression. Attributes get placeholders, because they may have any
    name."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, Mapping[str, str]] = {}
        self._conditions: list[str] = []
        self._clauses: dict[str, list[str]] = {}

    def name(self, attribute: str) -> str:
        plain = attribute.isascii() and attribute.isidentifier()
        placeholder = f"#{attribute}" if plain else f"#n{len(self._names)}"
        self._names[placeholder] = attribute
        return placeholder

    def value(self, amount: int) -> str:
        placeholder = f":v{len(self._values)}"
        self._values[placeholder] = {"N": str(amount)}
        return placeholder

    def require(self, condition: str) -> None:
        self._conditions.append(condition)

    def set(self, attribute: str, amount: int) -> None:
        self._clause("SET", f"{self.name(attribute)} = {self.value(amount)}")

    def since(self, revision: int) -> None:
        if revision:
            self.set("since", revision)

    def set_text(self, attribute: str, text: str) -> None:
        placeholder = f":v{len(self._values)}"
        self._values[placeholder] = {"S": text}
        self._clause("SET", f"{self.name(attribute)} = {placeholder}")

    def add(self, attribute: str, amount: int) -> None:
        if amount:
            self._clause("ADD", f"{self.name(attribute)} {self.value(amount)}")

    def remove(self, attribute: str) -> None:
        self._clause("REMOVE", self.name(attribute))

    def _clause(self, verb: str, part: str) -> None:
        self._clauses.setdefault(verb, []).append(part)

    def expression(self) -> Expression:
        clauses = [f"{verb} {', '.join(parts)}" for verb, parts in self._clauses.items()]
        built: Expression = {"UpdateExpression": " ".join(clauses)}
        if self._conditions:
            built["ConditionExpression"] = " AND ".join(self._conditions)
        if self._names:
            built["ExpressionAttributeNames"] = self._names
        if self._values:
            built["ExpressionAttributeValues"] = self._values
        return built

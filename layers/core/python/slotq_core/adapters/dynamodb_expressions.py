"""Every condition and update that the store sends to DynamoDB, named and explained; nowhere else.

The promises "never over capacity" and "nothing lost" rest on these lines alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slotq_core.adapters.dynamodb_items import foreign_attribute, free_attribute, used_attribute
from slotq_core.model.demand import Demand

Expression = dict[str, Any]
"""The expression arguments of one call or one action of a transaction."""


def is_new() -> Expression:
    """There is no item of that key yet. On JOB: a name is given once and never overwritten."""
    return {"ConditionExpression": "attribute_not_exists(pk)"}


def job_unchanged(version: int) -> Expression:
    """Nobody has changed the job since it was read. All of a job's copies hang on this condition.

    It also makes a repeated commit harmless: if the first try took effect though its answer was
    lost, the version has moved on, and the second is refused whole.
    """
    return {
        "ConditionExpression": "version = :before",
        "ExpressionAttributeValues": {":before": _number(version)},
    }


def touch_line(at: int) -> Expression:
    """The line exists, and somebody is about to wait in it."""
    return {
        "UpdateExpression": "SET touched = :at",
        "ExpressionAttributeValues": {":at": _number(at)},
    }


def line_untouched(touched: int) -> Expression:
    """Nobody has touched the line since it was seen empty: so no submission counts on it."""
    return {
        "ConditionExpression": "touched = :seen",
        "ExpressionAttributeValues": {":seen": _number(touched)},
    }


def change_use(
    *,
    gained: Demand,
    admitted: frozenset[str],
    seen: int | None,
    decides: bool,
    holders: int,
) -> Expression:
    """Move a pool's ledger by what a transaction takes there in all (`gained`; negative: gives).

    free_<resource> >= :gain    for each resource of which some job newly holds any: what was free
                                covers it. False too where the pool offers no such resource or is
                                not configured any more (the attribute is not there).
    version = :seen             only where the decision rests on what was read: nobody else has
                                decided about this pool since.
    ADD …                       moves use and free by the same amount, in opposite directions;
                                counts the version up for a decision; keeps the sum of marks.
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
    return build.expression()


def open_pool(room: Demand) -> Expression:
    """A pool that is new, or was once removed: it is empty, so all of its room is free.

    Condition: it is not open already. ADD keeps the version rising over a removal and a return.
    """
    build = _Builder()
    build.require("attribute_not_exists(free_slots)")
    for resource, amount in {"slots": 0, **room}.items():
        build.set(free_attribute(resource), amount)
    build.add("version", 1)
    return build.expression()


def reopen_pool(room: Demand, resources: Iterable[str], seen: int) -> Expression:
    """A pool whose definition was lost, but not its ledger: so much is free of each resource.

    Condition: nobody has changed the ledger since it was read.
    """
    build = _Builder()
    build.require(f"version = {build.value(seen)}")
    for resource in sorted(resources):
        build.set(free_attribute(resource), room[resource])
    build.add("version", 1)
    return build.expression()


def resize_pool(gained: Demand) -> Expression:
    """More or less room: free moves by the difference, below 0 where use is above the new capacity.

    The caller's condition on the configuration's revision holds the old capacity still.
    """
    build = _Builder()
    for resource, amount in gained.items():
        build.add(free_attribute(resource), amount)
    build.add("version", 1)
    return build.expression()


def close_pool(room: Demand, used: Demand, foreign: Demand) -> Expression:
    """A pool goes: nothing may run there, and without `free_*` nothing will be admitted.

    `used` and `foreign` name the resources that the ledger has counted so far; each that is used
    must be down to 0.
    """
    build = _Builder()
    for resource in sorted({"slots", *room, *used, *foreign}):
        counted = build.name(used_attribute(resource))
        build.require(f"(attribute_not_exists({counted}) OR {counted} = {build.value(0)})")
        build.remove(free_attribute(resource))
        build.remove(foreign_attribute(resource))
    build.add("version", 1)
    return build.expression()


def count_foreign(amount: Demand, before: Demand, seen: int) -> Expression:
    """What others occupy is that much now, and so much less is free.

    Conditions: nobody has changed the ledger since it was read, and the pool is configured.
    """
    build = _Builder()
    build.require(f"version = {build.value(seen)}")
    build.require("attribute_exists(free_slots)")
    for resource, more in (amount - before).items():
        build.add(foreign_attribute(resource), more)
        build.add(free_attribute(resource), -more)
    build.add("version", 1)
    return build.expression()


def as_read(item: Mapping[str, Any], *attributes: str) -> Expression:
    """These attributes are what they were when the item was read, whatever they are: for mending
    what nobody can understand."""
    names = {f"#a{n}": attribute for n, attribute in enumerate(attributes)}
    values = {f":a{n}": item[each] for n, each in enumerate(attributes) if each in item}
    conditions = [
        f"{name} = :{name[1:]}" if f":{name[1:]}" in values else f"attribute_not_exists({name})"
        for name in names
    ]
    built: Expression = {
        "ConditionExpression": " AND ".join(conditions),
        "ExpressionAttributeNames": names,
    }
    return {**built, "ExpressionAttributeValues": values} if values else built


def unchanged(item: Mapping[str, Any]) -> Expression:
    """The item is there, and all of what was read is as it was."""
    contents = [attribute for attribute in item if attribute not in {"pk", "sk"}]
    return as_read(item, "pk", *contents)


def mend_line() -> Expression:
    """Say that nobody has touched the line lately. Condition: nobody has, since it was found that
    this cannot be told: else a submission may count on the line."""
    return {
        "UpdateExpression": "SET touched = :never",
        "ConditionExpression": "NOT attribute_type(touched, :number)",
        "ExpressionAttributeValues": {":never": _number(0), ":number": _text("N")},
    }


def unmark(whose: Mapping[str, Any]) -> Expression:
    """It does not expire: the job that it belongs to lives."""
    return {
        "UpdateExpression": "REMOVE expiresAt",
        "ConditionExpression": "entryTime = :whose",
        "ExpressionAttributeValues": {":whose": whose},
    }


def expire(*, whose: Mapping[str, Any], at: Mapping[str, Any]) -> Expression:
    """It goes then, if it belongs to the job that entered the queue at that moment: the name may
    have been given again, and what belongs to a job that lives never expires."""
    return {
        "UpdateExpression": "SET expiresAt = :at",
        "ConditionExpression": "entryTime = :whose",
        "ExpressionAttributeValues": {":at": at, ":whose": whose},
    }


def raise_generation() -> Expression:
    """One more reason for a pass. ADD loses none, however many come at once."""
    return {
        "UpdateExpression": "ADD generation :one",
        "ExpressionAttributeValues": {":one": _number(1)},
    }


def new_generation() -> Expression:
    """Where it is no number: one that nobody has seen."""
    return {
        "UpdateExpression": "SET generation = :new",
        "ExpressionAttributeValues": {":new": _number(1 << 40)},
    }


def take_lease(holder: str, *, now: int, until: int, never: int, only_news: bool) -> Expression:
    """Nobody holds the lease, or we do, or its holder's time is over; or it never would be: an end
    that is no number, or beyond `never`, was written by a clock gone wrong. With `only_news`:
    and the generation is not the one that was seen to last."""
    free = (
        "attribute_not_exists(#holder) OR #holder = :holder"
        " OR NOT attribute_type(#until, :number) OR #until <= :now OR #until > :never"
    )
    news = "(attribute_not_exists(seen) OR seen <> generation)"
    return {
        "UpdateExpression": "SET #holder = :holder, #until = :until",
        "ConditionExpression": f"{news} AND ({free})" if only_news else free,
        "ExpressionAttributeNames": {"#holder": "holder", "#until": "until"},
        "ExpressionAttributeValues": {
            ":holder": _text(holder),
            ":now": _number(now),
            ":until": _number(until),
            ":never": _number(never),
            ":number": _text("N"),
        },
    }


def end_lease(holder: str, generation: int | None) -> Expression:
    """It is still ours; and nobody has bumped since that generation, which is seen to (None:
    whether or not, and nothing is)."""
    condition, values = "#holder = :holder", {":holder": _text(holder)}
    change = "SET seen = :seen REMOVE #holder, #until"
    if generation is not None:
        values[":seen"] = _number(generation)
        condition += " AND generation = :seen"
        if not generation:
            condition = "#holder = :holder AND attribute_not_exists(generation)"
            del values[":seen"]
    if ":seen" not in values:
        change = "REMOVE #holder, #until, seen"
    return {
        "UpdateExpression": change,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {"#holder": "holder", "#until": "until"},
        "ExpressionAttributeValues": values,
    }


def take_turn(*, now: int, next_at: int, never: int) -> Expression:
    """The task is due and nobody else has taken this turn. (Beyond `never`: a clock gone wrong.)"""
    return {
        "UpdateExpression": "SET nextAt = :next",
        "ConditionExpression": (
            "attribute_not_exists(nextAt) OR NOT attribute_type(nextAt, :number)"
            " OR nextAt <= :now OR nextAt > :never"
        ),
        "ExpressionAttributeValues": {
            ":number": _text("N"),
            ":next": _number(next_at),
            ":now": _number(now),
            ":never": _number(never),
        },
    }


def set_turn(next_at: int) -> Expression:
    """The next turn is then, whatever was set before."""
    return {
        "UpdateExpression": "SET nextAt = :next",
        "ExpressionAttributeValues": {":next": _number(next_at)},
    }


def next_revision(seen: int) -> Expression:
    """Nobody has changed the configuration since it was read; 0: nobody ever has, or it cannot be
    told."""
    if seen:
        condition, values = "revision = :seen", {":seen": _number(seen)}
    else:
        condition = "attribute_not_exists(revision) OR NOT attribute_type(revision, :number)"
        values = {":number": _text("N")}
    return {
        "UpdateExpression": "SET revision = :next",
        "ConditionExpression": condition,
        "ExpressionAttributeValues": {**values, ":next": _number(seen + 1)},
    }


def all_but_requests() -> Expression:
    """Every item but the (large) requests; of those, the ones that are to expire."""
    return {"FilterExpression": "attribute_not_exists(jobDetails) OR attribute_exists(expiresAt)"}


def partition(pk: str) -> Expression:
    """Every item of a partition, in the order of its sort keys."""
    return {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": _text(pk)}}


def partition_from(pk: str, prefix: str) -> Expression:
    """Those whose sort key begins so."""
    return {
        "KeyConditionExpression": "pk = :pk AND begins_with(sk, :prefix)",
        "ExpressionAttributeValues": {":pk": _text(pk), ":prefix": _text(prefix)},
    }


def partition_before(pk: str, end: str) -> Expression:
    """Those whose sort key comes before `end`: the jobs ahead of one in a line."""
    return {
        "KeyConditionExpression": "pk = :pk AND sk < :end",
        "ExpressionAttributeValues": {":pk": _text(pk), ":end": _text(end)},
    }


def partition_between(pk: str, first: str, last: str) -> Expression:
    """Those whose sort key is from `first` to `last`, both included."""
    return {
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :first AND :last",
        "ExpressionAttributeValues": {
            ":pk": _text(pk),
            ":first": _text(first),
            ":last": _text(last),
        },
    }


def in_state(state: str) -> Expression:
    """Jobs of one state, on the index `by-state`."""
    return {
        "KeyConditionExpression": "jobState = :state",
        "ExpressionAttributeValues": {":state": _text(state)},
    }


class _Builder:
    """Collects the parts of one expression; attributes get placeholders: they may have any name."""

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
        self._values[placeholder] = _number(amount)
        return placeholder

    def require(self, condition: str) -> None:
        self._conditions.append(condition)

    def set(self, attribute: str, amount: int) -> None:
        self._clause("SET", f"{self.name(attribute)} = {self.value(amount)}")

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


def _number(amount: int) -> Mapping[str, str]:
    return {"N": str(amount)}


def _text(text: str) -> Mapping[str, str]:
    return {"S": text}

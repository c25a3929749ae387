"""Every condition, update and query that the store sends to DynamoDB, named and explained; nowhere
else, but for those of the pools' ledgers, in `dynamodb_ledger_expressions`.

The promise "nothing lost" rests on these lines alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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


def touch_known_line(at: int) -> Expression:
    """The same for a job that may open no line: the line is there."""
    return {**touch_line(at), "ConditionExpression": "attribute_exists(pk)"}


def count_submission(minute: str, *, waiting: int, submissions: int) -> Expression:
    """One more of a caller's jobs waits, and one more was submitted in this minute. Condition: both
    are below the caller's limits (0: there is none), as far as they are numbers at all; what is
    not, the update itself refuses."""
    conditions, values = [], {":one": _number(1)}
    if waiting:
        conditions.append("(NOT attribute_type(waiting, :number) OR waiting < :waiting)")
        values |= {":waiting": _number(waiting), ":number": _text("N")}
    if submissions:
        conditions.append("(NOT attribute_type(#minute, :number) OR #minute < :submissions)")
        values |= {":submissions": _number(submissions), ":number": _text("N")}
    built: Expression = {
        "UpdateExpression": "ADD waiting :one, #minute :one",
        "ExpressionAttributeNames": {"#minute": minute},
        "ExpressionAttributeValues": values,
    }
    return {**built, "ConditionExpression": " AND ".join(conditions)} if conditions else built


def uncount_submission(minute: str) -> Expression:
    """It was counted and not kept. Condition: an audit has not taken it off already, as far as one
    can tell."""
    return {
        "UpdateExpression": "ADD waiting :less, #minute :less",
        "ConditionExpression": (
            "attribute_type(waiting, :number) AND waiting > :none"
            " AND attribute_type(#minute, :number) AND #minute > :none"
        ),
        "ExpressionAttributeNames": {"#minute": minute},
        "ExpressionAttributeValues": {
            ":less": _number(-1),
            ":none": _number(0),
            ":number": _text("N"),
        },
    }


def correct_count(change: int, audits: int, *, forget: Sequence[str]) -> Expression:
    """What an audit found too much or too little; what was counted since it read the counter stays.
    Condition: no other audit has corrected it since."""
    old = {f"#m{n}": attribute for n, attribute in enumerate(forget)}
    removed = f" REMOVE {', '.join(old)}" if old else ""
    built: Expression = {
        "UpdateExpression": f"ADD waiting :change, audits :one{removed}",
        "ConditionExpression": "attribute_not_exists(audits) OR audits = :seen",
        "ExpressionAttributeValues": {
            ":change": _number(change),
            ":one": _number(1),
            ":seen": _number(audits),
        },
    }
    return {**built, "ExpressionAttributeNames": old} if old else built


def line_untouched(touched: int) -> Expression:
    """Nobody has touched the line since it was seen empty: so no submission counts on it."""
    return {
        "ConditionExpression": "touched = :seen",
        "ExpressionAttributeValues": {":seen": _number(touched)},
    }


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
    have been given again, and what belongs to a job that lives never expires. A record of before
    they said whose they are (`dynamodb_items.whose`) is of that job too."""
    of_old = "(attribute_exists(pk) AND attribute_not_exists(entryTime))"
    return {
        "UpdateExpression": "SET expiresAt = :at",
        "ConditionExpression": f"entryTime = :whose OR {of_old}",
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


def submitters_in_state(state: str) -> Expression:
    """The same, and of each who submitted it."""
    return {**in_state(state), "ProjectionExpression": "submitter"}


def _number(amount: int) -> Mapping[str, str]:
    return {"N": str(amount)}


def _text(text: str) -> Mapping[str, str]:
    return {"S": text}

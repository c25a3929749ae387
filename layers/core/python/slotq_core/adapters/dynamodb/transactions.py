"""Turn changes of jobs into the actions of one transaction.

A job's items are a function of the job. Therefore a commit writes the difference between before and
after, and no kind of change needs its own code.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slotq_core.adapters.dynamodb.layout import expressions, ledger_expressions, table
from slotq_core.adapters.dynamodb.layout.items import (
    Items,
    farewell,
    history_of,
    items_of,
    keyed,
    marks_of,
    taken_back,
    write_in_parts,
)
from slotq_core.adapters.dynamodb.layout.records import Item, write
from slotq_core.model.jobs import TERMINAL_STATES, Job
from slotq_core.ports.stored import Change, Part
from slotq_core.storage import stored_request
from slotq_core.storage.ends import HISTORY, expires_at, record_of
from slotq_core.storage.holdings import PoolChange, pool_changes
from slotq_core.storage.yields import yields_in
from slotq_core.timestamps import iso

Action = dict[str, dict[str, Any]]

MAX_ACTIONS = 100
"""DynamoDB's limit on actions in one transaction."""


def action_count(changes: Sequence[Change], seen: Mapping[str, int] | None = None) -> int:
    """Return how many of MAX_ACTIONS actions a commit of these changes takes.

    A start takes 5 (6 with a claim), an eviction 2 (3 for a time slice), a claim 3, the end of an
    attempt 5, a cancel of a waiting job 3 (4 with a claim), any other change of an active job 2,
    and a changed request 1. Each pool whose ledger is seen or changes takes 1.
    """
    return len(commit_actions("", changes, seen))


def submit_actions(
    name: str, job: Job, request: bytes, watched: Sequence[str] = ()
) -> list[Action]:
    """Return the actions of a submission. The first writes JOB; a refusal of this action means that
    the name is taken, and of any other that an awaited job has ended, or a watched member of an
    awaited group."""
    key, items = table.job_key(job.name), items_of(job)
    items[table.request_key(job.name)] = _request_item(job, request)
    first = put(name, key, items.pop(key), expressions.is_new_job())
    ended = sorted(TERMINAL_STATES)
    awaited = [
        check(name, table.job_key(each), expressions.is_awaited(ended))
        for each in dict.fromkeys((*job.awaited_jobs, *watched))
    ]
    return [first, *(put(name, key, item) for key, item in items.items()), *awaited]


def fitting(
    changes: Sequence[Change],
    seen: Mapping[str, int] | None,
    part: Part | None,
    most_actions: int,
) -> int:
    """Return how many of these changes, the first ones, take at most `most_actions`; at least one.

    `part`: the part of which these would be, also if they would be all of it.
    """
    if len(changes) == 1:
        return 1
    pools, count = {*(seen or ())}, 1 + (part is not None)
    for number, change in enumerate(changes):
        pools |= {*pool_changes([change], None), *_touched([change])}
        count += len([*_job_actions("", change, HISTORY), *_yield_actions("", [change])])
        if number and count + len(pools) > most_actions:
            return number
    return len(changes)


def commit_actions(
    name: str,
    changes: Sequence[Change],
    seen: Mapping[str, int] | None,
    *,
    group_decisions: int | None = None,
    part: Part | None = None,
    history: int = HISTORY,
) -> list[Action]:
    return [
        *(action for change in changes for action in _job_actions(name, change, history)),
        *_yield_actions(name, changes),
        *_ledger_actions(name, changes, seen),
        *_group_actions(name, group_decisions, part),
    ]


def _group_actions(name: str, seen: int | None, part: Part | None) -> Iterator[Action]:
    """Yield what puts decisions about groups in order, and keeps one that is made in parts."""
    opens, closes = part is not None and part.opens, part is not None and part.closes
    if seen is not None or closes:
        counted = expressions.decide_about_groups(seen, opens=opens, closes=closes)
        yield update(name, table.revision_key(), counted)
    if part is None:
        return
    key, still = table.parts_key(), expressions.is_in_parts(part.of.number, part.of.kind)
    if opens:
        yield put(name, key, write_in_parts(part.of), expressions.is_new())
    elif closes:
        yield delete(name, key, still)
    else:
        yield check(name, key, still)


def committed(change: Change) -> Job:
    """Return the job as the change leaves it, with the next version."""
    return replace(change.after, version=change.before.version + 1)


def _job_actions(name: str, change: Change, history: int) -> Iterator[Action]:
    before, after = items_of(change.before), items_of(committed(change))
    main = table.job_key(change.before.name)
    if (gone := expires_at(change.after, history)) is not None:
        for key, item in farewell(change.after, gone).items():
            if key == main or not change.before.terminal:
                after[key] = {**after.get(key, {}), **item}
    yield put(name, main, after.pop(main), expressions.job_unchanged(change.before.version))
    for key in [*(before.keys() - after.keys() - {main}), *taken_back(change)]:
        yield delete(name, key)
    if change.request is not None:
        packed = stored_request.pack(change.request)
        after[table.request_key(change.after.name)] = _request_item(change.after, packed)
    for key, item in {**after, **history_of(change), **_use_of(change, history)}.items():
        yield put(name, key, item)


def _yield_actions(name: str, changes: Sequence[Change]) -> Iterator[Action]:
    """Yield the actions that keep who yields to a time slice, one for each project, user, rank and
    pool.

    They have no condition: the decision's own, on the pool's ledger, puts such transactions in
    order.
    """
    kept = {table.yield_key(pool, this): this for pool, this in yields_in(changes)}
    for key, this in kept.items():
        yield put(name, key, write(this))


def _use_of(change: Change, history: int) -> Items:
    """Return the record of what the attempt used that the change ends, if any."""
    record = record_of(change, history)
    if record is None:
        return {}
    key = table.ended_partition(record.day), record.position
    return {key: {**write(record.use), table.EXPIRES_AT: {"N": str(record.expires_at)}}}


def _request_item(job: Job, packed: bytes) -> Item:
    """Return the request's item. The entry time says whose request it is, because a later job may
    have the same name."""
    return {"jobDetails": {"B": packed}, "entryTime": {"S": iso(job.entry_time)}}


def _ledger_actions(
    name: str, changes: Sequence[Change], seen: Mapping[str, int] | None
) -> Iterator[Action]:
    uses, marks, touched = pool_changes(changes, seen), _marks(changes), _touched(changes)
    activity = activity_of([write(committed(change)) for change in changes]) if touched else ""
    for pool in sorted({*uses, *marks, *touched}):
        use = uses.get(pool, PoolChange())
        expression = ledger_expressions.change_use(
            gained=use.gained,
            admitted=use.admitted,
            seen=use.seen,
            decides=use.raises_version,
            holders=marks.get(pool, 0),
            activity=activity if pool in touched else "",
        )
        yield update(name, table.ledger_key(pool), expression)


def _touched(changes: Sequence[Change]) -> set[str]:
    """Return the pools whose partitions the changes write: a job's copy there changes with each
    change of the job."""
    jobs = [job for change in changes for job in (change.before, change.after)]
    return {pool for job in jobs for pool in marks_of(job)}


def activity_of(written: object) -> str:
    """Return a short hash of what a transaction writes. A job's version only rises, so no two
    transactions have the same, also if a backup was restored in between."""
    return hashlib.sha256(json.dumps(written, sort_keys=True, default=str).encode()).hexdigest()[
        :16
    ]


def _marks(changes: Sequence[Change]) -> dict[str, int]:
    """Return, by pool, how the sum of marks changes; pools without a change are left out."""
    moved: Counter[str] = Counter()
    for change in changes:
        moved.update(marks_of(change.after))
        moved.subtract(marks_of(change.before))
    return {pool: amount for pool, amount in moved.items() if amount}


def put(
    name: str, key: table.Key, item: Item, condition: expressions.Expression | None = None
) -> Action:
    return {"Put": {"TableName": name, "Item": keyed(key, item), **(condition or {})}}


def update(name: str, key: table.Key, expression: expressions.Expression) -> Action:
    return {"Update": {"TableName": name, "Key": keyed(key), **expression}}


def check(name: str, key: table.Key, condition: expressions.Expression) -> Action:
    return {"ConditionCheck": {"TableName": name, "Key": keyed(key), **condition}}


def delete(name: str, key: table.Key, condition: expressions.Expression | None = None) -> Action:
    return {"Delete": {"TableName": name, "Key": keyed(key), **(condition or {})}}

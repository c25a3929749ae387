"""Turn changes of jobs into the actions of one transaction (`layout.changed_items`)."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from slotq_core.adapters.dynamodb.layout import expressions, ledger_expressions, table
from slotq_core.adapters.dynamodb.layout.changed_items import (
    ChangedItems,
    ChangedNode,
    changed_items,
    changed_node,
    node_attributes,
    request_item,
    use_item,
)
from slotq_core.adapters.dynamodb.layout.items import (
    items_of,
    keyed,
    warm_mark,
    write_group,
    write_in_parts,
    write_node,
)
from slotq_core.adapters.dynamodb.layout.records import Item, write
from slotq_core.model.groups import StoredGroup
from slotq_core.model.jobs import TERMINAL_STATES, Job
from slotq_core.ports.stored import Change, NewJob, NodeChange, Part, WarmChange
from slotq_core.storage.ends import HISTORY
from slotq_core.storage.holdings import NodeName, NodeUse, PoolChange, node_uses, pool_changes
from slotq_core.storage.warm_changes import records_of, warm_changes
from slotq_core.storage.yields import yields_in

Action = dict[str, dict[str, Any]]

NOBODY: Mapping[NodeName, frozenset[str]] = MappingProxyType({})

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
    items[table.request_key(job.name)] = request_item(job, request)
    first = put(name, key, items.pop(key), expressions.is_new_job())
    ended = sorted(TERMINAL_STATES)
    awaited = [
        check(name, table.job_key(other), expressions.is_awaited(ended))
        for other in dict.fromkeys((*job.awaited_jobs, *watched))
    ]
    return [first, *(put(name, key, item) for key, item in items.items()), *awaited]


def batch_actions(
    name: str, new: Sequence[tuple[Job, bytes, Sequence[str]]], group: StoredGroup | None = None
) -> list[Action]:
    """Return the actions of several submissions at once, and of the record of their group. `new`:
    each job with its packed request and the members that it watches. An item is examined once, and
    not at all where the same transaction writes it."""
    own = {table.job_key(job.name) for job, _, _ in new}
    actions: dict[table.Key, Action] = {}
    for job, packed, watched in new:
        for action in submit_actions(name, job, packed, watched):
            key = key_in(action)
            if "ConditionCheck" not in action or key not in own:
                actions[key] = action
    record = group_actions(name, group, is_open=False) if group else []
    return [*actions.values(), *record]


def callback_actions(name: str, new: Sequence[NewJob]) -> list[Action]:
    """Return the actions that keep who waits for the ends of new jobs. Without a condition: the
    name was free, so what is kept under it is of a job whose records have gone."""
    if all(each.callback is None for each in new):
        return []
    from slotq_core.storage.callbacks import kept

    found = [kept(each.job, each.callback) for each in new if each.callback is not None]
    return [put(name, table.callback_key(callback), write(callback)) for callback in found]


def group_actions(name: str, stored: StoredGroup, *, is_open: bool) -> list[Action]:
    """Return the actions that keep a group's record. `is_open`: its submission is open, and ends by
    this; else no submission of that name may be open."""
    key, opening = (of(stored.group.name) for of in (table.group_key, table.opening_key))
    record = put(name, key, write_group(stored), expressions.is_new())
    if is_open:
        return [record, delete(name, opening, expressions.is_open(stored.digest))]
    return [record, check(name, opening, expressions.is_new())]


def fitting(
    changes: Sequence[Change],
    seen: Mapping[str, int] | None,
    part: Part | None,
    most_actions: int,
    *,
    nodes: Sequence[NodeChange] = (),
    warm: Sequence[WarmChange] = (),
) -> int:
    """Return how many of these changes, from the first on, take at most `most_actions` with those
    of the nodes; at least one.

    `part`: the part that they would be, even if they were all of it.
    """
    if len(changes) == 1:
        return 1
    pools, count = {*(seen or ())}, 1 + (part is not None) + 2 * (len(nodes) + len(warm))
    pools |= {*pool_changes((), None, nodes, warm)}
    used = {*node_uses((), nodes)}
    for number, change in enumerate(changes):
        items = changed_items(change, HISTORY)
        pools |= {*pool_changes([change], None), *items.pools}
        used |= {*node_uses([change])}
        others = (*_yield_actions("", [change]), *_health_actions("", [change]))
        count += items.count + len(others) + len(warm_changes([change], ()))
        if number and count + len(pools) + len(used) > most_actions:
            return number
    return len(changes)


def commit_actions(
    name: str,
    changes: Sequence[Change],
    seen: Mapping[str, int] | None,
    *,
    nodes: Sequence[NodeChange] = (),
    warm: Sequence[WarmChange] = (),
    absent: Mapping[NodeName, frozenset[str]] = NOBODY,
    group_decisions: int | None = None,
    part: Part | None = None,
    history: int = HISTORY,
) -> list[Action]:
    """Return the actions of a commit. `absent`: by node, the jobs that are not there any more, so
    that they leave without a trace."""
    items = [changed_items(change, history) for change in changes]
    slots = warm_changes(changes, warm)
    uses = pool_changes(changes, seen, nodes, slots)
    changed_nodes = [changed_node(change) for change in nodes]
    return [
        *(
            action
            for change, changed in zip(changes, items, strict=True)
            for action in _job_actions(name, change.before.version, changed)
        ),
        *_yield_actions(name, changes),
        *_health_actions(name, changes),
        *_node_actions(name, node_uses(changes, nodes), absent),
        *(put(name, key, item) for node in changed_nodes for key, item in node.written.items()),
        *(delete(name, key) for node in changed_nodes for key in node.deleted),
        *_warm_actions(name, slots, history),
        *_ledger_actions(name, uses, items, changed_nodes, slots),
        *_group_actions(name, group_decisions, part),
    ]


def _job_actions(name: str, version: int, items: ChangedItems) -> Iterator[Action]:
    """Yield the actions on a job's items, on the condition that the job has this version."""
    yield put(name, items.key, items.main, expressions.job_unchanged(version))
    for key in items.deleted:
        yield delete(name, key)
    for key, item in items.written.items():
        yield put(name, key, item)


def _node_actions(
    name: str, uses: Mapping[NodeName, NodeUse], absent: Mapping[NodeName, frozenset[str]]
) -> Iterator[Action]:
    """Yield the changes of the items of nodes: of their room, and of the nodes themselves."""
    for (pool, node), whole in sorted(uses.items(), key=itemgetter(0)):
        key, change = table.node_key(pool, node), whole.change
        gone = [job for job in whole.left if job.job in absent.get((pool, node), ())]
        use = replace(whole, left=tuple(job for job in whole.left if job not in gone))
        if change is not None and change.starts:
            yield put(name, key, write_node(change.committed or change.node), expressions.is_new())
        elif change is not None and change.ends:
            yield delete(name, key, ledger_expressions.end_node(use))
        elif change is not None or use.came or use.left:
            written, removed = node_attributes(change) if change is not None else ({}, [])
            yield update(name, key, ledger_expressions.use_node(use, written, removed))
        else:
            yield check(name, key, ledger_expressions.not_on_node(use.generation, gone))


def _warm_actions(name: str, warm: Sequence[WarmChange], history: int) -> Iterator[Action]:
    """Yield the changes of the items of warm slots, and the records of their time."""
    for change in warm:
        key, after = table.warm_key(change.slot.pool, change.slot.training_job), change.committed
        unchanged = (
            expressions.job_unchanged(change.before.version)
            if change.before
            else expressions.is_new()
        )
        yield put(name, key, write(after), unchanged) if after else delete(name, key, unchanged)
    for record in records_of(warm, history):
        yield put(name, (table.ended_partition(record.day), record.position), use_item(record))


def _ledger_actions(
    name: str,
    uses: Mapping[str, PoolChange],
    items: Sequence[ChangedItems],
    nodes: Sequence[ChangedNode],
    warm: Sequence[WarmChange],
) -> Iterator[Action]:
    """Yield the changes of the ledgers of the pools whose use or whose partitions change: a job's
    copy there changes with each change of the job."""
    marks: Counter[str] = Counter()
    on_nodes: Counter[str] = Counter()
    for changed in items:
        marks.update(changed.marks)
        on_nodes.update(changed.on_nodes)
    for node in nodes:
        if node.mark:
            marks[node.pool] += node.mark
    for slot in warm:
        before, after = slot.before, slot.committed
        marks[slot.slot.pool] += (warm_mark(after) if after else 0) - (
            warm_mark(before) if before else 0
        )
    noted = {*marks, *on_nodes}
    written = [*(changed.job for changed in items), *((n.starts, n.deleted) for n in nodes)]
    slots = [(slot.slot.training_job, slot.slot.version) for slot in warm]
    activity = activity_of([*written, *slots]) if noted else ""
    for pool in sorted({*uses, *noted}):
        use = uses.get(pool, PoolChange())
        expression = ledger_expressions.change_use(
            gained=use.gained,
            admitted=use.admitted,
            seen=use.seen,
            decides=use.raises_version,
            holders=marks[pool],
            on_nodes=on_nodes[pool],
            activity=activity if pool in noted else "",
        )
        yield update(name, table.ledger_key(pool), expression)


def _group_actions(name: str, seen: int | None, part: Part | None) -> Iterator[Action]:
    """Yield the actions that order decisions about groups, and that store a decision in parts."""
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


def _yield_actions(name: str, changes: Sequence[Change]) -> Iterator[Action]:
    """Yield the actions that store yields to a time slice, one for each project, user, rank and
    pool.

    They have no condition: the decision's own, on the pool's ledger, orders such transactions.
    """
    kept = {table.yield_key(pool, this): this for pool, this in yields_in(changes)}
    for key, this in kept.items():
        yield put(name, key, write(this))


def _health_actions(name: str, changes: Sequence[Change]) -> Iterator[Action]:
    """Yield the actions that store the health of pools; the change of the job's copy there changes
    the pool's ledger."""
    for change in changes:
        attempt = change.after.attempt
        if change.health is not None and attempt is not None:
            yield put(name, table.health_key(attempt.pool), write(change.health))


def activity_of(written: object) -> str:
    """Return a short hash of a transaction's contents. A job's version only rises, so no two
    transactions have the same hash, even after a restored backup."""
    return hashlib.sha256(json.dumps(written, sort_keys=True, default=str).encode()).hexdigest()[
        :16
    ]


def key_in(action: Mapping[str, Any]) -> table.Key:
    """Return the key of the action's item."""
    (contents,) = action.values()
    key = contents.get("Item") or contents["Key"]
    return key["pk"]["S"], key["sk"]["S"]


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

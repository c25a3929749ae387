"""Pools and their changes as tables for people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from slotq.document.document_text import entries, entry_name
from slotq.jobs.notices import one_line
from slotq.output.job_tables import columns, moment
from slotq_core.model.pools import CapacityKind, PoolState
from slotq_core.model.reasons import units
from slotq_core.timestamps import from_iso, zoned
from slotq_core.wire.pool_definition import contents_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slotq_core.wire.document.views import EntryChangeView
    from slotq_core.wire.record import ChangeView, LimitsChangeView, PoolChangeView
    from slotq_core.wire.views.pools import (
        FailedNodesView,
        HoursView,
        MissingRightView,
        PlanView,
        PoolSettingsView,
        PoolView,
        ReservationsView,
    )

STATE_STYLES = {PoolState.ACTIVE: "green", PoolState.PAUSED: "yellow", PoolState.DRAINED: "red"}


def pools_table(pools: Iterable[PoolView]) -> RenderableType:
    """The pools in slots, one line each, with their health at SageMaker, and how long scripts are
    asked to release their slots, if any pool asks."""
    shown = [*pools]
    asks = (">SUSPEND GRACE",) if any(pool.settings.suspend_grace for pool in shown) else ()
    warm = (">WARM",) if any(pool.warm for pool in shown) else ()
    starts = (">START",) if any(pool.health.start_seconds for pool in shown) else ()
    counts = (">SLOTS", ">USABLE", ">USED", ">FOREIGN")
    table = columns(
        "POOL", "INSTANCE TYPE", "STATE", *counts, *warm, *starts, *asks, "HEALTH",
        leaves=("SUSPEND GRACE", "START", "FOREIGN", "USABLE", "INSTANCE TYPE"),
    )  # fmt: skip
    for pool in shown:
        table.add_row(
            pool.name,
            instances(pool),
            Text(pool_state(pool), style=STATE_STYLES.get(PoolState(pool.settings.state), "")),
            str(pool.capacity["slots"]),
            str(pool.size["slots"]),
            str(pool.used["slots"]),
            str(pool.foreign["slots"]),
            *((warm_slots(pool),) if warm else ()),
            *((_start(pool),) if starts else ()),
            *((_grace(pool.settings.suspend_grace),) if asks else ()),
            health(pool),
        )
    return table if table.row_count else Text("no pools")


def instances(pool: PoolView) -> str:
    """The type of the pool's instances, and how they are bought if not on demand."""
    on_demand = pool.settings.capacity_kind == CapacityKind.ON_DEMAND
    return (
        pool.instance_type if on_demand else f"{pool.instance_type} ({pool.settings.capacity_kind})"
    )


def warm_slots(pool: PoolView) -> str:
    """How many slots are warm, and what becomes of those that no job may start on: `2, 1
    releasing`."""
    counts = Counter[str]()
    for slot in pool.warm:
        counts[slot.state] += slot.slots
    idle = str(counts.pop("idle", 0))
    return ", ".join((idle, *(f"{count} {state}" for state, count in sorted(counts.items()))))


def _start(pool: PoolView) -> str:
    """How long a start takes in the pool, if that is known."""
    took = pool.health.start_seconds
    return "" if took is None else f"{took:.0f} s"


def start_times(pool: PoolView) -> str:
    """How long the last starts took, and until when."""
    health = pool.health
    if health.start_seconds is None or health.slow_start_seconds is None:
        return "not known yet"
    of = f"the last {len(health.starts)}" if len(health.starts) > 1 else "the only one"
    at = f", at {moment(health.started_at)}" if health.started_at else ""
    return (
        f"{health.start_seconds:.0f} s on average, {health.slow_start_seconds:.0f} s at most for "
        f"95 % ({of}{at})"
    )


def _grace(seconds: int) -> str:
    return f"{seconds} s" if seconds else "none"


def pool_state(pool: PoolView) -> str:
    """The pool's state; `draining` while jobs still run in a drained pool."""
    draining = pool.settings.state == PoolState.DRAINED and pool.used["slots"]
    return "draining" if draining else pool.settings.state


def pool_page(pool: PoolView) -> RenderableType:
    """Everything known about one pool: its usage and each of its settings."""
    facts = Table.grid(padding=(0, 2))
    for name, value in (
        ("pool", pool.name),
        ("state", pool_state(pool)),
        ("used", _of(pool.used, pool.size)),
        ("foreign", _amounts(pool.foreign) if pool.settings.count_foreign else "not counted"),
        *((("warm", warm_slots(pool)),) if pool.warm else ()),
        *((("training plan", plan(pool.health.plan)),) if pool.health.plan else ()),
        ("health", health(pool)),
        ("a start takes", start_times(pool)),
        ("each slot has", _amounts({**contents_of(pool.instance_type)}) or "unknown"),
        *((key, setting(value)) for key, value in pool.settings.model_dump().items()),
    ):
        facts.add_row(Text(name, style="bold"), value)
    return facts


def health(pool: PoolView) -> str:
    """`ok`, or what keeps the pool from full use, and until when."""
    said, health = [], pool.health
    drained = pool.settings.state == PoolState.DRAINED
    if pool.hours is not None and not drained:
        said.append(hours(pool.hours, pool.capacity["slots"]))
    if pool.reserved and not drained:
        said.append(f"reserved: {', '.join(reserved(pool))}")
    offered = pool.hours.slots if pool.hours else pool.capacity["slots"]
    unhealthy = min(offered, health.plan.unhealthy) if health.plan else 0
    if unhealthy:
        are = "is" if unhealthy == 1 else "are"
        said.append(f"{units(unhealthy, 'instances')} of its training plan {are} unhealthy")
    if not drained and pool.size["slots"] + pool.foreign["slots"] + unhealthy < offered:
        until = f" until {moment(health.learned_until)}" if health.learned_until else ""
        said.append(f"the account allows {health.learned}{until}")
    if health.errors:
        times = "1 capacity error" if health.errors == 1 else f"{health.errors} capacity errors"
        until = f", next try at {moment(health.not_before)}" if health.not_before else ""
        said.append(times + until + (f": {one_line(health.message)}" if health.message else ""))
    elif said and health.message:
        said.append(one_line(health.message))
    said += [_missing(right) for right in health.missing_rights]
    said += [_failed(nodes) for nodes in health.failed_nodes]
    return "; ".join(said) or "ok"


def reservations_table(view: ReservationsView) -> RenderableType:
    """The reservations, one line each, in the time of their zones."""
    table = columns("POOL", "PROJECT", ">SLOTS", "FROM", "TO", "STATE", leaves=("STATE",))
    for found in view.reservations:
        begins, ends = (zoned(from_iso(at), found.zone) for at in (found.begins, found.ends))
        state = "in force" if found.in_force else "to come"
        table.add_row(found.pool, found.project, str(found.slots), begins, ends, state)
    return table if table.row_count else Text("no reservations")


def reserved(pool: PoolView) -> list[str]:
    """What is reserved now, and what comes next: `2 slots for team-a until 08:00 UTC, 2 Dec`."""
    in_force = [found for found in pool.reserved if found.in_force]
    to_come = [found for found in pool.reserved if not found.in_force][:1]
    return [
        f"{units(found.slots, 'slots')} for {found.project} {word} {found.moment}"
        for word, every in (("until", in_force), ("from", to_come))
        for found in every
    ]


def hours(now: HoursView, slots: int) -> str:
    """What a pool's hours say: `open until 08:00 Europe/Berlin, 28 Nov`. `slots`: all of them."""
    if now.why:
        return now.why
    if not now.slots:
        return f"opens at {now.moment}" if now.moment else "closed"
    offers = "open" if now.slots >= slots else f"offers {units(now.slots, 'slots')}"
    if now.then is None:
        return offers
    after = "" if now.then == 0 else f", then {units(now.then, 'slots')}"
    return f"{offers} until {now.moment}{after}"


def plan(shown: PlanView) -> str:
    """The status of a training plan, and its windows: `june is active, 3 of 4 instances in use;
    2026-12-03 08:00 to 2026-12-10 08:00: 4 instances`."""
    name, used = shown.arn.rpartition("/")[2], f"{shown.in_use} of {shown.total} instances"
    state = shown.status.replace("_", " ")
    windows = [
        f"{moment(window.begins)} to {moment(window.ends)}: {units(window.slots, 'instances')}"
        for window in shown.windows
    ]
    return "; ".join((f"{name} is {state}, {used} in use", *windows))


def _missing(right: MissingRightView) -> str:
    """The text `the queue lacks iam:PassRole for role …, tried again at …: …`."""
    role = f" for role {right.role}" if right.role else ""
    until = moment(right.not_before)
    said = f"the queue lacks {right.action}{role}, next try at {until}"
    return f"{said}: {one_line(right.message)}"


def _failed(nodes: FailedNodesView) -> str:
    """The text `no node with image … got ready, next try at …: …`."""
    of = f"with image {nodes.image}" if nodes.image else f"of tenant {nodes.tenant}"
    said = f"no node {of} got ready, next try at {moment(nodes.not_before)}"
    return f"{said}: {one_line(nodes.message)}" if nodes.message else said


def changes_table(changes: Iterable[ChangeView]) -> RenderableType:
    """The changes in the order given, one line for each pool and each other entry."""
    heads = (">REVISION", "AT (UTC)", "WHO", "POOL", "CHANGED")
    table = columns(*heads, leaves=("AT (UTC)", "WHO"))
    for change in changes:
        for entry, what in _changed_in(change):
            table.add_row(str(change.revision), moment(change.at), who(change.who), entry, what)
    return table if table.row_count else Text("there are no changes")


def _changed_in(change: ChangeView) -> Iterator[tuple[str, str]]:
    """The entries that changed, and how."""
    for pool in change.pools:
        yield pool.name, changed(pool)
    if change.limits is not None:
        yield "limits", limits_changed(change.limits)
    for entry in change.entries:
        yield entry_name(entry), entry_changed(entry)
    if change.entries_left_out:
        yield "", f"and {entries(change.entries_left_out)} more (--limit 1 shows more)"
    if not (change.pools or change.limits or change.entries or change.entries_left_out):
        yield "", "order: " + ", ".join(change.order)


def _size(settings: PoolSettingsView) -> str:
    return f"{units(settings.slots, 'slots')} of {settings.instance_type}"


def changed(pool: PoolChangeView) -> str:
    """The difference, as in `slots 2 → 4, state active → paused`."""
    if pool.after is None:
        return f"removed; it had {_size(pool.before)}" if pool.before else ""
    if pool.before is None:
        return f"new: {_size(pool.after)}"
    before, after = _settings(pool.before), _settings(pool.after)
    return ", ".join(
        f"{key} {setting(before[key])} → {setting(after[key])}"
        for key in after
        if before[key] != after[key]
    )


def entry_changed(entry: EntryChangeView) -> str:
    """The difference, as in `quota 4 → 6, weight none → 2`."""
    before, after = entry.before, entry.after
    if isinstance(before, dict) and isinstance(after, dict):
        return ", ".join(
            f"{key} {_short(before.get(key))} → {_short(after.get(key))}"
            for key in {**before, **after}
            if before.get(key) != after.get(key)
        )
    if entry.name:
        return "removed" if after is None else f"new: {_short(after)}"
    return f"{_short(before)} → {_short(after)}"


_SHOWN = 120
"""The most characters of a value in the table; `--json` has all."""


def _short(value: object) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def limits_changed(change: LimitsChangeView) -> str:
    """The difference, as in `waiting 1000 → 500`."""
    before, after = change.before.model_dump(), change.after.model_dump()
    return ", ".join(
        f"{key} {_limit(before[key])} → {_limit(after[key])}"
        for key in after
        if before[key] != after[key]
    )


def _limit(value: int | list[object]) -> str:
    return units(len(value), "rules") if isinstance(value, list) else str(value or "none")


def who(arn: str) -> str:
    """The last field of an ARN, such as `assumed-role/Operator/ada`; other text unchanged."""
    return arn.split(":", 5)[5] if arn.startswith("arn:") and arn.count(":") >= 5 else arn


def setting(value: object) -> str:
    """The value of a setting in a form for people."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case dict() if all(isinstance(amount, int) for amount in value.values()):
            return _amounts(value) or "none"
        case dict():
            return ", ".join(f"{key} {setting(own)}" for key, own in value.items() if own) or "none"
        case list() if any(isinstance(own, dict) for own in value):
            return "; ".join(map(setting, value))
        case list():
            return " ".join(map(str, value)) or "none"
    return str(value)


def _settings(view: PoolSettingsView | None) -> dict[str, object]:
    return view.model_dump() if view else {}


def _amounts(amounts: dict[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in amounts.items())


def _of(used: dict[str, int], size: dict[str, int]) -> str:
    return ", ".join(f"{used.get(name, 0)} of {size[name]} {name}" for name in size)

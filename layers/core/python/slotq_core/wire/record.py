"""Model to JSON: the record of the configuration's changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field

from slotq_core.model.callers import Limits
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import Sharing
from slotq_core.timestamps import iso
from slotq_core.wire import VERSION
from slotq_core.wire.base import BaseModel
from slotq_core.wire.configuration import LimitSettingsView, limit_settings_view
from slotq_core.wire.document.differences import sharing_differences
from slotq_core.wire.document.views import EntryChangeView, entry_change_view
from slotq_core.wire.pool_definition import settings_of
from slotq_core.wire.views.pools import PoolSettingsView

MOST_ENTRY_CHARACTERS = 2_000_000
"""Characters of entries in one answer. Lambda answers with at most 6 MB."""


class LimitsChangeView(BaseModel):
    before: LimitSettingsView
    after: LimitSettingsView


class PoolChangeView(BaseModel):
    """The change of one pool."""

    name: str
    before: PoolSettingsView | None
    """None: the pool is new."""
    after: PoolSettingsView | None
    """None: it was removed."""


class ChangeView(BaseModel):
    """One change of the configuration."""

    revision: int
    who: str
    """The signer of the request; SLOTQ_POOLS if the pools came from the template."""
    at: str
    pools: list[PoolChangeView]
    """The pools that differ."""
    order: list[str]
    """All pools after the change, in order."""
    limits: LimitsChangeView | None = None
    """None: the limits stayed."""
    entries: list[EntryChangeView] = Field(default=[])
    """The departments, projects, operators and switches that differ."""
    entries_left_out: int = 0
    """How many more differ: the size of an answer is bounded. Ask for fewer changes."""


class ChangesView(BaseModel):
    version: int = VERSION
    changes: list[ChangeView]
    """The latest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """One recorded change. Pairs are before and after."""

    revision: int
    who: str
    at: int
    pools: tuple[tuple[Pool, ...], tuple[Pool, ...]]
    limits: tuple[Limits, Limits]
    sharing: tuple[Sharing, Sharing] | None
    """None: unchanged."""


def changes_view(changes: Iterable[Recorded]) -> ChangesView:
    """The view of changes, the latest first. Its size is bounded."""
    room = MOST_ENTRY_CHARACTERS
    views = []
    for change in changes:
        view, used = _change_view(change, room)
        room -= used
        views.append(view)
    return ChangesView(changes=views)


def _change_view(change: Recorded, room: int) -> tuple[ChangeView, int]:
    """The view of one change, and the characters of its entries: at most `room`."""
    old, new = ({pool.name: pool for pool in pools} for pools in change.pools)
    both = ((name, _settings(old.get(name)), _settings(new.get(name))) for name in {**old, **new})
    pools = [
        PoolChangeView(name=name, before=one, after=other)
        for name, one, other in both
        if one != other
    ]
    before, after = map(limit_settings_view, change.limits)
    entries, left_out, used = _entries(change.sharing, room)
    view = ChangeView(
        revision=change.revision,
        who=change.who,
        at=iso(change.at),
        pools=pools,
        order=[*new],
        limits=None if before == after else LimitsChangeView(before=before, after=after),
        entries=entries,
        entries_left_out=left_out,
    )
    return view, used


def _entries(
    sharing: tuple[Sharing, Sharing] | None, room: int
) -> tuple[list[EntryChangeView], int, int]:
    """The entries that fit, the number of the others, and the characters used."""
    entries, left_out, used = [], 0, 0
    for difference in sharing_differences(*sharing) if sharing else ():
        view = entry_change_view(difference)
        size = len(view.model_dump_json())
        if used + size > room:
            left_out += 1
        else:
            entries.append(view)
            used += size
    return entries, left_out, used


def _settings(pool: Pool | None) -> PoolSettingsView | None:
    return PoolSettingsView(**settings_of(pool)) if pool else None

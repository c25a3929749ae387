"""The settings' pools become the store's: at first, and as long as nobody has changed them there.

SLOTQ_POOLS is the initial value. Once somebody has changed the pools (`slotq pools`), the store is
what counts: an update of the stack must not undo that. A setting that then changes is refused, and
says so; one that stays as it was says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from slotq_core.adapters.snapshots import as_configured
from slotq_core.errors import Conflict, Misconfigured, PoolInUse
from slotq_core.model.pools import Pool
from slotq_core.moments import iso
from slotq_core.ports import ConfigurationChange, Store

WHO = "SLOTQ_POOLS"
"""Who changed the pools, in the record of changes."""


def take_in(store: Store, wanted: Sequence[Pool], *, now: int) -> str:
    """Make these the store's pools if the setting still decides. Returns why it was refused, else
    "".

    A change that the store refuses must not stop the queue: it goes on with the pools that it has.
    Raises Misconfigured where it has none.
    """
    pools, present = as_configured(wanted), store.configuration()
    if pools == present.pools:
        return ""
    last = next(iter(store.changes(limit=1)), None)
    if last and last.who != WHO:
        return _overruled(store, pools, last)
    try:
        store.configure(pools, who=WHO, now=now, seen=present.revision)
    except (Misconfigured, PoolInUse) as error:
        if not present.pools:
            raise
        return str(error)
    except Conflict:  # Another did it at this moment, or an operator was quicker.
        return ""
    return ""


def _overruled(store: Store, pools: tuple[Pool, ...], last: ConfigurationChange) -> str:
    taken = next(iter(store.changes(limit=1, who=WHO)), None)
    if taken and taken.after == pools:
        return ""
    return (
        f"{WHO} has changed, but {last.who} has changed the pools in the queue itself "
        f"({iso(last.at)}), and these count: make the change with `slotq pools`, and put the "
        "setting back to what it was or to what the queue has"
    )

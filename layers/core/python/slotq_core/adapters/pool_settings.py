"""The settings' pools become the store's."""

from __future__ import annotations

from collections.abc import Sequence

from slotq_core.errors import Misconfigured
from slotq_core.model import Pool
from slotq_core.ports import Store

WHO = "SLOTQ_POOLS"
"""Who changed the pools, in the record of changes."""


def take_in(store: Store, wanted: Sequence[Pool], *, now: int) -> str:
    """Make these the store's pools if they are not. Returns why that was refused, else "".

    A change that the store refuses must not stop the queue: it goes on with the pools that it has.
    Raises Misconfigured where it has none.
    """
    present = store.pools()
    if tuple(wanted) == present:
        return ""
    try:
        store.configure(wanted, who=WHO, now=now)
    except Misconfigured as error:
        if not present:
            raise
        return str(error)
    return ""

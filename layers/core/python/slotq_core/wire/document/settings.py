"""The whole configuration, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from slotq_core.model.caller_limits import Limits
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import Sharing


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The settings of a queue, all of them in a document."""

    pools: tuple[Pool, ...]
    """As declared, without counted contents."""
    limits: Limits
    sharing: Sharing

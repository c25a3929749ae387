"""The stored part of a new configuration, by one rule for every store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slotq_core.admission.instances.instance_contents import counting, declared
from slotq_core.model.callers import Limits
from slotq_core.model.demand import Demand
from slotq_core.model.pools import HEALTHY, Pool
from slotq_core.model.sharing import Sharing
from slotq_core.ports.stored import Configuration


def configured(
    before: Configuration,
    *,
    pools: Iterable[Pool] | None,
    limits: Limits | None,
    sharing: Sharing | None,
) -> Configuration:
    """Return the configuration after a change; None: unchanged. If a quota names a resource of the
    instances, the pools count it."""
    kept = before.sharing if sharing is None else sharing
    wanted = before.pools if pools is None else as_configured(pools)
    return replace(
        before,
        pools=counting(wanted, kept, before=before.pools),
        limits=before.limits if limits is None else limits,
        sharing=kept,
    )


def as_configured(pools: Iterable[Pool]) -> tuple[Pool, ...]:
    """Return the pools as an operator has given them: without learned facts, which are stored apart
    and survive a change, and without counted contents."""
    return tuple(replace(declared(pool), health=HEALTHY, foreign=Demand()) for pool in pools)

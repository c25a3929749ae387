"""What a pass sees of broken items, and how it quarantines them."""

from __future__ import annotations

from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.ports.stored import Poison, World
from tests.contract.by_hand import text
from tests.contract.worlds import (
    NOW,
    all_waiting,
)

FROM_A_NEWER_RELEASE = text("suspended")
"""A state unknown to this version."""


def poisons(store: DynamoStore) -> list[Poison]:
    """The items that a pass skips. An explanation skips the same ones."""
    found = list(store.worlds.load(NOW).poison)
    assert list(store.worlds.load_all(NOW).poison) == found
    return found


def quarantine(store: DynamoStore) -> World:
    """Quarantine them as a pass does, and return the snapshot after that."""
    for poison in poisons(store):
        store.repair.quarantine(poison)
    assert poisons(store) == []
    return store.worlds.load(NOW)


def waiting(world: World) -> list[str]:
    """All that a plan could learn of."""
    return [job.name for job in all_waiting(world)]


def free(world: World, pool: str = "p5") -> int:
    """The free slots as a plan counts them."""
    seen = next(each for each in world.snapshot.pools if each.name == pool)
    used = sum(job.demand.slots for job in world.snapshot.active)
    return seen.size(NOW).slots - used

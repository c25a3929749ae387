"""Broken variants of what keeps the promises where warm instances are released for a start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from slotq_core.adapters.dynamodb import transactions
from slotq_core.model.demand import NOTHING
from slotq_core.operations.attempts.warm_slots import Followed, WarmSlots
from slotq_core.policy.state.warm_room import WarmRoom
from slotq_core.policy.turn import warm_starts
from slotq_core.ports.training import Warmth
from tests.faults.crashes import BEFORE, SILENT
from tests.faults.mutants import Mutant, crash, race, undisturbed
from tests.faults.promises import CONVERGENT, RECORDED
from tests.faults.scenarios import no_create_is_refused
from tests.faults.stories import ANOTHER_ROLE


def _a_release_frees_at_once() -> AbstractContextManager[Any]:
    """Instances that are being released count as free."""
    right = WarmRoom.__init__

    def wrong(self: WarmRoom, *args: Any) -> None:
        right(self, *args)
        self.held, self.coming, self.released_for = NOTHING, NOTHING, {}

    return patch.object(WarmRoom, "__init__", wrong)


def _any_start_matches() -> AbstractContextManager[Any]:
    """A start takes warm instances whatever it needs."""
    return patch.object(warm_starts, "fits", lambda _, slot: slot.idle)


def _nobody_repeats_a_release() -> AbstractContextManager[Any]:
    """A release whose handler died before the call is left."""
    right = WarmSlots.release

    def wrong(self: WarmSlots, slots: Any, *, until: int) -> Followed:
        fresh = [slot for slot in slots if slot.released_at == self._clock.now()]
        return right(self, fresh, until=until)

    return patch.object(WarmSlots, "release", wrong)


def _nobody_looks() -> AbstractContextManager[Any]:
    return patch.object(WarmSlots, "look", lambda *_, **__: Followed())


def _available_is_gone() -> AbstractContextManager[Any]:
    """A look takes instances for gone that are only being released."""
    right = WarmSlots._change

    def wrong(self: WarmSlots, slot: Any, seen: Any, *, counted: bool) -> Any:
        if seen is not None and slot.sent and seen.warmth is Warmth.AVAILABLE:
            seen = None
        return right(self, slot, seen, counted=counted)

    return patch.object(WarmSlots, "_change", wrong)


def _any_warm_item() -> AbstractContextManager[Any]:
    """The store changes warm slots whatever has become of them since they were read."""
    right = transactions._warm_actions

    def wrong(*args: Any) -> Iterator[transactions.Action]:
        for action in right(*args):
            yield {
                verb: {key: value for key, value in what.items() if key not in CONDITION}
                for verb, what in action.items()
            }

    return patch.object(transactions, "_warm_actions", wrong)


CONDITION = ("ConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues")
ONCE = undisturbed(ANOTHER_ROLE, no_create_is_refused)

MUTANTS: tuple[Mutant, ...] = (
    Mutant("a release frees at once", _a_release_frees_at_once, ONCE),
    Mutant("any start matches", _any_start_matches, ONCE),
    Mutant("instances that are being released are taken for gone", _available_is_gone, ONCE),
    Mutant(
        "nobody repeats a release",
        _nobody_repeats_a_release,
        crash(ANOTHER_ROLE, SILENT, kind=BEFORE),
        CONVERGENT,
    ),
    Mutant("nobody looks at warm instances", _nobody_looks, ONCE, CONVERGENT),
    Mutant(
        "warm slots change whatever became of them",
        _any_warm_item,
        race("two_ticks_find_a_release_over"),
        RECORDED,
    ),
    Mutant(
        "a release frees at once beside a like start",
        _a_release_frees_at_once,
        race("two_passes_release_for_a_start_beside_a_like_one"),
        CONVERGENT,
    ),
)

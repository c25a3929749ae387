"""Each broken rule for pools with hours is seen, and the right ones break nothing."""

from __future__ import annotations

import pytest

from slotq_core.wire.capacity import opening_hours
from tests.faults.hours_mutants import MUTANTS
from tests.faults.mutants import Mutant, caught


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_caught(mutant: Mutant) -> None:
    try:
        assert caught(mutant)
    finally:
        opening_hours._of_day.cache_clear()
    assert all(not played.watch.broken for played in mutant.hunt())

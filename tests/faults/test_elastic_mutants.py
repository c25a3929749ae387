"""Each broken rule for elastic gangs is seen, and the right ones break nothing."""

from __future__ import annotations

import pytest

from tests.faults.elastic_mutants import MUTANTS
from tests.faults.mutants import Mutant, caught


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_caught(mutant: Mutant) -> None:
    assert caught(mutant)
    assert all(not played.watch.broken for played in mutant.hunt())

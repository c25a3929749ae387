"""The refusals: each is stated once, and what shows them agrees."""

import pytest

import slotq.errors
from slotq_core import errors

REFUSALS = list(errors.REFUSALS.values())


def test_codes_are_not_shared():
    assert len(REFUSALS) == len({kind.code for kind in REFUSALS}) == 18


@pytest.mark.parametrize("kind", REFUSALS)
def test_the_client_offers_each_refusal(kind):
    assert getattr(slotq.errors, kind.__name__) is kind
    assert kind.__name__ in slotq.errors.__all__


@pytest.mark.parametrize("kind", [each for each in REFUSALS if each.__base__ is errors.Refused])
def test_the_tree_in_the_documentation_tells_each_status(kind):
    line = next(row for row in errors.__doc__.splitlines() if f"── {kind.__name__} " in row)
    assert line.rstrip().endswith(f"{kind.status})")

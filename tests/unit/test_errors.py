"""The refusals: each is stated once, and what shows them agrees."""

import pytest

import slotq.errors
from slotq_core import errors

REFUSALS = list(errors.REFUSALS.values())


def test_no_two_refusals_share_a_code():
    kinds = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.Refused)
    ]
    assert len({kind.code for kind in kinds}) == len(kinds) == len(REFUSALS) + 1


@pytest.mark.parametrize("kind", REFUSALS)
def test_the_client_offers_each_refusal(kind):
    assert getattr(slotq.errors, kind.__name__) is kind
    assert kind.__name__ in slotq.errors.__all__


@pytest.mark.parametrize("kind", [each for each in REFUSALS if each.__base__ is errors.Refused])
def test_the_tree_in_the_documentation_tells_each_status(kind):
    line = next(row for row in errors.__doc__.splitlines() if f"── {kind.__name__} " in row)
    assert line.rstrip().endswith(f"{kind.status})")

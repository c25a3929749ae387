"""SageMaker's texts are shown without secrets, whether whole, cut or side by side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq_core.privacy.redaction import LONGEST_TEXT, MARK, without_secrets

LONG = "".join(f"{n:03}" for n in range(100))
"""300 characters in which no four repeat."""


def shown(text: str, *values: str) -> str:
    return without_secrets(text, {"HyperParameters": dict(enumerate(values))})


@pytest.mark.parametrize(
    ("text", "values", "told"),
    [
        ("the password is hunter2!", ["hunter2"], f"the password is {MARK}!"),
        ("a short abc is no secret", ["abc"], "a short abc is no secret"),
        ("madam adam", ["adam"], f"madam {MARK}"),
        ("adam_1 adam-1", ["adam"], f"adam_1 {MARK}-1"),
        (f"it is {LONG}.", [LONG], f"it is {MARK}."),
        ("two: s3cr3t-a and s3cr3t-a-b", ["s3cr3t-a", "s3cr3t-a-b"], f"two: {MARK} and {MARK}"),
        # The first secret overlaps the second.
        ("<abcd-efgh-ijkl>", ["abcd-efgh", "efgh-ijkl"], f"<{MARK}>"),
        (f"<{LONG}-efgh>", [LONG, f"{LONG[-8:]}-efgh"], f"<{MARK}>"),
        # The text was cut within a secret.
        ("it ends with hunt", ["hunter2"], f"it ends with {MARK}"),
        ("it ends with hun", ["hunter2"], "it ends with hun"),
        (f"it ends with {LONG[:299]}", [LONG], f"it ends with {MARK}"),
        (f"it ends with {LONG[:70]}", [LONG], f"it ends with {MARK}"),
        # The secret was cut, and the text continues.
        (f"it is {LONG[:80]}… and more", [LONG], f"it is {MARK}… and more"),
        (f"it is {LONG[:80]}… and more", [LONG, LONG[:75] + "z"], f"it is {MARK}… and more"),
        # Quotes without an end.
        ("1 error: Value '{a=b, c=", [], f"1 error: Value '{MARK}'"),
        ("Invalid type for X, value: ['a'", [], f"Invalid type for X, value: {MARK}"),
        ('it said Command "python3 a.py --b', [], f'it said Command "{MARK}"'),
    ],
)  # fmt: skip
def test_secrets_are_removed_from_a_text(text: str, values: list[str], told: str):
    assert shown(text, *values) == told


@pytest.mark.parametrize("before", range(-10, 1))
def test_a_secret_at_the_cut_is_removed(before: int):
    """No part of it is shown, wherever the cut is."""
    begins = LONGEST_TEXT + before
    text = "." * begins + "hunter2-correct-horse" + "." * 100
    told = shown(text, "hunter2-correct-horse")
    assert len(told) <= LONGEST_TEXT
    assert "hunt" not in told


def test_a_secret_longer_than_the_searched_text_is_removed():
    assert shown("the value is " + "k-" * LONGEST_TEXT, "k-" * LONGEST_TEXT) == (
        f"the value is {MARK}"
    )


def test_the_reason_after_a_quote_of_50_000_characters_is_shown():
    values = ["v" * 512] * 100
    quoted = ", ".join(f"K{n}={value}" for n, value in enumerate(values))
    text = f"Value '{{{quoted}}}' at 'environment' failed to satisfy constraint: 100 at most"
    assert shown(text, *values) == (
        f"Value '{MARK}' at 'environment' failed to satisfy constraint: 100 at most"
    )


LETTERS = st.text("ab-", max_size=200)
VALUES = st.lists(st.text("ab-", min_size=4, max_size=150), max_size=8)


@given(LETTERS, VALUES, LETTERS, st.integers(0, 500))
def test_no_value_is_left_in_a_text(before: str, values: list[str], after: str, cut: int):
    text = (before + " ".join(values) + after)[:cut]
    told = shown(text, *values)
    for value in values:
        if not value.isalnum() or len(value) >= 16:
            assert value not in told
        for length in range(4, len(value)):
            assert not told.endswith(value[:length])

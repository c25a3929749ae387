"""Initial worlds and odd values of the fuzzing tests."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

import app
from tests.functional.account import TABLE, Account, add_job, forget
from tests.hypothesis_profiles import SHARES_FIXTURES

TEXTS = st.text(st.characters(), max_size=30) | st.sampled_from(["9" * 400, "\ud800", "\0"])
ODD: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats()
    | TEXTS
    | st.sampled_from(["x" * 200_000, "-" * 3000, "2026-11-20T10:30:00Z", "1e999", "NaN"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)
"""Any JSON value."""


MORE = 20


def budget(examples: int) -> settings:
    """The number of examples; with HYPOTHESIS_PROFILE twenty times as many."""
    return settings(
        max_examples=examples * (MORE if "HYPOTHESIS_PROFILE" in os.environ else 1),
        suppress_health_check=SHARES_FIXTURES,
    )


def renewed(account: Account) -> Account:
    """The account with an empty table, for each example."""
    account.dynamodb.delete_table(TableName=TABLE)
    account.__init__(account.dynamodb)  # type: ignore[misc]
    vars(app)["clock"] = account.clock  # The fixture restores it.
    forget()
    return account


def busy(account: Account) -> Account:
    """Two slots, in which `job1` and `bystander` run; `job2` and `waiting` wait."""
    for name in ("job1", "bystander", "job2", "waiting"):
        account.call(add_job(TrainingJobName=name, Tags=[]))
    account.settle()
    running = {name for name in ("job1", "bystander") if account.state(name) == "running"}
    assert running == {"job1", "bystander"}
    return account

"""How Hypothesis runs, in every folder of tests: loaded by tests/conftest.py.

`make test` tries 80 examples of each property, the same in each run, so a failure comes from the
change. `make properties` tries 2,000, and HYPOTHESIS_PROFILE=more 250: new ones each time. A
failure among them becomes a scenario. No profile has a bound on time. A test may set the number of
its examples, or share a fixture between them; everything else is as here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]
SHARES_FIXTURES = [*SLOW_IS_FINE, HealthCheck.function_scoped_fixture]
"""For properties whose fixture is one for all examples."""


def load() -> None:
    """Register the profiles, and load the one that HYPOTHESIS_PROFILE names."""
    st.sampled_from, st.lists = _made_once(st.sampled_from), _made_once(st.lists)
    every = settings(deadline=None, suppress_health_check=SLOW_IS_FINE)
    settings.register_profile("quick", every, max_examples=80, derandomize=True, database=None)
    settings.register_profile("more", every, max_examples=250, derandomize=False)
    settings.register_profile("deep", every, max_examples=2_000, derandomize=False)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


_PLAIN = (str, int, type(None), type, st.SearchStrategy)
"""What is told apart by its type and `==`."""


def _made_once(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same strategy for the same plain arguments. Making and checking one costs more
    than many draws from it, and `@st.composite` makes its strategies in each example."""
    made: dict[Hashable, Any] = {}

    @wraps(make)
    def strategy(*args: Any, **given: Any) -> Any:
        try:
            key = _key(args), tuple(given), _key(tuple(given.values()))
        except NotImplementedError:
            return make(*args, **given)
        if key not in made:
            made[key] = make(*args, **given)
        return made[key]

    return strategy


def _key(value: Any) -> Hashable:
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_key, value))
    if isinstance(value, _PLAIN):
        return type(value), value
    raise NotImplementedError

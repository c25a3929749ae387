"""How Hypothesis runs, in every folder of tests: loaded by tests/conftest.py.

`make test` tries 80 examples of each property, the same in each run, so a failure comes from the
change. `make properties` tries 2,000, and HYPOTHESIS_PROFILE=more 250: new ones each time. A
failure among them becomes a scenario. No profile has a bound on time. A test may set the number of
its examples, or share a fixture between them; everything else is as here.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]
SHARES_FIXTURES = [*SLOW_IS_FINE, HealthCheck.function_scoped_fixture]
"""For properties whose fixture is one for all examples."""


def load() -> None:
    """Register the profiles, and load the one that HYPOTHESIS_PROFILE names."""
    every = settings(deadline=None, suppress_health_check=SLOW_IS_FINE)
    settings.register_profile("quick", every, max_examples=80, derandomize=True, database=None)
    settings.register_profile("more", every, max_examples=250, derandomize=False)
    settings.register_profile("deep", every, max_examples=2_000, derandomize=False)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

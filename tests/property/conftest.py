"""The number of worlds that each property is tried on: 80 in `make test`, 2,000 in `make
properties`, 250 with HYPOTHESIS_PROFILE=more.

The 80 are the same in each run, so a failure comes from the change. The others are new each time,
and a failure among them becomes a scenario.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_slow_is_fine = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "quick",
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=_slow_is_fine,
)
settings.register_profile(
    "more", max_examples=250, deadline=None, suppress_health_check=_slow_is_fine
)
settings.register_profile(
    "deep", max_examples=2_000, deadline=None, suppress_health_check=_slow_is_fine
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

"""An emulator for each module, in a process of its own as users start it, with one slot."""

from __future__ import annotations

import pytest

from slotq.demo.world import emulator


@pytest.fixture(scope="module")
def aws():
    with emulator("one=1@ml.p5.48xlarge") as endpoint:
        yield endpoint

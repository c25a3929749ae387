"""What several folders of tests need: the real engine, one Hypothesis profile, processes that hear
Ctrl-C, and a garbage collector that looks at little."""

from __future__ import annotations

import gc
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import aws_descriptions, hypothesis_profiles
from tests.contract import dynamodb_local

hypothesis_profiles.load()
aws_descriptions.share()

# A shell starts what it runs in the background (`.ci/run &`) with SIGINT ignored, and every process
# below inherits that: tests that press Ctrl-C would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Keep the garbage collector out of what has been imported and collected: it is no garbage, and
    a look at all of it takes half a second. Let it look less often at what tests make: nearly all
    of that goes without it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def common_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all processes of these tests."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def dynamodb_local_endpoint(request: pytest.FixtureRequest, common_folder: Path) -> str:
    """Where DynamoDB Local listens, for all processes of these tests. Skips where it cannot be
    started."""
    use = ExitStack()
    request.config.add_cleanup(use.close)  # The end of the others is waited for behind all tests.
    try:
        return use.enter_context(dynamodb_local.shared(common_folder))
    except dynamodb_local.NotHere as missing:
        if dynamodb_local.required():
            pytest.fail(f"DynamoDB Local: {missing}")
        pytest.skip(f"DynamoDB Local: {missing}")

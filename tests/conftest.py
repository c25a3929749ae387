"""What several folders of tests need: the real engine, one Hypothesis profile, processes that hear
Ctrl-C, and a garbage collector that looks at little."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

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
    a look at all of it takes half a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def dynamodb_local_endpoint() -> Iterator[str]:
    """Where DynamoDB Local listens, for this process's tests. Skips where it cannot be started."""
    try:
        with dynamodb_local.running() as endpoint:
            yield endpoint
    except dynamodb_local.NotHere as missing:
        if dynamodb_local.required():
            pytest.fail(f"DynamoDB Local: {missing}")
        pytest.skip(f"DynamoDB Local: {missing}")

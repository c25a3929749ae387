"""Each table written by an earlier version, used by this one."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract import dynamodb_local
from tests.faults.fake_dynamodb import FakeDynamo
from tests.functional.account import TABLE, Account
from tests.functional.conftest import in_use
from tests.upgrade import earlier

ROOT = Path(__file__).parents[2]
EARLIER = {path.stem: path for path in sorted(earlier.TABLES.glob("*.json"))}
THIS = "this version"


@pytest.fixture(scope="session")
def this_version(common_folder: Path) -> Path:
    """What this version writes, for later versions to read: written by the first that needs it."""
    path = common_folder / "this-version.json"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _write(path)
    return path


def _write(path: Path) -> None:
    folders = (ROOT, *(Path(each) for each in sys.path if each))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, str(ROOT / "tests/upgrade/dump.py"), str(path)]
    subprocess.run(command, check=True, env=environment, cwd=path.parent, timeout=500)


@pytest.fixture(params=[*EARLIER, THIS])
def dumped(request: pytest.FixtureRequest) -> dict[str, Any]:
    path = EARLIER.get(request.param) or request.getfixturevalue("this_version")
    return {**earlier.read(path), "of": request.param}


@pytest.fixture
def updated(dumped: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """This version on the earlier one's table, before the first invocation; on the engine of the
    fault campaign, which is exact and fast."""
    yield from _over(FakeDynamo(), dumped, monkeypatch)


@pytest.fixture
def updated_for_real(
    dynamodb_local_endpoint: str, dumped: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Account]:
    """The same on DynamoDB Local."""
    client = dynamodb_local.client(dynamodb_local_endpoint, retries={"total_max_attempts": 1})
    yield from _over(client, dumped, monkeypatch)
    client.delete_table(TableName=TABLE)


@pytest.fixture(params=["updated", "updated_for_real"])
def on_either(request: pytest.FixtureRequest, dumped: dict[str, Any]) -> Any:
    """`dumped` is a parameter so that pytest knows of its values here too."""
    return request.getfixturevalue(request.param)


def _over(
    client: Any, dumped: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Account]:
    for made in in_use(Account(client), monkeypatch):
        monkeypatch.setenv("SLOTQ_POOLS", dumped["pools"])
        earlier.take_over(made, dumped)
        yield made

"""One emulator for this folder's tests of a worker, started with `slotq local`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import emulators, warm_slotq
from tests.functional.local.account import Account

START = ("local", "start", "--detach", "--port", "0")
SLOTQ = (sys.executable, "-c", "from slotq.cli.main import main; main()")


def slotq(
    *arguments: str, folder: Path, check: bool = True, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The `slotq` command, with its state in `folder`."""
    ran = warm_slotq.run(
        *arguments,
        env={**os.environ, "SLOTQ_LOCAL_DIR": str(folder), **(env or {})},
        timeout=300,
    )
    assert not check or ran.returncode == 0, ran.stderr
    return ran


def start(folder: Path, *options: str) -> Account:
    account, _ = emulators.start(folder, *options)
    return account


@pytest.fixture(scope="package")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """Two slots, and one of a scarce type; a grace of five seconds. A tick costs a tenth of a
    second's work, so there is one each five seconds, and none while other folders are tested."""
    folder = tmp_path_factory.mktemp("emulator")
    pools = ("--pool", "main=2", "--pool", "scarce=1@ml.g5.xlarge")
    slotq(*START, *pools, "--grace", "5", "--tick", "5", folder=folder)
    account = Account(folder)
    yield account
    log = (folder / "emulator.log").read_text()
    slotq("local", "stop", folder=folder)
    assert "Traceback" not in log, log


@pytest.fixture
def account(emulator: Account) -> Iterator[Account]:
    """The emulator, with its knobs reset afterwards."""
    before = emulator.knobs()
    yield emulator
    emulator.knobs(before)


@pytest.fixture
def aws(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    """The emulator as this process's only AWS, set by environment variables alone."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "SLOTQ_"))]:
        monkeypatch.delenv(name)
    for name, value in account.variables.items():
        monkeypatch.setenv(name, value)
    return account


Request = dict[str, Any]

"""Emulators that start quickly: forked from a process in which everything is imported.

What a test shows of the start itself wants a real one.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from slotq.demo.environment import with_variables
from slotq.demo.world import settings
from slotq.local.endpoint import Endpoint
from slotq.local.state import NotRunning
from tests import warm_slotq
from tests.functional.local.account import PATIENCE, Account


def start(
    folder: Path,
    *options: str,
    env: Mapping[str, str] | None = None,
    stdin: IO[bytes] | None = None,
) -> tuple[Account, warm_slotq.Forked]:
    """Start an emulator at a free port, with its state and what it says (`emulator.log`) in the
    folder. Returns when it answers."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / "emulator.log"
    with file.open("wb") as log:
        process = warm_slotq.start(
            ("local", "start", "--port", "0", *options),
            env={**(os.environ if env is None else env), "SLOTQ_LOCAL_DIR": str(folder)},
            stdin=stdin,
            stdout=log,
            stderr=log,
        )
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        if (account := running(folder)) is not None:
            return account, process
        time.sleep(0.05)
    raise AssertionError(f"no emulator has started: {file.read_text()}")


def running(folder: Path) -> Account | None:
    """The emulator with its state in the folder, whoever has started it."""
    try:
        return Account(folder)
    except NotRunning:
        return None


@contextmanager
def held(folder: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Account]:
    """An emulator for the context. It ends with this process, too."""
    its, ours = os.pipe()
    with open(ours, "wb") as end:  # noqa: PTH123
        with open(its, "rb") as stdin:  # noqa: PTH123
            account, process = start(folder, "--until-eof", *options, env=env, stdin=stdin)
        try:
            yield account
        finally:
            end.close()
            process.wait(PATIENCE)


@contextmanager
def emulator(pool: str, *options: str) -> Iterator[Endpoint]:
    """An emulator with this pool for the context, to which the environment leads, as
    `slotq.demo.world.emulator` makes it."""
    with tempfile.TemporaryDirectory(prefix="slotq-tests-") as folder:
        home = Path(folder)
        with held(home, "--pool", pool, "--pass-sigterm", *options) as account:
            variables = settings(account.endpoint, home)
            with with_variables(variables, instead_of=("AWS_", "SLOTQ_")):
                yield account.endpoint

"""Runs the user's own program in the place of this command."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

NOT_FOUND = 127
"""A shell's exit code for an unknown command."""


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command and return its exit code: 128 + the signal's number if a signal ended it."""
    if shutil.which(command[0], path=environment.get("PATH")) is None:
        click.echo(f"slotq: the program {command[0]} is not on the PATH", err=True)
        return NOT_FOUND
    with _interrupts_left_to_it():
        code = subprocess.run(  # noqa: S603 - the user's own command # nosec B603
            command, env=environment, check=False
        ).returncode
    return code if code >= 0 else 128 - code


@contextmanager
def _interrupts_left_to_it() -> Iterator[None]:
    """Ignore Ctrl-C here: the command receives it from the same terminal.

    Uses handlers that do nothing, because exec resets handlers; the command would inherit SIG_IGN.
    """
    names = [each for each in ("SIGINT", "SIGQUIT") if hasattr(signal, each)]
    kept = {n: signal.signal(n, lambda *_: None) for n in (getattr(signal, e) for e in names)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)

"""A reader: a folder of files, a shell, a notebook, and an emulator to try a page on."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import socket
import sys
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
from click.testing import CliRunner

from slotq.cli.main import cli
from slotq.local import acting
from slotq.local.keys import TOKEN_HEADER
from slotq.local.services.aws import TABLE
from tests import emulators
from tests.e2e.pages.shell import Ran, Shell, plain_words
from tests.e2e.waiting import PATIENCE, until
from tests.functional.local.account import Account
from tests.functional.local.conftest import slotq
from tests.functional.local.test_nodes import image

_PROGRAMS = frozenset({"local", "exec", "demo", "ui", "top", "shell"})
"""Commands of slotq that start programs or run until Ctrl-C: they get a process."""


class Reader:
    """A person at a terminal and a notebook, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.account: Account | None = None
        self.notebook: dict[str, Any] = {"__name__": "__main__"}
        self._has_acted = False
        self._emulator = contextlib.ExitStack()
        home = folder.parent / "home"
        home.mkdir()
        self._state = folder.parent / "emulator"
        self.variables = {
            **{key: os.environ[key] for key in ("LANG", "TMPDIR") if key in os.environ},
            "HOME": str(home),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "PWD": str(folder),
            "SLOTQ_LOCAL_DIR": str(self._state),
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "NO_PROXY": "127.0.0.1,localhost",
            "BROWSER": "true",
        }
        self._shell = Shell(folder, self.variables)

    def emulator(self, *options: str) -> None:
        """Start an emulator, to which the shell leads as after `eval "$(slotq local env)"`. It ends
        with this process."""
        held = emulators.held(self._state, *options, env=self.variables)
        self.account = self._emulator.enter_context(held)
        self._export(self.account.variables)

    def shared_python(self) -> str:
        """A Python that each user of this machine may run."""
        for path in (self.folder.parent, *self.folder.parents[1:3]):
            path.chmod(0o755)
        return image(self.folder.parent / "python")

    def log(self) -> str:
        """What the emulator has said, if there was one."""
        file = self._state / "emulator.log"
        return file.read_text() if file.exists() else ""

    def becomes(self, role: str) -> None:
        """Work with the credentials of a role from now on."""
        assert self.account is not None
        self._export(acting.variables(self.account.endpoint, role))

    def _export(self, variables: Mapping[str, str]) -> None:
        for name, value in variables.items():
            self._shell.run(f"export {name}='{value}'")
        self.variables = self._shell.variables()

    def write(self, file: str, text: str) -> None:
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, statement: str) -> Ran:
        """Run a statement of the shell to its end, and wait until the queue has done its part."""
        match plain_words(statement):
            case ["slotq", "local", "as", role, "--", "slotq", command, *more] if (
                self.account and self._has_acted and command not in _PROGRAMS
            ):
                # The page's first such statement has shown how it works. This is quicker.
                person = acting.variables(self.account.endpoint, role)
                ran = self._inside([command, *more], self.variables | person)
            case ["slotq", command, *more] if command not in _PROGRAMS:
                ran = self._inside([command, *more], self.variables)
            case _:
                self._has_acted |= "slotq local as " in statement
                ran = self._shell.run(statement)
                self.variables = self._shell.variables()
                if re.search("slotq local st(art|op)", statement):
                    self.account = emulators.running(self._state)
        self.settle()
        return ran

    def python(self, text: str, name: str) -> Ran:
        """Run a cell of the notebook."""
        printed = io.StringIO()
        with self._here(self.variables), contextlib.redirect_stdout(printed):
            exec(compile(text, name, "exec"), self.notebook)
        self.settle()
        return Ran(code=0, printed=printed.getvalue())

    def _inside(self, words: list[str], variables: Mapping[str, str]) -> Ran:
        """Run a command of slotq in this process, which saves the start of another."""
        with self._here(variables):
            done = CliRunner().invoke(cli, words)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ran(code=done.exit_code, printed=done.output)

    @contextmanager
    def _here(self, variables: Mapping[str, str]) -> Iterator[None]:
        """This process as a child of the reader's shell."""
        with (
            contextlib.chdir(variables["PWD"]),
            mock.patch.dict(os.environ, variables, clear=True),
            mock.patch.object(boto3, "DEFAULT_SESSION", None),
        ):
            yield

    def settle(self) -> None:
        """Wait until no event and no training job is on the way."""
        account = self.account
        if account is None:
            return
        database = account.endpoint.client("dynamodb")
        between = {
            "TableName": TABLE,
            "FilterExpression": "sk = :job AND jobState IN (:starting, :stopping)",
            "ExpressionAttributeValues": {
                ":job": {"S": "JOB"},
                ":starting": {"S": "starting"},
                ":stopping": {"S": "stopping"},
            },
        }
        until(
            lambda: _health(account)["settled"] and not database.scan(**between)["Count"],
            "the queue has not settled",
        )

    def close(self) -> None:
        self._shell.close()
        self._emulator.close()
        if emulators.running(self._state):  # A page has started it, and has not come to its stop.
            slotq("local", "stop", folder=self._state)
        logger = logging.getLogger("slotq")
        for handler in [each for each in logger.handlers if isinstance(each, logging.FileHandler)]:
            logger.removeHandler(handler)
            handler.close()


def free_ports(names: Iterable[str]) -> dict[str, str]:
    """A free port in place of each of a page's."""
    servers = {name: socket.create_server(("127.0.0.1", 0)) for name in names}
    found = {name: str(server.getsockname()[1]) for name, server in servers.items()}
    for server in servers.values():
        server.close()
    return found


def _health(account: Account) -> dict[str, Any]:
    asked = urllib.request.Request(
        f"{account.running.url}/_slotq/health", headers={TOKEN_HEADER: account.running.keys.token}
    )
    with urllib.request.urlopen(asked, timeout=PATIENCE) as said:
        found: dict[str, Any] = json.load(said)
    return found

"""The commands of docs/ui.md, on the emulator."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import urllib.request
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

import pytest

from slotq.cli.exits import ExitCode
from slotq.ui.built_page import FOLDER
from tests.functional.local.account import Account
from tests.functional.local.conftest import SLOTQ

PAGE = (Path(__file__).parents[3] / "docs" / "ui.md").read_text()
LINES = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]

pytestmark = pytest.mark.skipif(
    not (FOLDER / "index.html").is_file(), reason="the page is not built (`make ui`)"
)


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_page_serves_the_queue(account: Account, line: str) -> None:
    program, *words = shlex.split(line.replace("--port 4778", "--port 0"))
    assert program == "slotq"
    environment = {**os.environ, **account.variables, "BROWSER": "true"}  # Opens nothing.
    with subprocess.Popen(
        [*SLOTQ, *words], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        link = process.stderr.readline().split()[-1]
        address, token = urldefrag(link)
        try:
            path = next((word for word in words if word.startswith("/")), "/")
            assert urlsplit(address).path == path
            with urllib.request.urlopen(address, timeout=120) as page:
                assert b"<!doctype html>" in page.read()
            pools = asked(f"http://{urlsplit(address).netloc}/api/pools", token)
            assert {"main", "scarce"} <= {pool["name"] for pool in pools["pools"]}
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == ExitCode.INTERRUPTED


def asked(url: str, token: str) -> dict[str, list[dict[str, str]]]:
    """The queue's answer, with the token of the link."""
    key = {"Authorization": f"Bearer {token.removeprefix('token=')}"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=key), timeout=120) as said:
        found: dict[str, list[dict[str, str]]] = json.load(said)
        return found

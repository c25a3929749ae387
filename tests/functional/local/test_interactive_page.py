"""The commands of docs/interactive.md, in order, on the emulator."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.functional.local.account import Account
from tests.functional.local.test_forwarding import forwarded, page, running
from tests.functional.local.test_shell import slotq

PAGE = (Path(__file__).parents[3] / "docs" / "interactive.md").read_text()
LINES = [
    shlex.split(line)
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
SERVER = """\
import http.server, sys, threading
for port in map(int, sys.argv[1:]):
    server = http.server.HTTPServer(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever).start()
"""
"""Stands for Jupyter, which this environment lacks."""


@pytest.fixture
def ports() -> dict[str, int]:
    """Free ports in place of the page's."""
    servers = {name: socket.create_server(("127.0.0.1", 0)) for name in ("8888", "6006", "9999")}
    found = {name: server.getsockname()[1] for name, server in servers.items()}
    for server in servers.values():
        server.close()
    return found


@pytest.fixture
def work(emulator: Account, tmp_path: Path) -> Iterator[Path]:
    """A folder with a program, and the settings of its command lines."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "serve.py").write_text(SERVER)
    before = emulator.variables
    emulator.variables = before | {
        "SLOTQ_IMAGE": "train:1",
        "SLOTQ_ROLE": "arn:aws:iam::123456789012:role/slotq-local",
        "SLOTQ_OUTPUT": f"s3://{emulator.bucket}/runs",
        "SLOTQ_INSTANCE_TYPE": "ml.m5.large",
    }
    started_in = Path.cwd()
    os.chdir(folder)
    yield tmp_path
    os.chdir(started_in)
    emulator.variables = before


def test_the_commands_of_the_page_work(account: Account, work: Path, ports: dict[str, int]) -> None:
    shell, jupyter, two, other_host = (words[1:] for words in LINES)
    serve = ["python3", "serve.py", str(ports["8888"]), str(ports["6006"])]

    shell[shell.index("sleep") :] = serve
    opened = slotq(account, *shell, text='echo "in $TRAINING_JOB_NAME"; exit 3')
    assert (opened.returncode, opened.stdout) == (3, "in lab\n"), opened.stderr
    with running(account, *with_ports(two, ports), folder=work) as process:
        found = {theirs: here for here, theirs in (forwarded(process), forwarded(process))}
        assert found[ports["8888"]] == ports["9999"]
        for here in found.values():
            account.until(partial(served, here), "the page")
    refused = slotq(account, *with_ports(other_host, ports))
    assert (refused.returncode, "no process algo-2" in refused.stderr) == (1, True)

    jupyter[jupyter.index("jupyter") :] = serve
    slotq(account, "cancel", "lab")
    account.ended("lab")  # Its process holds the ports until then: it hears no SIGTERM.
    with running(account, *with_ports(jupyter, ports), folder=work) as process:
        here, _ = forwarded(process)
        account.until(partial(served, here), "the page")
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    back = f"`slotq shell notebook --forward {ports['8888']} --wait` comes back to it"
    assert back in (work / "err").read_text()
    slotq(account, "cancel", "notebook")
    account.ended("notebook")


def with_ports(words: Sequence[str], ports: dict[str, int]) -> list[str]:
    return [
        ":".join(str(ports.get(part, part)) for part in word.split(":"))
        if before == "--forward"
        else word
        for before, word in zip(["", *words], words, strict=False)
    ]


def served(port: int) -> bool:
    """Whether the job's folder is served there. Not yet, if the job has just started."""
    try:
        return "serve.py" in page(port)
    except OSError:
        return False

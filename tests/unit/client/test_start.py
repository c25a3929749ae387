"""What `slotq` imports before it does anything: counted, for that is what a user waits for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

CLIENTS = {"boto3", "botocore", "pydantic", "pydantic_core", "sagemaker", "urllib3", "yaml", "moto"}
"""What speaks to the queue or reads its answers."""

RUN = """
import json, os, sys
there = set(sys.modules)
from slotq.cli.main import main
sys.argv = ["slotq", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
new = {name: sys.modules[name] for name in set(sys.modules) - there if name in sys.modules}
ours = {name: module for name, module in new.items()
        if name.split(".")[0] not in sys.stdlib_module_names}
files = {file for module in ours.values()
         if (file := getattr(module, "__file__", None) or "").endswith(".py")}
print(json.dumps([sorted(ours), sum(map(os.path.getsize, files))]), file=sys.stderr)
"""

EACH = """
import click, json, sys
from slotq.cli.main import cli
def leaves(command, path):
    yield path, command
    for name in getattr(command, "commands", {}):
        yield from leaves(command.commands[name], [*path, name])
context, found = click.Context(cli), {}
for name in cli.list_commands(context):
    for path, command in leaves(cli.get_command(context, name), [name]):
        before = set(sys.modules)
        text = command.get_help(click.Context(command, info_name=path[-1]))
        assert "Usage:" in text and "--help" in text, path
        found[" ".join(path)] = sorted({it.split(".")[0] for it in sys.modules})
print(json.dumps(found))
"""


def imported(*words: str, **environment: str) -> tuple[set[str], int]:
    """The modules beside Python's own that a command imports, and the bytes of their files."""
    ran = subprocess.run(
        [sys.executable, "-c", RUN, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert ran.returncode == 0, ran.stderr
    modules, size = json.loads(ran.stderr.splitlines()[-1])
    return set(modules), size


def of_clients(modules: set[str]) -> set[str]:
    return {name.split(".")[0] for name in modules} & (CLIENTS | {"rich"})


COMPLETED = {"_SLOTQ_COMPLETE": "bash_complete", "COMP_WORDS": "slotq re", "COMP_CWORD": "1"}


@pytest.mark.parametrize(
    ("words", "environment", "modules", "size"),
    [
        (["--help"], {}, 55, 560_000),
        (["version"], {}, 55, 560_000),
        (["completion", "zsh"], {}, 55, 560_000),
        ([], COMPLETED, 55, 560_000),
    ],
)
def test_help_version_and_completion_import_no_client(words, environment, modules, size):
    found, bytes_read = imported(*words, **environment)
    assert of_clients(found) == set()
    assert (len(found) <= modules, bytes_read <= size) == (True, True), (len(found), bytes_read)


def test_no_commands_own_help_imports_a_client():
    ran = subprocess.run([sys.executable, "-c", EACH], capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout)
    assert {"submit", "ls", "pools set", "config apply", "whatif", "local start"} <= found.keys()
    assert {
        name: CLIENTS & set(there) for name, there in found.items() if CLIENTS & set(there)
    } == {}


class _NoJobs(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"version": 1, "jobs": []}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_ls_imports_what_lists_jobs_and_no_more():
    server = HTTPServer(("127.0.0.1", 0), _NoJobs)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "x"}
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}/prod"
        found, size = imported("ls", SLOTQ_ENDPOINT=endpoint, **keys)
    finally:
        server.shutdown()
        server.server_close()
    ours = {name for name in found if name.startswith("slotq")}
    of_others = ("slotq.sweeps", "slotq.queue_calls", "slotq_core.wire.document")
    assert {name for name in ours if name.startswith(of_others)} == set()
    assert (len(ours) <= 90, len(found) <= 380, size <= 5_400_000) == (True, True, True), (
        len(ours),
        len(found),
        size,
    )

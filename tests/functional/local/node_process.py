"""A node's agent as a real process, with the emulator's S3 and logs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import boto3

from slotq_core.adapters import nodes
from slotq_core.wire.nodes.documents import (
    NodePhase,
    NodeReport,
    OrderedAttempt,
    Orders,
    ReportedAttempt,
    read_report,
    reduced,
    written_orders,
)
from tests.functional.local.account import Account

AGENT = Path(nodes.__file__).with_name("agent.py")
PACKAGES = Path(boto3.__file__).parents[1]
TOKEN = "the-token-of-this-node"

DOCKERS_RIGHTS = (
    *("setpriv", "--bounding-set"),
    "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service",
)
"""The rights of root in a container that gets none beyond Docker's own: no CAP_SYS_ADMIN, no
CAP_SYS_PTRACE, no CAP_SYS_RESOURCE."""


@cache
def python() -> str:
    """A Python that every user of this machine may run."""
    others: dict[str, Any] = (
        {"user": 20_000, "group": 20_000, "extra_groups": []} if os.geteuid() == 0 else {}
    )
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        if Path(path).exists():
            try:
                ran = subprocess.run([path, "-c", ""], check=False, **others)
            except PermissionError:
                continue
            if ran.returncode == 0:
                return path
    raise AssertionError("only root may run the Pythons of this machine")


class NodeDocuments:
    """The orders to one generation of a node, and its reports."""

    def __init__(self, account: Account, name: str, bucket: str) -> None:
        self.account, self.name, self.bucket = account, name, bucket
        self.prefix = f"nodes/{name}/1/"
        self.orders = Orders(node=name, generation=1, number=0, lease_s=60)

    @property
    def ended(self) -> str:
        """Why the agent has ended; empty: it runs."""
        return ""

    def settings(self, **more: str) -> dict[str, str]:
        """The variables that the queue gives a node."""
        return {
            "SLOTQ_NODE": self.name,
            "SLOTQ_NODE_GENERATION": "1",
            "SLOTQ_NODE_FOLDER": f"s3://{self.bucket}/{self.prefix}",
            "SLOTQ_NODE_TOKEN": TOKEN,
            **more,
        }

    def order(self, *attempts: OrderedAttempt, **more: Any) -> None:
        """Write orders with the next number."""
        number = self.orders.number + 1
        self.orders = replace(self.orders, number=number, attempts=attempts, **more)
        self.put_orders(written_orders(self.orders))

    def put_orders(self, content: bytes) -> None:
        self.account.s3.put_object(
            Bucket=self.bucket, Key=f"{self.prefix}orders.json", Body=content
        )

    def report(self) -> NodeReport | None:
        """The report, its proof checked; None if there is none yet."""
        try:
            found = self.account.s3.get_object(Bucket=self.bucket, Key=f"{self.prefix}report.json")
        except self.account.s3.exceptions.NoSuchKey:
            return None
        return read_report(found["Body"].read(), token=TOKEN, node=self.name, generation=1)

    def until_report(self, condition: Any, what: str) -> NodeReport:
        def holds() -> NodeReport | None:
            assert not self.ended, self.ended
            report = self.report()
            return report if report is not None and condition(report) else None

        try:
            return self.account.until(holds, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.report()} {self.ended}") from None

    def until_ready(self) -> NodeReport:
        return self.until_report(lambda report: report.state is NodePhase.READY, "a report")

    def until_attempt(self, name: str, *states: str) -> ReportedAttempt:
        """Wait until an attempt has one of these states; without states, until it has ended."""

        def reached(report: NodeReport) -> bool:
            found = [one for one in report.attempts if one.attempt == name]
            return bool(found) and (found[0].state in states if states else found[0].state.ended)

        report = self.until_report(reached, f"{name} to be {states or 'over'}")
        return next(one for one in report.attempts if one.attempt == name)


class NodeProcess(NodeDocuments):
    """One node. `folder` can be entered by every user: its jobs have users of their own."""

    def __init__(self, account: Account, folder: Path, name: str) -> None:
        super().__init__(account, name, account.bucket)
        self.folder = folder
        self.base, self.work = folder / "opt/ml", folder / "work"
        self.process: subprocess.Popen[bytes]
        self.log = folder / "node.log"
        self.command: tuple[str, ...] = (python(), str(AGENT))

    @property
    def ended(self) -> str:
        return "" if self.process.poll() is None else self.log.read_text()

    def start(self, *before: str, user: int | None = None, **more: str) -> None:
        """Start the agent by a command that runs it (`before`), or as a user without rights."""
        for path in (self.folder / "opt", self.base, *self._folders()):
            path.mkdir(exist_ok=True)
            path.chmod(0o777 if path != self.folder / "opt" else 0o755)
        if user is not None:
            for path in (self.folder, self.folder / "opt", self.base, *self._folders()):
                os.chown(path, user, user)
        environment = {
            "PATH": f"{Path(python()).parent}:/usr/bin:/bin",
            "PYTHONPATH": str(PACKAGES),
            **self.account.variables,
            **self.settings(SLOTQ_NODE_GPUS="pretend:8"),
            "SLOTQ_NODE_BASE": str(self.base),
            "SLOTQ_NODE_WORK": str(self.work),
            "SLOTQ_NODE_POLL": "0.05",
            "SLOTQ_NODE_SYNC": "0.1",
            "TRAINING_JOB_ARN": f"arn:aws:sagemaker:us-east-1:1:training-job/{self.name}",
            **more,
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*before, *self.command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )

    def _folders(self) -> list[Path]:
        names = ("model", "checkpoints", "output", "input", "code")
        return [self.base / name for name in names]

    def wait(self, seconds: float = 60.0) -> int:
        return self.process.wait(seconds)

    def end(self) -> None:
        """Kill whatever is left."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


@contextmanager
def node(account: Account, name: str) -> Iterator[NodeProcess]:
    """A node that is not started yet. It ends with the context."""
    with tempfile.TemporaryDirectory(prefix="slotq-node-") as folder:
        Path(folder).chmod(0o755)
        made = NodeProcess(account, Path(folder), name)
        try:
            yield made
        finally:
            made.end()
            print(made.log.read_text() if made.log.exists() else "it was not started")


def attempt(
    account: Account,
    name: str,
    source: str,
    *,
    gpus: tuple[int, ...] = (),
    changes: Mapping[str, Any] | None = None,
    arguments: tuple[str, ...] = (),
    **more: Any,
) -> OrderedAttempt:
    """An ordered attempt that runs a Python script, given as text, by ContainerEntrypoint."""
    request = {
        "AlgorithmSpecification": {
            "ContainerEntrypoint": [python(), "-c", source, *arguments],
            **((changes or {}).get("AlgorithmSpecification") or {}),
        },
        "OutputDataConfig": {"S3OutputPath": f"s3://{account.bucket}/out"},
        "CheckpointConfig": {"S3Uri": f"s3://{account.bucket}/checkpoints/{name}"},
        "StoppingCondition": {"MaxRuntimeInSeconds": 100},
    }
    for key, value in (changes or {}).items():
        request[key] = {**request.get(key, {}), **value} if isinstance(value, dict) else value
    return OrderedAttempt(
        attempt=name, job=name, number=1, gpus=gpus, request=reduced(request), **more
    )


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    return not Path(f"/proc/{pid}").exists()

"""The Lambda runtime without a container: the runtime interface emulator of the SAM CLI, AWS's
runtime client (awslambdaric), and the output of `sam build`."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MACHINE = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
BUILT = ROOT / ".aws-sam" / "build"
CLIENT = ROOT / ".venv" / "runtime"
_START_SECONDS = 20.0


def emulator() -> Path:
    """The runtime interface emulator for this machine."""
    found = sorted(
        (ROOT / ".venv/sam").glob(f"lib/*/site-packages/samcli/local/rapid/*-rie-{MACHINE}")
    )
    assert found, "the SAM CLI brings no runtime interface emulator for this machine"
    return found[0]


class Function:
    """One function of the template, running and waiting for events."""

    def __init__(self, name: str, handler: str, variables: Mapping[str, str], log: Path) -> None:
        """`handler`: as in the template. `variables`: environment variables besides those that
        Lambda sets."""
        self._log = log.open("wb")
        self._port, api = _free_port(), _free_port()
        code, layer = BUILT / name, BUILT / "CoreLayer" / "python"
        environment = {
            "PATH": os.environ["PATH"],
            "LAMBDA_TASK_ROOT": str(code),
            "PYTHONPATH": os.pathsep.join(map(str, (code, layer, CLIENT))),
            "AWS_LAMBDA_FUNCTION_NAME": name,
            "AWS_LAMBDA_FUNCTION_TIMEOUT": "60",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
            "POWERTOOLS_TRACE_DISABLED": "true",  # there is no X-Ray daemon
            **variables,
        }
        self._process = subprocess.Popen(
            [
                str(emulator()),
                "--runtime-interface-emulator-address",
                f"127.0.0.1:{self._port}",
                "--runtime-api-address",
                f"127.0.0.1:{api}",
                os.environ["SLOTQ_LAMBDA_PYTHON"],
                "-m",
                "awslambdaric",
                handler,
            ],
            env=environment,
            cwd=code,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def invoke(self, event: Any) -> Any:
        """The handler's answer, or Lambda's error object."""
        url = f"http://127.0.0.1:{self._port}/2015-03-31/functions/function/invocations"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                with opener.open(url, json.dumps(event).encode(), timeout=60) as answer:
                    return json.load(answer)
            except urllib.error.URLError as error:
                up = not isinstance(error.reason, ConnectionRefusedError)
                if up or time.monotonic() > until or self._process.poll() is not None:
                    raise
                time.sleep(0.02)  # The emulator is not listening yet.

    def stop(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

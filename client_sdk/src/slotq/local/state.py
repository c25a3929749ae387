"""What is kept of a running emulator, so that `stop` and `env` find it.

In the folder that SLOTQ_LOCAL_DIR names, else `$XDG_STATE_HOME/slotq`, else `~/.local/state/slotq`:
`emulator.json` (one emulator a folder), `keys.json`, `emulator.log`, `lambda.log` (what the queue's
Lambda says), `sagemaker.yaml` and the jobs' folders.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slotq.local import keys
from slotq.local.container.host_process import sweep
from slotq.local.endpoint import Endpoint
from slotq.local.keys import TOKEN_HEADER, Keys
from slotq_core.errors import SlotQError

_STOP_SECONDS = 60.0
GOES_ON = "`slotq local start` goes on from here, `slotq local start --fresh` begins anew."
_SDK_CONFIG = """\
# Settings of SageMaker's Python SDK for the emulator (SAGEMAKER_USER_CONFIG_OVERRIDE).
SchemaVersion: '1.0'
SageMaker:
  PythonSDK:
    Modules:
      TelemetryOptOut: true
      Session:
        DefaultS3Bucket: {bucket}
"""


class NotRunning(SlotQError):
    """There is no emulator to talk to."""


class NotPrivate(SlotQError):
    """Others can write where the emulator's state would be kept."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """An emulator, as it has described itself."""

    run: str
    pid: int
    url: str
    region: str
    pools: str
    keys: Keys

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(url=self.url, keys=self.keys, region=self.region)

    def health(self) -> dict[str, Any] | None:
        """What it says of itself; None where it, and nothing else, does not answer."""
        said = health_at(self.url, self.keys.token)
        return said if said and said.get("run") == self.run else None


def health_at(url: str, token: str) -> dict[str, Any] | None:
    """What the emulator at this address says of itself; None where none answers."""
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.addheaders = [(TOKEN_HEADER, token)]
        with opener.open(f"{url}/_slotq/health", timeout=5) as answer:
            said: dict[str, Any] = json.load(answer)
    except (OSError, ValueError, urllib.error.URLError):
        return None
    return said if "run" in said else None


def folder() -> Path:
    """Made where it is missing, for nobody else to read."""
    home = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    path = Path(os.environ.get("SLOTQ_LOCAL_DIR") or Path(home) / "slotq").expanduser()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _close(path)
    return path.resolve()


def _close(path: Path) -> None:
    """Keep others out of the folder. Raises NotPrivate where that would take it from them."""
    seen = path.stat()
    if seen.st_uid != os.geteuid() or seen.st_mode & (stat.S_IWOTH | stat.S_ISVTX):
        raise NotPrivate(
            f"{path} is not yours alone, and the emulator keeps its keys there: name a folder of "
            "its own in SLOTQ_LOCAL_DIR"
        )
    if seen.st_mode & 0o077:
        path.chmod(0o700)


def log_file() -> Path:
    return folder() / "emulator.log"


def save(running: Running) -> None:
    values = asdict(running)
    del values["keys"]  # They have a file of their own, which outlives this emulator.
    keys.write_private(folder() / "emulator.json", json.dumps(values, indent=2))
    (folder() / "sagemaker.yaml").write_text(_SDK_CONFIG.format(bucket=running.endpoint.bucket))


def read() -> Running | None:
    """What was saved last, whether it runs or not."""
    kept = keys.read(folder())
    try:
        values = json.loads((folder() / "emulator.json").read_text())
        return None if kept is None else Running(**values, keys=kept)
    except (OSError, ValueError, TypeError):
        return None


def forget() -> None:
    (folder() / "emulator.json").unlink(missing_ok=True)


def running() -> Running:
    """The emulator that answers. Raises NotRunning."""
    saved = read()
    if saved is None or saved.health() is None:
        raise NotRunning("no emulator is running; `slotq local start --detach` starts one")
    return saved


def stop() -> str:
    """End the emulator and every process of its jobs; says what was done. Raises NotRunning."""
    saved = read()
    if saved is None:
        raise NotRunning("no emulator is running")
    if saved.health() is not None:
        _end(saved.pid)
        said = f"The emulator at {saved.url} has ended. {GOES_ON}"
    else:
        said = "The emulator was gone already."
    left = sweep(f"{saved.run}/")
    forget()
    return said + (f" {left} processes that it had left were ended." if left else "")


def _end(pid: int) -> None:
    """SIGTERM, and SIGKILL where that does not help."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < until:
            if not _alive(pid):
                return
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)


def _alive(pid: int) -> bool:
    """A zombie, whose parent has not looked yet, has ended."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:
        return True


def variables(running: Running) -> dict[str, str]:
    """The environment in which SDKs and `slotq` talk to the emulator."""
    return {
        **running.endpoint.variables(),
        "SLOTQ_ENDPOINT": running.endpoint.queue,
        "SLOTQ_REGION": running.region,
        "SLOTQ_LOCAL_TOKEN": running.keys.token,
        "SAGEMAKER_USER_CONFIG_OVERRIDE": str(folder() / "sagemaker.yaml"),
    }


UNSET = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "SLOTQ_API_ID", "SLOTQ_AWS_PROFILE", "SLOTQ_PROFILE")
"""Variables that would lead away from the emulator."""

"""The saved description of a running emulator, for `stop`, `env` and `as`.

The state folder is SLOTQ_LOCAL_DIR, else `$XDG_STATE_HOME/slotq`, else `~/.local/state/slotq`. It
has `emulator.json` and `emulator.lock` (one emulator per folder), `keys.json`, `emulator.log`,
`lambda.log` (the Lambda's output), `sagemaker.yaml` and the jobs' folders.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slotq.local import keys
from slotq.local.container.host_process import sweep
from slotq.local.endpoint import Endpoint
from slotq.local.keys import TOKEN_HEADER, EmulatorKeys
from slotq_core.errors import SlotQError

_STOP_SECONDS = 60.0
GOES_ON = "`slotq local start` continues from here; `slotq local start --fresh` starts afresh."
_IMAGE = "slotq-local"
"""A request must name an image. The emulator runs none."""
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
    """No emulator is running."""


class NotPrivate(SlotQError):
    """Other users could write to the state folder."""


class NotUsable(SlotQError):
    """The state folder cannot be made or written."""


class Taken(SlotQError):
    """Another emulator runs on the state folder."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """An emulator's description of itself."""

    run: str
    pid: int
    url: str
    region: str
    pools: str
    keys: EmulatorKeys

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(url=self.url, keys=self.keys, region=self.region)

    def health(self) -> dict[str, Any] | None:
        """The emulator's health report. None if the emulator does not answer, or another program
        does."""
        said = health_at(self.url, self.keys.token)
        return said if said and said.get("run") == self.run else None


def health_at(url: str, token: str) -> dict[str, Any] | None:
    """The health report of the emulator at this address. None if no emulator answers."""
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.addheaders = [(TOKEN_HEADER, token)]
        with opener.open(f"{url}/_slotq/health", timeout=5) as answer:
            said: dict[str, Any] = json.load(answer)
    except (OSError, ValueError, urllib.error.URLError):
        return None
    return said if "run" in said else None


def folder() -> Path:
    """The state folder. Creates it, readable only by the user. Raises NotPrivate and NotUsable."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    path = Path(os.environ.get("SLOTQ_LOCAL_DIR") or Path(home) / "slotq")
    try:
        path = path.expanduser()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _close(path)
    except FileExistsError:
        raise _not_usable(path, "it is a file") from None
    except OSError as error:
        raise _not_usable(path, error.strerror or str(error)) from None
    except RuntimeError:  # There is no home: no HOME, and a user without an account.
        raise _not_usable(path, "you have no home folder here") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise _not_usable(path, "it cannot be written")
    return path.resolve()


def _not_usable(path: Path, why: str) -> NotUsable:
    return NotUsable(
        f"the emulator cannot keep its state in {path}: {why}. Set SLOTQ_LOCAL_DIR to a folder "
        "that you can write"
    )


def _close(path: Path) -> None:
    """Make the folder private. Raises NotPrivate if the folder is another user's, world-writable or
    sticky."""
    seen = path.stat()
    if seen.st_uid != os.geteuid() or seen.st_mode & (stat.S_IWOTH | stat.S_ISVTX):
        raise NotPrivate(
            f"other users can reach {path}, where the emulator keeps its keys: set "
            "SLOTQ_LOCAL_DIR to a private folder"
        )
    if seen.st_mode & 0o077:
        path.chmod(0o700)


@contextlib.contextmanager
def taken() -> Iterator[None]:
    """Take the folder for this process, as long as it lives. Raises Taken.

    The kernel frees it at the process's end, so that an emulator that does not answer now, for
    example one that Ctrl-Z has suspended, is not taken for a dead one.
    """
    with (folder() / "emulator.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            saved = read()
            where = f"at {saved.url} (process {saved.pid})" if saved else f"on {folder()}"
            raise Taken(
                f"an emulator already runs {where}: stop it with `slotq local stop`, or set "
                "SLOTQ_LOCAL_DIR for a second one"
            ) from None
        yield


def _is_taken() -> bool:
    try:
        with taken():
            return False
    except Taken:
        return True


def log_file() -> Path:
    return folder() / "emulator.log"


def save(running: Running) -> None:
    values = asdict(running)
    del values["keys"]  # The keys have their own file, which outlives this emulator.
    keys.write_private(folder() / "emulator.json", json.dumps(values, indent=2))
    (folder() / "sagemaker.yaml").write_text(_SDK_CONFIG.format(bucket=running.endpoint.bucket))


def read() -> Running | None:
    """The emulator saved last, running or not."""
    kept = keys.read(folder())
    try:
        values = json.loads((folder() / "emulator.json").read_text())
        return None if kept is None else Running(**values, keys=kept)
    except (OSError, ValueError, TypeError):
        return None


def forget() -> None:
    (folder() / "emulator.json").unlink(missing_ok=True)


def running() -> Running:
    """The running emulator. Raises NotRunning."""
    saved = read()
    if saved is None or saved.health() is None:
        raise NotRunning("no emulator is running; `slotq local start --detach` starts one")
    return saved


def stop() -> str:
    """End the emulator and every process of its jobs. Returns what was done. Raises NotRunning."""
    saved = read()
    if saved is None:
        raise NotRunning("no emulator is running")
    if _is_taken() or saved.health() is not None:  # One of an earlier version takes no folder.
        _end(saved.pid)
        said = f"The emulator at {saved.url} has ended. {GOES_ON}"
    else:
        said = "The emulator had already ended."
    left = clear()
    return said + (f" {left} processes that it had left behind were ended." if left else "")


def clear() -> int:
    """Forget the emulator saved last, which has ended, and end the processes that it left behind.
    Returns how many."""
    saved = read()
    forget()
    return 0 if saved is None else sweep(f"{saved.run}/")


def _end(pid: int) -> None:
    """Send SIGTERM, then SIGKILL if the process does not end. A suspended one goes on first: the
    signal may otherwise reach a thread that does not wake the main one."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < until:
            if not _alive(pid):
                return
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)


def _alive(pid: int) -> bool:
    """Whether the process runs. A zombie counts as ended."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:
        return True


def variables(running: Running) -> dict[str, str]:
    """Environment variables that send SDKs and `slotq` to the emulator, with what `slotq submit --
    COMMAND` must know: a user's own image, role and bucket are not here."""
    return {
        **running.endpoint.variables(),
        "SLOTQ_ENDPOINT": running.endpoint.queue,
        "SLOTQ_REGION": running.region,
        "SLOTQ_IMAGE": _IMAGE,
        "SLOTQ_ROLE": f"arn:aws:iam::{running.endpoint.account}:role/trainer",
        "SLOTQ_OUTPUT": f"s3://{running.endpoint.bucket}",
        "SLOTQ_LOCAL_TOKEN": running.keys.token,
        "SAGEMAKER_USER_CONFIG_OVERRIDE": str(folder() / "sagemaker.yaml"),
    }


UNSET = (
    "AWS_DEFAULT_PROFILE",
    "AWS_PROFILE",
    "AWS_SESSION_TOKEN",
    "SLOTQ_API_ID",
    "SLOTQ_AWS_PROFILE",
    "SLOTQ_PROFILE",
)
"""Variables that would send calls elsewhere."""

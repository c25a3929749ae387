"""A node of the queue: the training job whose one process is the queue's own agent.

The emulator gives it what SageMaker's container gives, and nothing else: /opt/ml, the image's
Python, the rights of a container (`isolation`), and GPUs, real ones or pretended. The agent runs
the jobs (`slotq_core.adapters.nodes`).
"""

from __future__ import annotations

import contextlib
import stat
import subprocess
import threading
from collections.abc import Mapping
from typing import Any

from slotq.local.container.transfer import JobInputError
from slotq.local.container.workdir import Host
from slotq_core.adapters.sagemaker.observations import TOKEN_TAG
from slotq_core.names import token_in_tags
from slotq_core.wire.training.instance_types import CONTENTS

_TOKEN = "SLOTQ_NODE_TOKEN"  # noqa: S105 - a variable's name, not a secret # nosec B105
"""Environment variable of a node's request: its token."""
_GPUS = "SLOTQ_NODE_GPUS"
_NVIDIA_SMI = ("nvidia-smi", "--query-gpu=index", "--format=csv,noheader")
_PATIENCE = 60.0
_PRETENDED_MIB = 16 * 1024
"""The memory of a pretended GPU on an instance type without GPUs."""


def is_node(request: Mapping[str, Any]) -> bool:
    """Whether this is a node of the queue: its tags have the hash of the token in its environment.
    The queue alone sets this tag, and on a user's job it is that of the attempt, whatever variables
    the user sets."""
    token = (request.get("Environment") or {}).get(_TOKEN)
    tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags") or ()}
    return bool(token) and tags.get(TOKEN_TAG) == token_in_tags(str(token))


class NodeGpus:
    """The GPUs of this machine's nodes. Each real one is of one node at a time; a node of a type
    without GPUs gets all that are free. Thread-safe."""

    def __init__(self, pretended: int | None = None) -> None:
        """`pretended`: how many each node has that are not there. None: this machine's own, and
        where it has none, as many as the instance type has, pretended."""
        self._pretended = pretended
        self._real: list[str] | None = None
        """The ids; None: not looked for yet."""
        self._taken: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def take(self, training_job: str, request: Mapping[str, Any]) -> str:
        """Take a node's GPUs, in the form that the agent reads (SLOTQ_NODE_GPUS): names, or
        `pretend:NxMIB`. Raises JobInputError if too few are free."""
        if asked := (request.get("Environment") or {}).get(_GPUS):
            return str(asked)
        kind = str(request["ResourceConfig"].get("InstanceType", ""))
        if self._pretended is not None:
            return f"pretend:{self._pretended}x{_memory_mib(kind)}"
        with self._lock:
            if self._real is None:
                self._real = _gpus_of_machine()
            if not self._real:
                return f"pretend:{_count(kind)}x{_memory_mib(kind)}"
            return ",".join(self._take_real(training_job, kind, self._real))

    def give_back(self, training_job: str) -> None:
        with self._lock:
            self._taken.pop(training_job, None)

    def _take_real(self, training_job: str, kind: str, real: list[str]) -> list[str]:
        others = {gpu for taken in self._taken.values() for gpu in taken}
        free = [gpu for gpu in real if gpu not in others]
        wanted = _count(kind) or max(1, len(free))
        if wanted > len(free):
            raise JobInputError(
                f"a node on {kind} needs {wanted} GPUs, and of this machine's {len(real)} are "
                f"{len(free)} free: `slotq local start --gpus N` pretends some"
            )
        self._taken[training_job] = free[:wanted]
        return free[:wanted]


def _count(kind: str) -> int:
    """The GPUs of an instance type; 0 for an unknown one."""
    return CONTENTS[kind][0] if kind in CONTENTS else 0


def _memory_mib(kind: str) -> int:
    """The memory of a pretended GPU: as the instance type's have it."""
    return 1024 * (CONTENTS[kind][3] if kind in CONTENTS else 0) or _PRETENDED_MIB


def _gpus_of_machine() -> list[str]:
    """What CUDA calls this machine's GPUs. Empty without NVIDIA's driver."""
    try:
        ran = subprocess.run(  # a fixed command # nosec B603
            _NVIDIA_SMI, check=True, capture_output=True, text=True, timeout=_PATIENCE
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in ran.stdout.splitlines() if line.strip().isdigit()]


def unlock(host: Host) -> None:
    """Let the node's folders be removed: the agent has locked them."""
    for path in (host.root, *(host.root.iterdir() if host.root.is_dir() else ())):
        if path.is_dir() and not path.is_symlink():
            with contextlib.suppress(OSError):
                path.chmod(path.stat().st_mode | stat.S_IRWXU)


def node_variables(host: Host, gpus: str, *, sync_seconds: float) -> dict[str, str]:
    """The variables of the agent that are this machine's matter. `sync_seconds`: time between two
    looks at checkpoints, as for any other job of the emulator."""
    return {
        _GPUS: gpus,
        "SLOTQ_NODE_BASE": host.seen,
        "SLOTQ_NODE_SYNC": str(sync_seconds),
        "SLOTQ_NODE_WORK": f"{host.seen}/node",
    }

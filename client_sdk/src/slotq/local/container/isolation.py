"""Gives each process a private /opt/ml through a mount namespace, where Linux allows one.

Root uses `unshare -m`, other users `unshare -Urm` (where user namespaces are allowed). On a machine
without /opt/ml, a tmpfs covers /opt inside the namespace and shows the previous content. Nothing
outside the namespace changes. Without namespaces, the real folder replaces `/opt/ml` in the
command, the environment and the hyperparameters, and a script must not name /opt/ml itself.

A node's agent then loses the rights that SageMaker's containers lack, to mount above all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from slotq.local.container.workdir import Host

_ENTER = r"""
set -e
ml=$1 hosts=$2 folder=$3
shift 3
if [ ! -d /opt/ml ]; then
    before=$ml/../opt
    mkdir -p "$before"
    mount --rbind /opt "$before"
    mount -t tmpfs -o mode=755 tmpfs /opt
    for entry in "$before"/* "$before"/.[!.]*; do
        name=/opt/${entry##*/}
        if [ -L "$entry" ]; then cp -P "$entry" "$name"
        elif [ -d "$entry" ]; then mkdir "$name"; mount --rbind "$entry" "$name"
        elif [ -e "$entry" ]; then : > "$name"; mount --bind "$entry" "$name"
        fi
    done
    mkdir /opt/ml
fi
mount --bind "$ml" /opt/ml
if [ -s "$hosts" ]; then mount --bind "$hosts" /etc/hosts 2>/dev/null || true; fi
cd "$folder"
exec "$@"
"""


_CONTAINERS_RIGHTS = (
    "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service"
)
"""Root's rights in a container that gets none beyond Docker's own: no CAP_SYS_ADMIN, no
CAP_SYS_PTRACE."""


def inside(
    host: Host, command: Sequence[str], folder: str, environment: Mapping[str, str]
) -> list[str]:
    """The command to start: in a new mount namespace if the host is isolated."""
    command = [*(_contained(host) if host.contained else []), *command]
    if not host.isolated:
        return command
    hosts = str(host.root.parent / "hosts")
    # The shell drops the variables whose names it could not have itself: SM_HP_BATCH-SIZE.
    dropped = [f"{name}={value}" for name, value in environment.items() if not name.isidentifier()]
    command = ["env", *dropped, *command] if dropped else command
    return [*_unshare(), "sh", "-c", _ENTER, "slotq", str(host.root), hosts, folder, *command]


@cache
def available() -> bool:
    """Whether this machine allows a private /opt/ml. Tries one to find out."""
    if shutil.which("unshare") is None or not Path("/opt").is_dir():
        return False
    with tempfile.TemporaryDirectory() as folder:
        host = Host(name="algo-1", root=Path(folder) / "algo-1/ml", isolated=True)
        host.root.mkdir(parents=True)
        tried = subprocess.run(  # a fixed command # nosec B603
            inside(host, ["sh", "-c", "echo ok > /opt/ml/ok"], "/opt/ml", {}),
            check=False,
            capture_output=True,
            timeout=20,
        )
        return tried.returncode == 0 and (host.root / "ok").exists()


def _contained(host: Host) -> list[str]:
    """What takes a command's rights beyond those of a container."""
    if os.geteuid() == 0:
        return ["setpriv", "--bounding-set", _CONTAINERS_RIGHTS]
    if not host.isolated:
        return []
    # No longer the root of the namespace that may mount.
    return ["unshare", "-U", f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}"]


def _unshare() -> list[str]:
    return ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]

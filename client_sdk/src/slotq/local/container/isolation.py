"""An own /opt/ml for each process, by a mount namespace, where Linux allows.

Root uses `unshare -m`, anybody else `unshare -Urm` (where user namespaces are allowed). Where the
machine has no /opt/ml, /opt becomes a tmpfs that shows everything that was there before: nothing
outside the namespace is changed. Without namespaces `/opt/ml` in the command, the environment and
the hyperparameters is replaced by the real folder, and a script must not name /opt/ml itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
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


def inside(host: Host, command: Sequence[str], folder: str) -> list[str]:
    """The command as it is started: in its own mount namespace where the host is isolated."""
    if not host.isolated:
        return list(command)
    hosts = str(host.root.parent / "hosts")
    return [*_unshare(), "sh", "-c", _ENTER, "slotq", str(host.root), hosts, folder, *command]


@cache
def available() -> bool:
    """Whether this machine lets us have an own /opt/ml; found out by trying."""
    if shutil.which("unshare") is None or not Path("/opt").is_dir():
        return False
    with tempfile.TemporaryDirectory() as folder:
        host = Host(name="algo-1", root=Path(folder) / "algo-1/ml", isolated=True)
        host.root.mkdir(parents=True)
        tried = subprocess.run(  # a fixed command # nosec B603
            inside(host, ["sh", "-c", "echo ok > /opt/ml/ok"], "/opt/ml"),
            check=False,
            capture_output=True,
            timeout=20,
        )
        return tried.returncode == 0 and (host.root / "ok").exists()


def _unshare() -> list[str]:
    return ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]

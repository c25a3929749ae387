"""NVIDIA's tools as the agent sees them, without a GPU: nvidia-smi and the MPS control daemon."""

from __future__ import annotations

import time
from pathlib import Path

_SMI = """#!/bin/sh
echo "0, 40960, GPU-a"
echo "1, 40960, GPU-b"
"""

_CONTROL = """#!/bin/sh
fake=FOLDER pipe=$CUDA_MPS_PIPE_DIRECTORY
if [ "$1" = -f ]; then
  [ -e "$fake/refuses" ] && exit 1
  sleep 600 &
  echo "$* $CUDA_VISIBLE_DEVICES $$ $!" >> "$fake/started"
  echo $! > "$pipe/control"
  while [ ! -e "$pipe/quit" ]; do sleep 0.05; done
  kill -9 $!
  exit 0
fi
[ -e "$pipe/control" ] || exit 1
read -r command server client
echo "$command $server $client" >> "$fake/asked"
case $command in
  get_server_list) cat "$pipe/control" ;;
  get_client_list) ls "$fake/clients" ;;
  *) if [ -e "$fake/hangs" ]; then exec sleep 600; fi ;;
esac
case $command in
  terminate_client) kill -9 "$client" ;;
  quit) touch "$pipe/quit" ;;
esac
"""


class FakeMps:
    """The tools in a folder for PATH, and what they were asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "clients").mkdir(parents=True)
        (folder / "clients").chmod(0o1777)
        for name, text in (("nvidia-smi", _SMI), ("nvidia-cuda-mps-control", _CONTROL)):
            tool = folder / name
            tool.write_text(text.replace("FOLDER", str(folder)))
            tool.chmod(0o755)

    def path(self) -> str:
        """The value of PATH for an agent."""
        return f"{self.folder}:/usr/bin:/bin"

    def refuse(self) -> None:
        """Let no daemon start."""
        (self.folder / "refuses").touch()

    def hang(self) -> None:
        """Let the daemon answer nothing about clients, and not end."""
        (self.folder / "hangs").touch()

    def client(self, pid: int) -> None:
        """Let a process be a client."""
        (self.folder / "clients" / str(pid)).touch()

    def started(self) -> list[tuple[str, str, int, int]]:
        """The words, the GPU, the process and the server of each daemon."""
        file = self.folder / "started"
        rows = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return [(" ".join(row[:-3]), row[-3], int(row[-2]), int(row[-1])) for row in rows]

    def asked(self, word: str) -> list[str]:
        """The commands that begin with a word."""
        file = self.folder / "asked"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.strip() for line in lines if line.startswith(word)]


def alive(pid: int) -> bool:
    """Whether a process has neither ended nor been killed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until_dead(*pids: int) -> None:
    """Wait for processes that were killed."""
    for pid in pids:
        while alive(pid):
            time.sleep(0.01)

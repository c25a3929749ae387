"""The keys of one emulator: random, and readable only by their owner.

`keys.json` in the state folder keeps the keys over a restart: a shell that has read `slotq local
env` need not read it again.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from dataclasses import asdict, dataclass, field
from pathlib import Path

USER = "testing"
"""The IAM user that owns the access key."""
TOKEN_HEADER = "x-slotq-token"  # noqa: S105 - a header's name # nosec B105
_FILE = "keys.json"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


@dataclass(frozen=True, kw_only=True)
class EmulatorKeys:
    access_key: str
    secret_key: str = field(repr=False)
    token: str = field(repr=False)
    """Opens the emulator's controls (header `x-slotq-token`)."""

    @classmethod
    def made(cls) -> EmulatorKeys:
        """New keys. The access key has the form of AWS's own."""
        return cls(
            access_key="AKIA" + "".join(secrets.choice(_LETTERS) for _ in range(16)),
            secret_key=secrets.token_urlsafe(30),
            token=secrets.token_urlsafe(32),
        )


def read(folder: Path) -> EmulatorKeys | None:
    """The folder's keys. None without keys, or if another user could have read them."""
    try:
        with (folder / _FILE).open() as file:
            seen = os.fstat(file.fileno())
            private = seen.st_uid == os.geteuid() and not stat.S_IMODE(seen.st_mode) & 0o077
            return EmulatorKeys(**json.load(file)) if private else None
    except (OSError, ValueError, TypeError):
        return None


def kept(folder: Path) -> EmulatorKeys:
    """The folder's keys. Creates missing keys."""
    if found := read(folder):
        return found
    made = EmulatorKeys.made()
    write_private(folder / _FILE, json.dumps(asdict(made)))
    return made


def write_private(file: Path, text: str) -> None:
    """Replace a file by one that only its owner can ever read."""
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as output:
        output.write(text)
    new.replace(file)

"""The folder of a release: its template, its code and their digests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from slotq.errors import DocumentError

TEMPLATE = "slotq.template.json"
SUMS = "SHA256SUMS"
CODE = "code"
CODE_BUCKET = "CodeBucket"
"""The template's parameter for the bucket with the code."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    folder: Path
    template: Mapping[str, Any]
    digests: Mapping[str, str]
    """The SHA-256 of each file, by its path in the folder."""

    @property
    def version(self) -> str:
        return str(self.template["Metadata"]["SlotQ"]["Version"])

    @property
    def parameters(self) -> Mapping[str, Mapping[str, Any]]:
        """The template's parameters that a user may set."""
        return {k: v for k, v in self.template["Parameters"].items() if k != CODE_BUCKET}

    @property
    def template_key(self) -> str:
        """Where the template lies in the bucket: templates of other contents stay beside it."""
        return f"slotq/{self.digests[TEMPLATE][:16]}-{TEMPLATE}"

    @property
    def objects(self) -> Mapping[str, Path]:
        """What the bucket has to hold, by key."""
        code = sorted((self.folder / CODE).iterdir())
        named = {f"slotq/{path.name}": path for path in code}
        return {**named, self.template_key: self.folder / TEMPLATE}


def read(folder: Path) -> Release:
    """The release in a folder. Raises DocumentError unless each of its files is as it was built."""
    try:
        lines = (folder / SUMS).read_text().splitlines()
    except OSError:
        raise DocumentError(
            f"{folder} is not the folder of a release: it has no {SUMS}. Name the folder with "
            "--dir; `make release` in a clone builds one"
        ) from None
    digests = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    wrong = [name for name, digest in digests.items() if _digest(folder / name) != digest]
    code = (path.name for path in (folder / CODE).glob("*"))
    beside = [name for name in code if f"{CODE}/{name}" not in digests]
    if wrong or beside:
        named = ", ".join(sorted(wrong + beside))
        raise DocumentError(f"{folder}: not as it was built: {named}. Copy the release anew")
    template = json.loads((folder / TEMPLATE).read_text())
    return Release(folder=folder, template=template, digests=digests)


def _digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest() if file.is_file() else ""

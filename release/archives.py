"""Zip files that are the same bytes for the same contents, named by their digests."""

from __future__ import annotations

import zipfile
from hashlib import sha256
from pathlib import Path

_TIME = (1980, 1, 1, 0, 0, 0)
"""The first moment that a zip file can hold: when something was built is no part of it."""
_MODE = 0o100644 << 16
"""Readable by all, which Lambda asks for."""


def pack(folder: Path, into: Path) -> Path:
    """Pack the folder's files. Returns the archive: `into`'s name with a part of its digest."""
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _TIME)
            entry.external_attr, entry.compress_type = _MODE, zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return into.replace(into.with_stem(f"{into.stem}-{digest(into)[:16]}"))


def digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()

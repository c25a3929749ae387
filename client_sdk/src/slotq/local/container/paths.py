"""Maps names chosen by others (S3 keys, channels, archive members) to paths below a folder."""

from __future__ import annotations

import posixpath
from pathlib import Path


def below(folder: Path, name: str) -> Path:
    """The path of a name below the folder. Raises ValueError for a path outside or an empty one."""
    path = posixpath.normpath("/".join(part for part in name.split("/") if part))
    if path == ".." or path.startswith("../") or "\0" in path:
        raise ValueError(f"'{name}' points outside {folder}")
    return folder / path


def is_own_file(file: Path, root: Path) -> bool:
    """Whether `file` is a regular file below the root: no pipe, and no link to a file elsewhere."""
    try:
        return file.is_file() and file.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False

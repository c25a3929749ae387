"""Names that others have chosen (S3 keys, channels, members of archives), below a folder."""

from __future__ import annotations

import posixpath
from pathlib import Path


def below(folder: Path, name: str) -> Path:
    """Where a name is below the folder. Raises ValueError where it leads out, or is none at all."""
    path = posixpath.normpath("/".join(part for part in name.split("/") if part))
    if path == ".." or path.startswith("../") or "\0" in path:
        raise ValueError(f"'{name}' leads out of {folder}")
    return folder / path


def is_own_file(file: Path, root: Path) -> bool:
    """Whether it is a regular file below the root: no pipe, and no link to what lies elsewhere."""
    try:
        return file.is_file() and file.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False

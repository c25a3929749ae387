"""Archives and names that users made (S3 keys, channels): nothing is written outside a folder.

`unpack` creates no links. It copies the target of each link within the archive, so no later
member can be written through a link.
"""

from __future__ import annotations

import io
import posixpath
import shutil
import tarfile
from pathlib import Path

_MODES = 0o755


class Unsafe(Exception):
    """A member would be written outside the folder or into itself. The message names the member."""


def unpack(content: bytes, folder: Path) -> None:
    """Unpack a tar file into the folder. Raises TarError if the content is no tar file, and
    Unsafe."""
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        links = [member for member in tar if not _extracted(tar, member, folder)]
    while links:
        left = [member for member in links if not _copied(member, folder)]
        if len(left) == len(links):
            return  # The links left point to nothing.
        links = left


def _extracted(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> bool:
    """Extract one member. Returns False for a link. Skips devices and pipes."""
    place = _place(folder, member.name, member)
    if member.isdir():
        place.mkdir(parents=True, exist_ok=True)
    elif member.isreg() and (source := tar.extractfile(member)) is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("wb") as file:
            shutil.copyfileobj(source, file)
        place.chmod(member.mode & _MODES | 0o600)
    return not (member.issym() or member.islnk())


def _copied(link: tarfile.TarInfo, folder: Path) -> bool:
    """Copy what a link points to. Returns False while the target does not exist."""
    place, target = _place(folder, link.name, link), link.linkname
    if link.issym():
        if target.startswith("/"):
            raise Unsafe(f"{link.name} is a link to {target}")
        target = posixpath.join(posixpath.dirname(link.name), target)
    source = _place(folder, target, link)
    if not source.exists():
        return False
    if place.is_relative_to(source):
        raise Unsafe(f"{link.name} is a link to a folder around it")
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, place, dirs_exist_ok=True)
    else:
        shutil.copy2(source, place)
    return True


def _place(folder: Path, name: str, member: tarfile.TarInfo) -> Path:
    try:
        return below(folder, name)
    except ValueError:
        raise Unsafe(f"{member.name} points outside the archive") from None


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

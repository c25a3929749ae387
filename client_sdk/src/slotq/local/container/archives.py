"""Unpacking an archive that a user has made: nothing of it lands outside its folder.

No link is ever made. What a link leads to within the archive is copied in its place, so that no
later member can be written through it.
"""

from __future__ import annotations

import io
import posixpath
import shutil
import tarfile
from pathlib import Path

from slotq.local.container.paths import below

_MODES = 0o755


class Unsafe(Exception):
    """A member that would lead out of the folder, or into itself; the message names it."""


def unpack(content: bytes, folder: Path) -> None:
    """Raises TarError where it is no tar file, and Unsafe."""
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        links = [member for member in tar if not _extracted(tar, member, folder)]
    while links:
        left = [member for member in links if not _copied(member, folder)]
        if len(left) == len(links):
            return  # They lead to nothing.
        links = left


def _extracted(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> bool:
    """False for a link. Devices and pipes are left out."""
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
    """False where there is nothing to copy, yet."""
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
        raise Unsafe(f"{member.name} leads out of the archive") from None

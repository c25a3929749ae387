"""Pack a folder into an archive: the same files give the same bytes, wherever the folder is."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from slotq.errors import NotConfigured
from slotq.packaging.ignore_file import Ignored

IGNORE_FILES = (".slotqignore", ".gitignore")
"""The first existing file counts."""
MOST_BYTES = 200_000_000
"""A larger folder contains data, which belongs in S3 and reaches the job through a channel."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    content: bytes
    """A tar file, compressed with gzip."""
    files: int
    """Files of the folder, and links to folders."""
    digest: str
    """Digest of the content: 16 hex digits."""


def pack(folder: Path, *, beside: Mapping[str, bytes] | None = None) -> Pack:
    """Pack everything in the folder that is not ignored.

    `beside`: further files by name; a file of the folder with that name takes their place.

    Raises NotConfigured if `folder` is no folder, too large, or contains a link out of itself or
    what cannot be read.
    """
    if not folder.is_dir():
        raise NotConfigured(f"{folder} is not a folder: give --source the folder with the code")
    try:
        return _packed(folder, beside or {})
    except OSError as error:
        raise NotConfigured(
            f"{error.filename} cannot be read ({error.strerror}): name it in .slotqignore if the "
            "job does not need it"
        ) from None


def _packed(folder: Path, beside: Mapping[str, bytes]) -> Pack:
    files = list(packed_files(folder))
    _check_size(folder, files)
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in files:
            _add(archive, folder / name, name)
        for name, content in beside.items():
            if name not in files:
                _add_content(archive, name, content, mode=0o644)
    # mtime=0: a timestamp would make every archive different.
    packed = gzip.compress(tar.getvalue(), mtime=0)
    digest = hashlib.sha256(packed).hexdigest()[:16]
    return Pack(content=packed, files=len(files), digest=digest)


def packed_files(folder: Path) -> Iterator[str]:
    """Relative paths of the files to pack, and of the links to folders, with slashes, in order.

    Raises NotConfigured at a link out of the folder: the user of a cloned folder may not know what
    the link would include.
    """
    ignored = Ignored(_patterns(folder))
    for where, folders, names in os.walk(folder, onerror=_raise):
        below = Path(where).relative_to(folder)
        kept = []
        for name in sorted(folders):
            path = (below / name).as_posix()
            if not ignored.ignores(path, folder=True):
                _check_link(folder, path)
                if (folder / path).is_symlink():
                    yield path
                else:
                    kept.append(name)
        folders[:] = kept
        for name in sorted(names):
            path = (below / name).as_posix()
            if not ignored.ignores(path, folder=False) and (folder / path).is_file():
                _check_link(folder, path)
                yield path


def _raise(error: OSError) -> None:
    raise error


def _check_link(folder: Path, path: str) -> None:
    place = folder / path
    if place.is_symlink() and not (leads := place.resolve()).is_relative_to(folder.resolve()):
        raise NotConfigured(
            f"{place} is a link to {leads}, outside the packed folder: replace it with a copy, "
            "name it in .slotqignore if the job does not need it, or give data as --input "
            "NAME=s3://…"
        )


def _patterns(folder: Path) -> list[str]:
    for name in IGNORE_FILES:
        file = folder / name
        if file.is_file():
            # Names that are no UTF-8 are such surrogates, too.
            return file.read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines()
    return []


def _check_size(folder: Path, files: list[str]) -> None:
    sizes = {name: (folder / name).stat().st_size for name in files}
    total = sum(sizes.values())
    if total > MOST_BYTES:
        largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
        shown = ", ".join(f"{name} ({sizes[name] / 1e6:,.0f} MB)" for name in largest)
        raise NotConfigured(
            f"{folder} has {total / 1e6:,.0f} MB of files, and at most {MOST_BYTES / 1e6:,.0f} "
            f"MB are packed; the largest are {shown}. Exclude what is not code in .slotqignore, "
            "and give data as --input NAME=s3://…"
        )


def _add(archive: tarfile.TarFile, file: Path, name: str) -> None:
    """Add a file under `name`: links to files are followed, which those to folders might be for
    ever; owner and time are left out."""
    if file.is_dir():
        entry = tarfile.TarInfo(name)
        entry.type = tarfile.SYMTYPE
        entry.linkname = os.path.relpath(file.resolve(), file.parent.resolve())
        archive.addfile(entry)
        return
    mode = 0o755 if os.access(file, os.X_OK) else 0o644
    _add_content(archive, name, file.read_bytes(), mode=mode)


def _add_content(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))

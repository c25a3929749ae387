"""Pack a folder into an archive: the same files give the same bytes, wherever the folder is.

An ignore file in git's syntax says what is not packed. In a pattern, `#` begins a comment, `!`
cancels an earlier match, a final `/` matches only folders, and an initial `/` anchors the pattern
at the root. `*` and `?` do not match slashes, `**` does. The last matching pattern counts, and
nothing below an ignored folder is examined.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import string
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slotq.errors import NotConfigured

IGNORE_FILES = (".slotqignore", ".gitignore")
"""The first existing file counts."""
MOST_BYTES = 200_000_000
"""A larger folder contains data: put it into S3, and give it to the job as a channel."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    content: bytes
    """A tar file, compressed with gzip."""
    files: int
    """Files of the folder, links to folders, and empty folders."""
    digest: str
    """Digest of the content: 16 hex digits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderListing:
    """What a folder holds for a job, as relative paths with slashes, in order."""

    files: tuple[str, ...]
    """The files to pack, the links to folders, and the empty folders, with a slash at the end."""
    lost: tuple[str, ...]
    """What cannot be packed: links to nothing, sockets and the like."""
    ignored_by: str
    """The ignore file that counts."""

    def lacks(self, folder: Path, word: str) -> bool:
        """Whether a word of a command line names a file or folder that is there and not packed."""
        here = folder.absolute()
        path = Path(os.path.normpath(here / word))
        if not path.is_relative_to(here) or path == here or not os.path.lexists(path):
            return False
        name = path.relative_to(here).as_posix()
        return not any(file == name or file.startswith(f"{name}/") for file in self.files)


def listed(folder: Path, *, without: Collection[str] = ()) -> FolderListing:
    """Everything in the folder that is not ignored. `without`: folders at its top that do
    not count.

    Raises NotConfigured if `folder` is no folder, or contains a link out of itself or what cannot
    be read.
    """
    if not folder.is_dir():
        raise NotConfigured(f"{folder} is not a folder: give --source the folder with the code")
    try:
        found = [*_walked(folder, without)]
    except OSError as error:
        raise _cannot_read(error) from None
    return FolderListing(
        files=tuple(path for path, is_whole in found if is_whole),
        lost=tuple(path for path, is_whole in found if not is_whole),
        ignored_by=_ignore_file(folder) or "SlotQ",
    )


def pack(
    folder: Path,
    *,
    files: Sequence[str] | None = None,
    beside: Mapping[str, bytes] | None = None,
) -> Pack:
    """Pack these files of the folder; None: all of `listed`.

    `beside`: further files by name; a file of the folder with that name takes their place.

    Raises NotConfigured as `listed` does, and if the folder is too large.
    """
    chosen = listed(folder).files if files is None else files
    try:
        return _packed(folder, beside or {}, chosen)
    except OSError as error:
        raise _cannot_read(error) from None


def _cannot_read(error: OSError) -> NotConfigured:
    return NotConfigured(
        f"{error.filename} cannot be read ({error.strerror}): name it in .slotqignore if the "
        "job does not need it"
    )


def _packed(folder: Path, beside: Mapping[str, bytes], files: Sequence[str]) -> Pack:
    _check_size(folder, files)
    there = frozenset(files)
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in files:
            _add(archive, folder / name, name)
        for name, content in beside.items():
            if name not in there:
                _add_content(archive, name, content, mode=0o644)
    # mtime=0: a timestamp would make every archive different.
    packed = gzip.compress(tar.getvalue(), mtime=0)
    digest = hashlib.sha256(packed).hexdigest()[:16]
    return Pack(content=packed, files=len(files), digest=digest)


def _walked(folder: Path, without: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Relative paths of all that is not ignored, but for folders, with slashes, in order; and
    whether each can be packed.

    Raises NotConfigured at a link out of the folder: the user of a cloned folder may not know what
    the link would include.
    """
    ignored = Ignored(_patterns(folder))
    for where, folders, names in os.walk(folder, onerror=_raise):
        below = Path(where).relative_to(folder)
        if not folders and not names and below != Path():
            yield f"{below.as_posix()}/", True
        kept = []
        for name in sorted(folders):
            path = (below / name).as_posix()
            if path not in without and not ignored.ignores(path, folder=True):
                check_link(folder, path)
                if (folder / path).is_symlink():
                    yield path, True
                else:
                    kept.append(name)
        folders[:] = kept
        for name in sorted(names):
            path = (below / name).as_posix()
            if ignored.ignores(path, folder=False):
                continue
            is_whole = (folder / path).is_file()
            if is_whole:
                check_link(folder, path)
            yield path, is_whole


def top_of(folder: Path) -> list[str]:
    """What lies at the folder's top and is not ignored; folders with a slash."""
    ignored = Ignored(_patterns(folder))
    return [
        place.name + ("/" if place.is_dir() else "")
        for place in sorted(folder.iterdir())
        if not ignored.ignores(place.name, folder=place.is_dir())
    ]


def _raise(error: OSError) -> None:
    raise error


def check_link(folder: Path, path: str) -> None:
    """Raises NotConfigured if this path of the folder is a link out of it."""
    place = folder / path
    if place.is_symlink() and not (leads := place.resolve()).is_relative_to(folder.resolve()):
        raise NotConfigured(
            f"{place} is a link to {leads}, outside the packed folder: replace it with a copy, "
            "name it in .slotqignore if the job does not need it, or give data as --input "
            "NAME=s3://…"
        )


def _ignore_file(folder: Path) -> str | None:
    return next((name for name in IGNORE_FILES if (folder / name).is_file()), None)


def _patterns(folder: Path) -> list[str]:
    name = _ignore_file(folder)
    if name is None:
        return []
    # Names that are no UTF-8 are such surrogates, too.
    text = (folder / name).read_text(encoding="utf-8-sig", errors="surrogateescape")
    return text.splitlines()


def _check_size(folder: Path, files: Sequence[str]) -> None:
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
    if name.endswith("/"):
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(entry)
        return
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


ALWAYS = (
    ".git/",
    ".hg/",
    ".svn/",
    "__pycache__/",
    "*.pyc",
    ".venv/",
    "venv/",
    ".ipynb_checkpoints/",
)
"""Patterns for files that no training job needs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    folders_only: bool
    ignored: bool


class Ignored:
    """The patterns of an ignore file, after the patterns in ALWAYS."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._rules = [rule for line in (*ALWAYS, *lines) if (rule := _rule(line))]

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Whether `path` is ignored: relative to the packed folder, without a final slash."""
        fitting = (
            rule.ignored
            for rule in reversed(self._rules)
            if (folder or not rule.folders_only) and rule.pattern.fullmatch(path)
        )
        return next(fitting, False)


def _rule(line: str) -> _Rule | None:
    text = re.sub(r"(?<!\\)\s+$", "", line)
    if not text or text.startswith("#"):
        return None
    ignored = not text.startswith("!")
    text = text.removeprefix("!")
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    here = "" if "/" in text else "(?:.*/)?"
    return _Rule(
        pattern=re.compile(here + _regex(text.removeprefix("/")), re.DOTALL),
        folders_only=folders_only,
        ignored=ignored,
    )


_PARTS = re.compile(
    r"(?P<deep>(?:^|(?<=/))\*\*/)|(?P<all>(?<=/)\*\*$)|(?P<some>\*+)|(?P<one>\?)"
    r"|\[(?P<other>[!^]?)(?P<set>\]?(?:\\.|\[:[a-z]+:\]|[^]\\])*)\]"
    r"|(?P<never>\[|\\$)|\\?(?P<text>.)",
    re.DOTALL,
)
_MEANS = {"deep": "(?:.*/)?", "all": ".*", "some": "[^/]*", "one": "[^/]", "never": "(?!)"}
_MEMBERS = re.compile(r"\[:(?P<class>[a-z]+):\]|\\?(?P<low>.)(?:-\\?(?P<high>.))?", re.DOTALL)
_CLASSES = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "digit": string.digits,
    "lower": string.ascii_lowercase,
    "punct": string.punctuation,
    "space": string.whitespace,
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}


def _regex(glob: str) -> str:
    return "".join(map(_part, _PARTS.finditer(glob)))


def _part(found: re.Match[str]) -> str:
    if found["set"] is not None:
        members = "".join(map(_member, _MEMBERS.finditer(found["set"])))
        among = f"[{members}]" if members else "(?!)"
        return f"(?!{among})[^/]" if found["other"] else f"(?!/){among}"
    return re.escape(found["text"]) if found["text"] else _MEANS[found.lastgroup or ""]


def _member(found: re.Match[str]) -> str:
    """One member of a set, as in a set of `re`; empty if `re` has no such member."""
    if found["class"]:
        return re.escape(_CLASSES.get(found["class"], ""))
    low, high = found["low"], found["high"] or found["low"]
    return f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""

"""A host's checkpoints: from S3 before the job begins, and back while the job runs.

Markers lie beside them, as SageMaker's agent puts them there while it copies the files to S3.
`<file>.sagemaker-uploading` comes before the copy and becomes `<file>.sagemaker-uploaded` after it,
which then goes. More is not known of the agent. So a seed decides the rest: in which order the
agent takes files, how early it marks one, in which steps one marker becomes the other, how long
each stays, and whether markers are copied to S3 like other files.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotq.local.container.archives import is_own_file
from slotq.local.container.transfer import JobInputError, Storage, in_folder, split
from slotq.local.container.workdir import OPT_ML, Host

Signature = tuple[int, int]
"""A file's modification time and size."""

_MOST_SKIPPED = 10
"""How many calls of `sync` a file that changes all the time is left out for."""


class Checkpoints:
    """A host's checkpoint folder, kept in S3 while the job runs.

    As in SageMaker, nothing is ever removed from S3, a file may be copied while it is being
    written, and markers come and go beside the files that are copied. All hosts of a job share the
    prefix in S3: of files with one name the last copy stays.
    """

    def __init__(
        self, storage: Storage, config: Mapping[str, Any], host: Host, *, seed: str = ""
    ) -> None:
        """`seed` decides in which order files are copied, and markers come and go. Raises Fault."""
        self._storage = storage
        self._uri = config["S3Uri"].rstrip("/")
        local = (config.get("LocalPath") or f"{OPT_ML}/checkpoints").rstrip("/")
        try:
            self._folder = host.path(local)
        except ValueError:
            raise JobInputError(
                f"CheckpointConfig.LocalPath '{local}': the emulator keeps checkpoints below "
                f"{OPT_ML} only"
            ) from None
        self._root = host.root
        self._markers = UploadMarkers(seed)
        self._kept: dict[Path, Signature] = {}
        self._seen: dict[Path, Signature] = {}
        self._skipped: Counter[Path] = Counter()

    def restore(self) -> None:
        """Download the checkpoints of earlier attempts, before the job begins."""
        self._folder.mkdir(parents=True, exist_ok=True)
        bucket, prefix = split(f"{self._uri}/")
        for key in self._storage.keys(f"{self._uri}/"):
            if not key.endswith("/"):
                self._storage.fetch(bucket, key, in_folder(self._folder, key[len(prefix) :]))
        self._kept = dict(self._scan())

    def sync(self, *, last: bool = False) -> None:
        """Upload the files that have changed, and have not changed again since the previous call: a
        file is rarely uploaded while being written. A file that changes all the time goes up every
        `_MOST_SKIPPED` calls, as it is. With `last`, upload every changed file, and leave no
        marker."""
        self._markers.advance()
        found = dict(sorted(self._scan()))
        changed = [file for file in found if self._kept.get(file) != found[file]]
        due = [file for file in changed if last or self._is_due(file, found[file])]
        for step, file in self._markers.steps(changed, due):
            if step == "mark":
                self._markers.mark(file)
            else:
                self._upload(file, found[file])
                self._markers.copied(file)
        self._seen = found
        if last:
            self._markers.clear()

    def _is_due(self, file: Path, signature: Signature) -> bool:
        self._skipped[file] += 1
        settled = self._seen.get(file) == signature
        return settled or self._skipped[file] > _MOST_SKIPPED

    def _upload(self, file: Path, signature: Signature) -> None:
        """Upload a copy: S3 needs to know the size, and the file may shrink meanwhile."""
        copy = self._root.parent / "uploading"
        try:
            shutil.copyfile(file, copy)
        except FileNotFoundError:
            return  # The file was renamed meanwhile: the next call uploads the new name.
        self._storage.put(copy, f"{self._uri}/{file.relative_to(self._folder).as_posix()}")
        self._kept[file] = signature
        del self._skipped[file]

    def _scan(self) -> Iterator[tuple[Path, Signature]]:
        """The files to keep. The job may remove files and folders meanwhile."""
        for where, _, names in os.walk(self._folder):
            for file in (Path(where) / name for name in names):
                try:
                    if is_own_file(file, self._root):
                        stat = file.stat()
                        if self._markers.keeps(file, stat):
                            yield file, (stat.st_mtime_ns, stat.st_size)
                except FileNotFoundError:
                    continue


UPLOADING, UPLOADED = ".sagemaker-uploading", ".sagemaker-uploaded"
_ENDINGS = (UPLOADING, UPLOADED)
_FOR_GOOD = 1 << 30
"""Rounds that a marker stays that is not removed before the job's end."""


@dataclass(kw_only=True)
class _Marker:
    path: Path
    rounds: int | None
    """Rounds until it changes; None while the copy is not over."""


class UploadMarkers:
    """The markers in one folder. The agent copies files in rounds; delays are whole rounds.

    A file of the job's own is never written over nor removed, also if it is named like a marker.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)  # no secret # noqa: S311 # nosec B311
        self.copies_markers, self._early, self._together = (
            self._random.choice((False, True)) for _ in range(3)
        )
        self._markers: dict[Path, _Marker] = {}
        """By the file that was copied."""
        self._laid: set[tuple[int, int]] = set()
        """Each marker's device and inode: the job may rename the folder around it."""

    def keeps(self, file: Path, stat: os.stat_result) -> bool:
        """Whether a file is copied to S3."""
        return self.copies_markers or not self._is_marker(file, stat)

    def _is_marker(self, file: Path, stat: os.stat_result) -> bool:
        return file.name.endswith(_ENDINGS) and (stat.st_dev, stat.st_ino) in self._laid

    def steps(self, changed: Sequence[Path], due: Sequence[Path]) -> Iterator[tuple[str, Path]]:
        """The steps of a round: `mark` a file or `copy` it. Each file that is `due` is copied."""
        first = changed if self._early else due if self._together else ()
        yield from (("mark", file) for file in self._random.sample(first, len(first)))
        for file in self._random.sample(due, len(due)):
            yield "mark", file
            yield "copy", file

    def mark(self, file: Path) -> None:
        """Lay a marker beside a file that is to be copied."""
        if file not in self._markers and not file.name.endswith(_ENDINGS):
            self._lay(file, UPLOADING, rounds=None)

    def copied(self, file: Path) -> None:
        """The copy of a file is over, or there was none because the file has gone."""
        if marker := self._markers.get(file):
            marker.rounds = self._random.randrange(3)
            self._change_if_due(file, marker)

    def advance(self) -> None:
        """Begin a round: change or remove the markers whose time has come."""
        for file, marker in self._random.sample(list(self._markers.items()), len(self._markers)):
            if marker.rounds is not None:
                marker.rounds -= 1
                self._change_if_due(file, marker)
            elif not file.exists():
                self.copied(file)

    def clear(self) -> None:
        """Remove all markers."""
        for marker in self._markers.values():
            self._remove(marker.path)
        self._markers.clear()

    def _change_if_due(self, file: Path, marker: _Marker) -> None:
        if marker.rounds is None or marker.rounds > 0:
            return
        del self._markers[file]
        stays = self._random.choice((0, 1, 3, _FOR_GOOD))
        if marker.path.name.endswith(UPLOADED) or not stays:
            self._remove(marker.path)
            return
        how = self._random.choice(("rename", "remove first", "lay first"))
        if how == "rename":
            self._rename(file, marker, rounds=stays)
        elif how == "remove first":
            self._remove(marker.path)
            self._lay(file, UPLOADED, rounds=stays)
        else:
            self._lay(file, UPLOADED, rounds=stays)
            self._remove(marker.path)

    def _lay(self, file: Path, ending: str, *, rounds: int | None) -> None:
        path = file.with_name(file.name + ending)
        with contextlib.suppress(OSError):  # The folder has gone, the name is too long …
            opened = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            stat = os.fstat(opened)
            os.close(opened)
            self._laid.add((stat.st_dev, stat.st_ino))
            self._markers[file] = _Marker(path=path, rounds=rounds)

    def _rename(self, file: Path, marker: _Marker, *, rounds: int) -> None:
        path = file.with_name(file.name + UPLOADED)
        if path.exists():
            self._remove(marker.path)
            return
        with contextlib.suppress(OSError):
            marker.path.rename(path)
            self._markers[file] = _Marker(path=path, rounds=rounds)

    def _remove(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            if self._is_marker(path, path.lstat()):
                path.unlink()

"""Markers beside checkpoints, as SageMaker's agent lays them while it copies the files to S3.

`<file>.sagemaker-uploading` comes before the copy and becomes `<file>.sagemaker-uploaded` after it,
which then goes. More is not known of the agent. So a seed decides the rest: in which order the
agent takes files, how early it marks one, in which steps one marker becomes the other, how long
each stays, and whether markers are copied to S3 like other files.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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

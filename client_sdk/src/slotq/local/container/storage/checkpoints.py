"""A host's checkpoints: from S3 before the job begins, and back while the job runs."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slotq.local.container.paths import is_own_file
from slotq.local.container.storage.transfer import Fault, Storage, in_folder, split
from slotq.local.container.storage.upload_markers import UploadMarkers
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
            raise Fault(
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

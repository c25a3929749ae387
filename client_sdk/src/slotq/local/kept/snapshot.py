"""The saved state at one moment. `state.json` names the objects' files.

A save replaces `state.json` in one step, after writing every file that it names. If a save is
interrupted, the previous save stays valid. Parts from different moments do no harm: the queue looks
up its training jobs, as after a lost event.
"""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

from slotq.local.endpoint import Endpoint
from slotq.local.kept import items, lines, training_jobs
from slotq.local.kept.objects import Objects
from slotq.local.keys import write_private
from slotq.local.services.aws import TABLE
from slotq.local.training.plane import Plane

_VERSION = 1
_FOLDER, _FILE = "kept", "state.json"


class Unreadable(Exception):
    """The saved state is not readable by this emulator. The message says why, and what to do."""


class Snapshot:
    def __init__(self, work: Path, endpoint: Endpoint, plane: Plane) -> None:
        self._folder, self._endpoint, self._plane = work / _FOLDER, endpoint, plane
        self._objects = Objects(endpoint.client("s3"), self._folder / "objects", endpoint.region)
        self._dynamodb, self._logs = endpoint.client("dynamodb"), endpoint.client("logs")
        self._saving = threading.Lock()
        self._last = ""

    def save(self) -> None:
        """Save the changes."""
        with self._saving:
            index = self._objects.save()
            text = json.dumps(
                {
                    "version": _VERSION,
                    "region": self._endpoint.region,
                    "objects": index,
                    "items": items.saved(self._dynamodb, TABLE),
                    "lines": lines.saved(self._logs),
                    "jobs": training_jobs.saved(self._plane.jobs()),
                }
            )
            if text != self._last:
                write_private(self._folder / _FILE, text)
                self._last = text
            self._objects.forget_others(index)

    def restore(self) -> None:
        """Restore into an account that `furnish` has prepared. Raises Unreadable."""
        values = self._read()
        if values is None:
            return
        self._objects.restore(values["objects"])
        items.restore(self._dynamodb, TABLE, values["items"])
        lines.restore(self._logs, values["lines"])
        self._plane.take_over(training_jobs.read(values["jobs"]))

    def _read(self) -> dict[str, Any] | None:
        file = self._folder / _FILE
        try:
            values: dict[str, Any] = json.loads(file.read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            raise Unreadable(f"{file} is not JSON: start afresh with --fresh") from None
        if values.get("version") != _VERSION:
            raise Unreadable(f"{file} is from another version: start afresh with --fresh")
        if values["region"] != self._endpoint.region:
            raise Unreadable(
                f"the state in {self._folder} is of {values['region']}: start with --region "
                f"{values['region']}, or afresh with --fresh"
            )
        return values


def forget(work: Path) -> None:
    shutil.rmtree(work / _FOLDER, ignore_errors=True)

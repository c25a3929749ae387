"""The table's stream: what moto tells of each change, as Lambda hands it to the notifier.

moto's own shard keeps every change of every item for good. This one keeps changes of jobs, which is
all that the function's filter lets through, and forgets them once they are handled. It takes back
what a transaction wrote before it failed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import Item

from slotq_core.adapters.dynamodb.layout.table import JOB
from slotq_core.adapters.dynamodb.notices import SOURCE, VIEW


class JobStream:
    """Stands where moto has a table's shard."""

    def __init__(self) -> None:
        self._records: list[dict[str, Any]] = []
        self._number = 0
        self._lock = threading.Lock()

    def add(self, old: Item | None, new: Item | None) -> None:
        """Note a change. moto calls this with the item before and after."""
        images = {"OldImage": _attributes(old), "NewImage": _attributes(new)}
        said = {name: image for name, image in images.items() if image is not None}
        one = next(iter(said.values()), {})
        keys = {key: one.get(key, {}) for key in ("pk", "sk")}
        if keys["sk"] != {"S": JOB} or new is None:
            return
        with self._lock:
            self._number += 1
            record = {"Keys": keys, **said, "SequenceNumber": str(self._number)}
            self._records.append(
                {
                    "eventSource": SOURCE,
                    "eventName": "MODIFY" if "OldImage" in said else "INSERT",
                    "dynamodb": {**record, "StreamViewType": VIEW},
                }
            )

    def batch(self, most: int = 100) -> list[dict[str, Any]]:
        """Return the oldest records that are not handled."""
        with self._lock:
            return self._records[:most]

    def handled(self, number: int) -> None:
        """Forget the oldest records."""
        with self._lock:
            del self._records[:number]

    @contextmanager
    def unless_undone(self) -> Iterator[None]:
        """Take back what is added within, if an error ends it."""
        with self._lock:
            before = {id(record) for record in self._records}
        try:
            yield
        except Exception:
            with self._lock:
                self._records = [each for each in self._records if id(each) in before]
            raise


def attached(table: str, *, account: str, region: str) -> JobStream:
    """Give a table of moto's such a stream."""
    stream = JobStream()
    dynamodb_backends[account][region].get_table(table).stream_shard = stream
    return stream


def _attributes(item: Item | None) -> dict[str, Any] | None:
    return None if item is None else dict(item.to_json()["Attributes"])

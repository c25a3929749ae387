"""Makes moto's DynamoDB exact enough: one call at a time, fast transactions, and a stream.

Unpatched, moto runs calls of several threads at once on shared dictionaries (updates get lost, and
a failed transaction undoes other callers' writes), copies the whole table for each transaction, and
scans the whole table for each query.

moto's own shard keeps every change of every item for good. The stream here keeps changes of jobs,
which is all that the function's filter lets through, and forgets them once they are handled. It
takes back what a transaction wrote before it failed.
"""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from moto.dynamodb.models import DynamoDBBackend, dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler

from slotq_core.adapters.dynamodb.layout.table import JOB
from slotq_core.adapters.dynamodb.notices import SOURCE, VIEW

_LOCK = threading.RLock()
_INSTALLED = "_slotq_exact"

Saved = list[tuple[Table, DynamoType, DynamoType, Item | None]]


def install() -> None:
    """Patch moto permanently in this process. Repeated calls do nothing."""
    if not hasattr(DynamoDBBackend, _INSTALLED):
        setattr(DynamoDBBackend, _INSTALLED, True)
        _replace(DynamoHandler, "call_action", _one_at_a_time)
        _replace(DynamoDBBackend, "transact_write_items", _undoable)
        _replace(Table, "query", _in_one_partition)


def _replace(owner: type, method: str, wrap: Callable[[Callable[..., Any]], Any]) -> None:
    setattr(owner, method, wrap(getattr(owner, method)))


def _one_at_a_time(call_action: Callable[..., Any]) -> Callable[..., Any]:
    def locked(self: DynamoHandler) -> Any:
        with _LOCK:
            return call_action(self)

    return locked


def _undoable(transact: Callable[..., None]) -> Callable[..., None]:
    """Run a transaction without copying the table: save the items to be written, and restore them
    if the transaction fails."""

    def exact(self: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
        with _LOCK, _tables_uncopied():
            saved = [item for action in transact_items for item in _saved(self, action)]
            try:
                with _streams_in_step(self):
                    transact(self, transact_items)
            except Exception:
                _put_back(saved)
                raise

    return exact


@contextmanager
def _streams_in_step(backend: DynamoDBBackend) -> Iterator[None]:
    """Remove the stream records of a failed transaction."""
    with ExitStack() as stack:
        for table in backend.tables.values():
            if isinstance(table.stream_shard, JobStream):
                stack.enter_context(table.stream_shard.unless_undone())
        yield


@contextmanager
def _tables_uncopied() -> Iterator[None]:
    """Make moto's copy of a table, used to restore it, return the table itself."""
    kind: Any = Table
    kind.__deepcopy__ = lambda self, _memo: self
    try:
        yield
    finally:
        del kind.__deepcopy__


def _in_one_partition(query: Callable[..., Any]) -> Callable[..., Any]:
    """Restrict a query to the items of its partition. A query on an index sees all items."""
    signature = inspect.signature(query)

    def quick(self: Table, hash_key: DynamoType | None, *args: Any, **kwargs: Any) -> Any:
        asked = signature.bind(self, hash_key, *args, **kwargs).arguments
        if asked.get("index_name") is not None or hash_key is None:
            return query(self, hash_key, *args, **kwargs)
        whole = self.items
        self.items = {hash_key: whole[hash_key]} if hash_key in whole else {}
        try:
            return query(self, hash_key, *args, **kwargs)
        finally:
            self.items = whole

    return quick


def _saved(backend: DynamoDBBackend, action: Mapping[str, Any]) -> Saved:
    """The current item of an action. Actions that moto refuses are left to moto."""
    (operation,) = action.values() if len(action) == 1 else ({},)
    table = backend.tables.get(operation.get("TableName", ""))
    attributes = operation.get("Key") or operation.get("Item") or {}
    if table is None or not {table.hash_key_attr, table.range_key_attr} <= attributes.keys():
        return []
    pk = DynamoType(attributes[table.hash_key_attr])
    sk = DynamoType(attributes[table.range_key_attr])
    return [(table, pk, sk, copy.deepcopy(table.items.get(pk, {}).get(sk)))]


def _put_back(saved: Saved) -> None:
    for table, pk, sk, item in saved:
        if item is None:
            table.items[pk].pop(sk, None)
        else:
            table.items[pk][sk] = item


class JobStream:
    """Replaces moto's shard of a table."""

    def __init__(self) -> None:
        self._records: list[dict[str, Any]] = []
        self._number = 0
        self._lock = threading.Lock()

    def add(self, old: Item | None, new: Item | None) -> None:
        """Note a change. moto calls this with the item before and after."""
        images = {"OldImage": _attributes(old), "NewImage": _attributes(new)}
        said = {name: image for name, image in images.items() if image is not None}
        item = next(iter(said.values()), {})
        keys = {key: item.get(key, {}) for key in ("pk", "sk")}
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
                self._records = [record for record in self._records if id(record) in before]
            raise


def attached(table: str, *, account: str, region: str) -> JobStream:
    """Give a table of moto's such a stream."""
    stream = JobStream()
    dynamodb_backends[account][region].get_table(table).stream_shard = stream
    return stream


def _attributes(item: Item | None) -> dict[str, Any] | None:
    return None if item is None else dict(item.to_json()["Attributes"])

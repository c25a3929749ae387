"""Save the whole table to a file, and restore the file into a table of the same name
(docs/backup.md).

The file consists of lines of JSON: a head, then each item in DynamoDB's own form with bytes in
base64, then an end with the number of items and their hash, which reveals an incomplete file. The
file holds every request with its hyperparameters and environment, so only its owner can read it.

A restored table keeps when it was copied and restored (`layout.table.restored_key`): what was
stopped in between was stopped by a queue of which this table knows nothing.

A scan is no snapshot, so the queue must be paused meanwhile. `save` reads everything twice to
check this.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slotq_core.adapters.dynamodb.layout.items import keyed, write_restore
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.table import restored_key, task_key
from slotq_core.errors import SlotQError
from slotq_core.model.attempts import Restore
from slotq_core.timestamps import FAR_OFF, from_datetime, from_iso, iso

FORMAT = 1
_BATCH = 25
"""BatchWriteItem's maximum number of items in one call."""
_TRIES = 10


class BackupError(SlotQError):
    """The table or the file is unusable; the message says what to do."""


def _now() -> int:
    return time.time_ns() // 1_000_000


def save_table(client: Any, table: str, path: Path, *, clock: Callable[[], int] = _now) -> int:
    """Write all items of the table to a new file, with their time; return their number. Raises
    BackupError if the file exists or cannot be written, or if the queue worked meanwhile; no file
    is left then."""
    whole = path.with_name(f"{path.name}.part")
    copied_at = _restored_from(client, table) or clock()
    try:
        seen = _write(whole, table, _scan(client, table), copied_at)
        if _digest(_scan(client, table)) != seen:
            raise BackupError(
                f"the queue in {table} ran during the backup, so the copy may contradict "
                "itself: stop the queue first"
            )
        os.link(whole, path)
    except FileExistsError:
        raise BackupError(f"{path} exists already; name another file") from None
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        whole.unlink(missing_ok=True)
    return seen.items


def load_table(
    client: Any,
    table: str,
    path: Path,
    *,
    replace: bool = False,
    copied_at: int | None = None,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], int] = _now,
) -> int:
    """Put the file's items into the table, and the times of copy and restore; return the number of
    the file's items. `copied_at` (ms): the time of the items; None: as in the file.

    Raises BackupError if the file is incomplete or from the future, or if the table is not empty
    and `replace` is not set; nothing has changed then. After an interruption, run the load again
    with `replace`.
    """
    said, items = _read(path)
    copied_at, now = said if copied_at is None else copied_at, clock()
    if copied_at is not None and copied_at > now + FAR_OFF:
        raise BackupError(f"a copy of {iso(copied_at)} is later than now: give its real moment")
    there = [keyed((item["pk"]["S"], item["sk"]["S"])) for item in _scan(client, table)]
    if there and not replace:
        raise BackupError(f"{table} already holds {len(there):,} items; nothing was changed")
    _batches(client, table, ({"DeleteRequest": {"Key": key}} for key in there), pause)
    _batches(client, table, ({"PutRequest": {"Item": item}} for item in items), pause)
    if copied_at is not None:
        restored_at = clock()
        restore = Restore(copied_at=min(copied_at, restored_at), restored_at=restored_at)
        restored = keyed(restored_key(), write_restore(restore))
        _batches(client, table, [{"PutRequest": {"Item": restored}}], pause)
    return len(items)


def _restored_from(client: Any, table: str) -> int | None:
    """Return the time (ms) of the backup from which DynamoDB itself restored this table. None: it
    was not restored, or the queue has used it since: it has reconciled."""
    said = client.describe_table(TableName=table)["Table"].get("RestoreSummary", {})
    if "RestoreDateTime" not in said:
        return None
    copied_at = from_datetime(said["RestoreDateTime"])
    key = keyed(task_key("reconcile"))
    task = client.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item", {})
    due = int(task.get("nextAt", {}).get("N", "0").partition(".")[0])
    return copied_at if due <= copied_at + FAR_OFF else None


def _scan(client: Any, table: str) -> Iterator[Item]:
    asked: dict[str, Any] = {"TableName": table, "ConsistentRead": True}
    while True:
        page = client.scan(**asked)
        yield from page["Items"]
        if "LastEvaluatedKey" not in page:
            return
        asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]


@dataclass(frozen=True, kw_only=True)
class _Sum:
    """The sum of the items, stored at the end of the file."""

    items: int
    sha256: str


def _write(path: Path, table: str, items: Iterable[Item], copied_at: int) -> _Sum:
    path.unlink(missing_ok=True)
    private = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(private, "w") as file:
        head = {"slotq_backup": FORMAT, "table": table, "copied_at": iso(copied_at)}
        file.write(json.dumps(head) + "\n")
        end = _digest(items, file.write)
        file.write(json.dumps(asdict(end)) + "\n")
    return end


def _digest(items: Iterable[Item], write: Callable[[str], object] = len) -> _Sum:
    count, digest = 0, hashlib.sha256()
    for item in items:
        line = json.dumps(_coded(item), sort_keys=True) + "\n"
        digest.update(line.encode())
        write(line)
        count += 1
    return _Sum(items=count, sha256=digest.hexdigest())


def _read(path: Path) -> tuple[int | None, list[Item]]:
    """Return the time of the file's items (ms; None: the file is older than this field), and the
    items. Raises BackupError if the file is no backup, incomplete or changed."""
    try:
        lines = path.read_text().splitlines(keepends=True)
        parsed = [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise BackupError(f"{path} cannot be read as a backup: {error}") from None
    head = parsed[0] if len(parsed) > 1 and isinstance(parsed[0], dict) else {}
    if head.get("slotq_backup") != FORMAT:
        raise BackupError(f"{path} is not a backup that this version can read ({FORMAT})")
    digest = hashlib.sha256("".join(lines[1:-1]).encode()).hexdigest()
    if parsed[-1] != asdict(_Sum(items=len(parsed) - 2, sha256=digest)):
        raise BackupError(f"{path} is incomplete, or has been changed")
    return _copied_at(path, head), [_decoded(item) for item in parsed[1:-1]]


def _copied_at(path: Path, head: dict[str, Any]) -> int | None:
    if "copied_at" not in head:
        return None
    try:
        copied_at = from_iso(head["copied_at"])
        iso(copied_at)
    except (ValueError, TypeError, OverflowError):
        said = str(head["copied_at"])[:40]
        raise BackupError(f"{path} is of no moment that can be read: {said!r}") from None
    return copied_at


def _coded(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _coded(member) for name, member in value.items()}
    return [_coded(member) for member in value] if isinstance(value, list) else value


def _decoded(item: dict[str, Any]) -> Item:
    """Return an item's attributes, with the bytes under type B decoded at every level."""
    return {name: _attribute(value) for name, value in item.items()}


def _attribute(value: dict[str, Any]) -> dict[str, Any]:
    ((kind, content),) = value.items()
    match kind:
        case "B":
            return {kind: base64.b64decode(content)}
        case "BS":
            return {kind: [base64.b64decode(part) for part in content]}
        case "M":
            return {kind: _decoded(content)}
        case "L":
            return {kind: [_attribute(part) for part in content]}
    return value


def _batches(
    client: Any,
    table: str,
    requests: Iterable[dict[str, Any]],
    pause: Callable[[float], None],
) -> None:
    waiting = list(requests)
    for start in range(0, len(waiting), _BATCH):
        left = waiting[start : start + _BATCH]
        for attempt in range(_TRIES):
            answer = client.batch_write_item(RequestItems={table: left})
            left = answer.get("UnprocessedItems", {}).get(table, [])
            if not left:
                break
            pause(0.1 * 2**attempt)
        else:
            raise BackupError(
                f"DynamoDB did not accept every item for {table}: load the backup again later"
            )

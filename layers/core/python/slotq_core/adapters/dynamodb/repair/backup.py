"""Save the whole table to a file, and restore the file into a table of the same name
(docs/backup.md).

The file consists of lines of JSON: a head, then each item in DynamoDB's own form with bytes in
base64, then an end with the number of items and their hash, which reveals an incomplete file. The
file holds every request with its hyperparameters and environment, so only its owner can read it.

A scan is no snapshot, so the queue must stand still meanwhile. `save` reads everything twice to
check this.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import sleep
from typing import Any

from slotq_core.adapters.dynamodb.layout.items import Item, keyed
from slotq_core.errors import SlotQError

FORMAT = 1
_BATCH = 25
"""BatchWriteItem's maximum number of items in one call."""
_TRIES = 10


class BackupError(SlotQError):
    """The table or the file is not as required; the message says what to do."""


def save_table(client: Any, table: str, path: Path) -> int:
    """Write all items of the table to a new file; return their number. Raises BackupError if the
    file exists or cannot be written, or if the queue worked meanwhile; no file is left then."""
    whole = path.with_name(f"{path.name}.part")
    try:
        seen = _write(whole, table, _scan(client, table))
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
    pause: Callable[[float], None] = sleep,
) -> int:
    """Put the file's items into the table; return their number.

    Raises BackupError if the file is incomplete, or if the table is not empty and `replace` is not
    set; nothing has changed then. After an interruption, run the load again with `replace`.
    """
    items = _read(path)
    there = [keyed((item["pk"]["S"], item["sk"]["S"])) for item in _scan(client, table)]
    if there and not replace:
        raise BackupError(f"{table} already holds {len(there):,} items; nothing was changed")
    _batches(client, table, ({"DeleteRequest": {"Key": key}} for key in there), pause)
    _batches(client, table, ({"PutRequest": {"Item": item}} for item in items), pause)
    return len(items)


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


def _write(path: Path, table: str, items: Iterable[Item]) -> _Sum:
    path.unlink(missing_ok=True)
    private = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(private, "w") as file:
        file.write(json.dumps({"slotq_backup": FORMAT, "table": table}) + "\n")
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


def _read(path: Path) -> list[Item]:
    """Return the file's items. Raises BackupError if the file is no backup, incomplete or
    changed."""
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
    return [_decoded(item) for item in parsed[1:-1]]


def _coded(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _coded(each) for name, each in value.items()}
    return [_coded(each) for each in value] if isinstance(value, list) else value


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

"""Changes to the table's items that no code of ours would make."""

from __future__ import annotations

import json
from typing import Any

from slotq_core.adapters.dynamodb.layout import table
from slotq_core.model.jobs import Job
from slotq_core.policy.lines import line_of

Key = tuple[str, str]


class Table:
    """The table as a person at the console sees it."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self.name = name

    def all(self) -> dict[Key, dict[str, Any]]:
        items = self._client.scan(TableName=self.name)["Items"]
        return {(item["pk"]["S"], item["sk"]["S"]): item for item in items}

    def get(self, key: Key) -> dict[str, Any]:
        found = self._client.get_item(TableName=self.name, Key=_key(key), ConsistentRead=True)
        return dict(found.get("Item", {}))

    def put(self, key: Key, item: dict[str, Any]) -> None:
        self._client.put_item(TableName=self.name, Item={**item, **_key(key)})

    def remove(self, key: Key) -> None:
        self._client.delete_item(TableName=self.name, Key=_key(key))

    def change(self, key: Key, **attributes: Any) -> None:
        """Set an attribute; None removes it."""
        item = {**self.get(key), **attributes}
        self.put(key, {name: value for name, value in item.items() if value is not None})

    def spoil_copy(self, key: Key, **attributes: Any) -> None:
        """Change attributes of the job within one of its copies."""
        job = {**self.get(key)["job"]["M"], **attributes}
        job = {name: value for name, value in job.items() if value is not None}
        self.change(key, job={"M": job})

    def only(self, prefix: str) -> Key:
        """The only key in the partitions with this prefix."""
        (key,) = [key for key in self.all() if key[0].startswith(prefix)]
        return key


def _key(key: Key) -> dict[str, Any]:
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}}


def job(name: str) -> Key:
    return table.job_key(name)


def active(name: str, pool: str = "p5") -> Key:
    return table.active_key(pool, name)


def claim(name: str, pool: str = "p5") -> Key:
    return table.claim_key(pool, name)


def ledger(pool: str = "p5") -> Key:
    return table.ledger_key(pool)


def text(value: str) -> dict[str, str]:
    return {"S": value}


def number(value: int) -> dict[str, str]:
    return {"N": str(value)}


def another(line: str) -> str:
    """The name that another version gives a line that distinguishes jobs by one more property."""
    return json.dumps([*json.loads(line), "more"])


def as_another_version(items: Table, *waiting: Job) -> None:
    """Move these jobs to the lines and sort keys that another version would have given them."""
    for job in waiting:
        own = table.waiting_key(job)
        copy = items.get(own)
        items.remove(own)
        items.remove(table.line_key(line_of(job)))
        items.put((f"WAITING#{another(line_of(job))}", f"more#{own[1]}"), copy)
        items.put(table.line_key(another(line_of(job))), {"touched": number(job.entry_time)})

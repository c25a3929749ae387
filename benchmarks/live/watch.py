"""The soak's watch: no slot is used twice, in SageMaker or in the table's raw items."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from slotq.local.training.plane import Plane
from slotq_core.names import JOB_TAG
from tests.functional.account import TABLE

PAUSE = 0.05
"""The time (s) between two looks at the items."""
ENDED = ("completed", "failed", "cancelled", "stopped")


class Watch:
    """Watches from its own thread; `called` watches SageMaker in the callers' threads."""

    def __init__(self, client: Any, plane: Plane, pools: Mapping[str, int]) -> None:
        """`pools`: the slots by instance type, in the order of the pools."""
        self.wrong: list[str] = []
        """What must never happen, in words."""
        self.looks = 0
        """Looks at a pool's items that were consistent, and so count."""
        self._client, self._plane, self._slots = client, plane, dict(pools)
        self._pools = {f"pool-{n}": slots for n, slots in enumerate(pools.values())}
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    # --- SageMaker

    def called(self, operation: str, request: Any) -> Any:
        """Pass a call on, and look at what runs after a create."""
        with self._lock:
            try:
                return self._plane.handle(operation, request)
            finally:
                if operation == "CreateTrainingJob":
                    self._look_at_training()

    def _look_at_training(self) -> None:
        used = dict.fromkeys(self._slots, 0)
        jobs: list[str] = []
        for job in self._plane.live().values():
            jobs.append(job.tags.get(JOB_TAG, job.name))
            for kind, count in job.instances.items():
                used[kind] += count
        self.wrong += [
            f"{used[kind]} of {slots} instances of {kind} run"
            for kind, slots in self._slots.items()
            if used[kind] > slots
        ]
        self.wrong += [f"{job} trains twice" for job in {*jobs} if jobs.count(job) > 1]

    # --- the raw items

    def _run(self) -> None:
        while not self._over.wait(PAUSE):
            for pool, slots in self._pools.items():
                self.look_at_items(pool, slots)

    def look_at_items(self, pool: str, slots: int) -> None:
        """The jobs in a pool's partition hold what its ledger says, and no more than there is. A
        look during which the ledger's version moves does not count."""
        before = self._ledger(pool)
        held = sum(
            int(item["job"]["M"]["demand"]["M"]["slots"]["N"])
            for item in self._partition(f"POOL#{pool}")
            if item["sk"]["S"].startswith("ACTIVE#")
        )
        if not before or self._ledger(pool) != before:
            return
        self.looks += 1
        used = int(before.get("used_slots", {"N": "0"})["N"])
        if held != used or used > slots:
            self.wrong.append(f"{pool}: jobs hold {held}, the ledger says {used} of {slots}")

    def _ledger(self, pool: str) -> dict[str, Any]:
        key = {"pk": {"S": f"POOL#{pool}"}, "sk": {"S": "LEDGER"}}
        answer = self._client.get_item(TableName=TABLE, Key=key, ConsistentRead=True)
        found: dict[str, Any] = answer.get("Item", {})
        return found

    def _partition(self, pk: str) -> Iterator[dict[str, Any]]:
        pages = self._client.get_paginator("query").paginate(
            TableName=TABLE,
            ConsistentRead=True,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": pk}},
        )
        return (item for page in pages for item in page["Items"])

    # --- the end

    def ended(self) -> int:
        """How many jobs have ended."""
        return sum(self._count(state) for state in ENDED)

    def _count(self, state: str) -> int:
        pages = self._client.get_paginator("query").paginate(
            TableName=TABLE,
            IndexName="by-state",
            Select="COUNT",
            KeyConditionExpression="jobState = :state",
            ExpressionAttributeValues={":state": {"S": state}},
        )
        return sum(int(page["Count"]) for page in pages)

    def states(self) -> dict[str, str]:
        """Every job's state by name."""
        return {
            item["jobName"]["S"]: item["jobState"]["S"]
            for item in self._items()
            if item["sk"]["S"] == "JOB"
        }

    def left_over(self) -> list[str]:
        """What ought not to be there once every job has ended."""
        found = [f"{name} still trains" for name in self._plane.live()]
        for item in self._items():
            pk, sk = item["pk"]["S"], item["sk"]["S"]
            copy = pk.startswith(("WAITING#", "DUE")) or sk.startswith(
                ("ACTIVE#", "CLAIM#", "HELD#")
            )
            used = sk == "LEDGER" and item.get("used_slots", {"N": "0"}) != {"N": "0"}
            if copy or used or pk == "POISON":
                found.append(f"{pk} {sk} is left over")
        return found

    def _items(self) -> Iterator[dict[str, Any]]:
        pages = self._client.get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True)
        return (item for page in pages for item in page["Items"])

"""Unexpected running training jobs, remembered between two reconciliations."""

from __future__ import annotations

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import sighting_of
from slotq_core.adapters.dynamodb.layout.records import write
from slotq_core.adapters.dynamodb.layout.validation import Sieve
from slotq_core.ports.training import Sighting


class Sightings:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls

    def all(self) -> tuple[Sighting, ...]:
        """Return the sightings. An unreadable one counts as never seen and is examined again."""
        items = self._calls.query(expressions.partition(table.SEEN))
        return tuple(Sieve().read(items, sighting_of))

    def remember(self, sighting: Sighting) -> None:
        self._calls.put(table.sighting_key(sighting.training_job), write(sighting))

    def forget(self, training_job: str) -> None:
        self._calls.delete(table.sighting_key(training_job))

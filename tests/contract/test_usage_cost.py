"""What a report of use reads: a part for each day that is added up, whatever the number of its
attempts, and records only of the days that are not."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.items import keyed
from slotq_core.adapters.dynamodb.layout.records import write
from slotq_core.adapters.dynamodb.layout.table import ended_partition
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.operations.usage.day_sums import SETTLED, DaySums
from slotq_core.operations.usage.report import UsageReport
from slotq_core.timestamps import iso
from slotq_core.usage.attempt_use import AttemptUse
from slotq_core.usage.calendar_days import DAY, begin_of, day_of
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.test_dynamodb_cost import measured
from tests.contract.test_usage import StandingClock
from tests.contract.worlds import a_queue

START = begin_of("2026-10-01")
DAYS = 31
CALLS_OF_A_REPORT = 1 + 3 + 3
"""The list of sums; the revision, the pools and the active jobs of one pool; three reads of days
that are not added up: the last day of the month, today, and today again behind the running jobs."""


def an_item(day: int, number: int) -> dict[str, Any]:
    ended = START + day * DAY + 3_600_000 + number
    use = AttemptUse(
        job=f"a-training-job-of-some-length-{day}-{number}",
        number=1,
        project=f"project-{number % 7}",
        submitter=f"arn:aws:sts::123456789012:assumed-role/Team/person-{number % 5}",
        workload="training",
        pool="p5",
        instance_type="ml.p5.48xlarge",
        slots=2,
        admitted_at=ended - 3_000_000,
        waiting_since=ended - 3_600_000,
        running_since=ended - 2_900_000,
        ended_at=ended,
    )
    key = ended_partition(day_of(ended)), f"{iso(ended)}#{use.job}#0001"
    return keyed(key, write(use))


def fill(client: EventedDynamo, table: str, attempts_a_day: int) -> None:
    days = range(DAYS)
    client.fill(table, (an_item(day, number) for day in days for number in range(attempts_a_day)))


@pytest.mark.parametrize("attempts_a_day", [5, 60])
def test_a_report_reads_one_part_a_day(
    evented_client: EventedDynamo, evented_store: tuple[DynamoStore, str], attempts_a_day: int
) -> None:
    store, table = evented_store
    a_queue(store)
    fill(evented_client, table, attempts_a_day)
    now = START + DAYS * DAY + SETTLED - 1
    DaySums(store.usage, store.scheduler, StandingClock(now)).run_if_due(now)
    assert len(store.usage.sums()) == DAYS - 1
    with measured(evented_client) as meter:
        page = UsageReport(store.usage, StandingClock(now)).page(start=START, by=("project",))
    assert page.next is None
    assert sum(each.attempts for each in page.totals.values()) == DAYS * attempts_a_day
    assert len(meter.calls) == CALLS_OF_A_REPORT + DAYS - 1
    assert meter.read_bytes < 30_000 + 1_500 * attempts_a_day
    assert meter.read_bytes / (DAYS * attempts_a_day) < 250


def test_a_tick_that_has_nothing_to_add_up_asks_once_an_hour(
    evented_client: EventedDynamo, evented_store: tuple[DynamoStore, str]
) -> None:
    store, _ = evented_store
    a_queue(store)
    sums, now = DaySums(store.usage, store.scheduler, StandingClock(START)), START
    sums.run_if_due(now)
    with measured(evented_client) as meter:
        for minute in range(60):
            sums.run_if_due(now + minute * 60_000)
    assert meter.calls == []
    with measured(evented_client) as meter:
        sums.run_if_due(now + 3_600_000)
    assert meter.calls[0] == "UpdateItem"
    assert meter.read_units <= 40

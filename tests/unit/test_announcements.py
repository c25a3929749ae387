"""Announcements of state changes: in batches that EventBridge accepts, each only once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from slotq_core.adapters.eventbridge import Announcements
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.ports.stored import Change


class Bus:
    """EventBridge's client. It refuses the first `refused` entries of each call; one call gets no
    answer."""

    def __init__(self, *, refused: int = 0, silent: int | None = None) -> None:
        self.calls: list[list[str]] = []
        self._refused, self._silent = refused, silent

    def put_events(self, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        self.calls.append([json.loads(entry["Detail"])["job"] for entry in Entries])
        if len(self.calls) - 1 == self._silent:
            raise ReadTimeoutError(endpoint_url="events")
        return {"FailedEntryCount": self._refused}


def noted(bus: Bus, jobs: int, errors: list[Exception]) -> Announcements:
    news = Announcements(lambda: bus, queue="q", report=errors.append)
    for number in range(jobs):
        news.submitted(job(f"job{number}"))
    return news


def job(name: str, state: JobState = JobState.PENDING) -> Job:
    return Job(
        name=name,
        state=state,
        priority=0,
        entry_time=0,
        demand=Demand(slots=1),
        pools=("p",),
    )


@pytest.mark.parametrize(("jobs", "sizes"), [(0, []), (1, [1]), (10, [10]), (25, [10, 10, 5])])
def test_announcements_are_sent_once_in_order_ten_at_a_time(jobs, sizes):
    bus = Bus()
    news = noted(bus, jobs, [])
    assert news.send() == 0
    assert [len(call) for call in bus.calls] == sizes
    assert [name for call in bus.calls for name in call] == [
        f"job{number}" for number in range(jobs)
    ]
    assert news.send() == 0
    assert len(bus.calls) == len(sizes)


def test_refused_announcements_are_counted():
    assert noted(Bus(refused=2), 25, []).send() == 6


def test_the_rest_is_given_up_after_a_call_without_an_answer():
    errors: list[Exception] = []
    bus = Bus(silent=1)
    assert noted(bus, 35, errors).send() == 25
    assert len(bus.calls) == 2
    assert [type(error) for error in errors] == [ReadTimeoutError]


def test_a_change_within_a_state_is_not_announced():
    bus = Bus()
    news = Announcements(lambda: bus, queue="q", report=pytest.fail)
    same = job("a", JobState.STARTING)
    news.committed(Change(before=same, after=same), same)
    assert news.send() == 0
    assert bus.calls == []

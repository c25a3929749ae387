"""Compares the expectations of a scenario with the record of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from slotq.simulate.run.record import Record, RecordedEvent
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import Expectation
from slotq_core.model.reasons import BehindInLine
from slotq_core.model.reasons.outlook import Outlook
from slotq_core.operations.status import Status

_RUNNING = {"starting", "running"}


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedExpectation:
    """One expectation that does not hold. `at` is the scenario's time in milliseconds."""

    at: int
    what: str
    """`state`, `started`, `evictions`, `running_slots`, `warned`, `why`; `live`: an event of
    the live run."""
    of: str
    """The job, or the project."""
    expected: Any
    seen: Any

    def as_json(self) -> dict[str, Any]:
        return {
            "at": self.at / 1000,
            "what": self.what,
            "of": self.of,
            "expected": self.expected,
            "seen": self.seen,
        }


def differences(scenario: Scenario, record: Record) -> list[FailedExpectation]:
    """The expectations that do not hold, in the scenario's order."""
    return [
        found for expected in scenario.expect for found in _differences(scenario, expected, record)
    ]


def expectations(scenario: Scenario) -> int:
    """The number of single statements in the scenario's expectations."""
    return sum(
        len(expected.states)
        + len(expected.started)
        + len(expected.evictions)
        + len(expected.running_slots)
        + len(expected.warned)
        + len(expected.why)
        for expected in scenario.expect
    )


def _differences(
    scenario: Scenario, expected: Expectation, record: Record
) -> Iterator[FailedExpectation]:
    at = record.end if isinstance(expected.at, str) else expected.at
    for what, of, wanted, seen in _compared(scenario, expected, record, at):
        if wanted != seen:
            yield FailedExpectation(at=at, what=what, of=of, expected=wanted, seen=seen)


def _compared(
    scenario: Scenario, expected: Expectation, record: Record, at: int
) -> Iterator[tuple[str, str, Any, Any]]:
    for name, state in expected.states.items():
        yield "state", name, state, record.state_at(name, at)
    for name, moments in expected.started.items():
        starts = [t for t in record.started(name) if t <= at]
        yield "started", name, _seconds(moments), _seconds(starts)
    for name, count in expected.evictions.items():
        yield "evictions", name, count, sum(t <= at for t in record.evicted(name))
    for project, slots in expected.running_slots.items():
        running = sum(
            spec.needed.slots
            for spec in scenario.jobs
            if spec.project == project and record.state_at(spec.name, at) in _RUNNING
        )
        yield "running_slots", project, slots, running
    for project, moments in expected.warned.items():
        warned = [t for t in record.warned.get(project, ()) if t <= at]
        yield "warned", project, _seconds(moments), _seconds(warned)
    for why in expected.why:
        wanted = why.model_dump(exclude={"job"}, exclude_unset=True)
        if wanted.get("earliest") is not None:
            wanted["earliest"] /= 1000
        said = _said(record.asked.get((at, why.job)))
        yield "why", why.job, wanted, {key: said[key] for key in wanted} if said else None


def _said(status: Status | None) -> dict[str, Any] | None:
    """The status of a waiting job, in the form of an expectation. None: the job does not wait."""
    if status is None:
        return None
    outlook, reason = status.outlook or Outlook(), status.reason
    evictions: Counter[str] = Counter()
    reserved: Counter[str] = Counter()
    for victim in outlook.spared:
        evictions[victim.code] += victim.slots
    for kept in outlook.reserved:
        reserved[kept.job] += kept.slots
    return {
        "reason": reason.code if reason else None,
        "also": reason.also.code if reason and reason.also else None,
        "head": reason.head or None if isinstance(reason, BehindInLine) else None,
        "place": status.place,
        "evictions": dict(evictions),
        "reserved": dict(reserved),
        "earliest": None if outlook.earliest is None else outlook.earliest / 1000,
    }


def _seconds(moments: Iterable[int]) -> list[float]:
    return [t / 1000 for t in moments]


def unequal(policy: Record, live: Record) -> list[FailedExpectation]:
    """The differences between the live run's events and the policy's. The first difference is
    enough.

    Events at the same moment may come in any order.
    """
    planned, lived = _ordered(policy), _ordered(live)
    for place in range(max(len(planned), len(lived))):
        expected_event = planned[place] if place < len(planned) else None
        seen_event = lived[place] if place < len(lived) else None
        if expected_event != seen_event:
            first = min(
                (event for event in (expected_event, seen_event) if event),
                key=lambda event: event.t,
            )
            return [
                FailedExpectation(
                    at=first.t,
                    what="live",
                    of=first.job,
                    expected=expected_event.as_json() if expected_event else None,
                    seen=seen_event.as_json() if seen_event else None,
                )
            ]
    return []


def _ordered(record: Record) -> list[RecordedEvent]:
    return sorted(record.events, key=lambda e: (e.t, e.job, e.event, e.pool or "", e.reason))

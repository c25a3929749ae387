"""What happened: events, states over time and figures, taken from the changes of jobs.

Both ways to run a scenario, on the policy alone and live, record by the same function, so that
their records can be compared.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from slotq_core.model import Job, JobState, StopCause

REFUSED = "refused"

EVICTIONS = ("evict", "yield")
"""The events that are evictions."""

_STOPS: dict[StopCause | None, str] = {StopCause.EVICTED: "evict", StopCause.YIELDED: "yield"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One thing that happened. `t` in milliseconds of the scenario."""

    t: int
    event: str
    """submit, refuse, start, evict, yield, stopped, complete, fail, cancel, demote."""
    job: str
    pool: str | None = None
    reason: str = ""

    def as_json(self) -> dict[str, object]:
        return {
            "t": self.t / 1000,
            "event": self.event,
            "job": self.job,
            "pool": self.pool,
            "reason": self.reason,
        }


@dataclass(kw_only=True, slots=True)
class Record:
    """The history of one run."""

    events: list[Event] = field(default_factory=list)
    states: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """By job: its states and since when, in order."""
    end: int = 0
    """The last moment at which anything was due."""

    def refuse(self, name: str, t: int, reason: str) -> None:
        self.states[name].append((t, REFUSED))
        self.events.append(Event(t=t, event="refuse", job=name, reason=reason))

    def change(self, before: Job | None, after: Job, t: int) -> None:
        """Take in one change of one job."""
        t = max(0, t)
        if before is None or before.state is not after.state:
            self.states[after.name].append((t, after.state.value))
        for event, reason in _events(before, after):
            holder = after if after.attempt else before
            pool = holder.attempt.pool if holder and holder.attempt else None
            self.events.append(Event(t=t, event=event, job=after.name, pool=pool, reason=reason))

    def state_at(self, name: str, t: int) -> str:
        """The job's state after everything due at `t`; 'not submitted' before it was."""
        state = "not submitted"
        for since, then in self.states[name]:
            if since <= t:
                state = then
        return state

    def started(self, name: str) -> list[int]:
        return [event.t for event in self.events if (event.job, event.event) == (name, "start")]

    def evictions(self, name: str) -> int:
        """Yields to a time slice among them: each is one."""
        return sum(event.job == name and event.event in EVICTIONS for event in self.events)


def _events(before: Job | None, after: Job) -> list[tuple[str, str]]:
    """The events that a change means, with their reasons."""
    if before is None:
        return [("submit", "")]
    if _stop_cause(after) is not _stop_cause(before) and _stop_cause(after):
        return [(_STOPS.get(_stop_cause(after), "cancel"), after.message)]
    if before.state is after.state:
        demoted = after.priority_class != before.priority_class
        return [("demote", f"now {after.priority_class}")] if demoted else []
    ended = before.active and not after.active
    match after.state:
        case JobState.STARTING:
            return [("start", "")]
        case JobState.COMPLETED:
            return [("complete", "")]
        case JobState.FAILED:
            return [("fail", after.message)]
        case JobState.CANCELLED if not ended:
            return [("cancel", after.message)]
    return [("stopped", after.message)] if ended else []


def _stop_cause(job: Job) -> StopCause | None:
    return job.attempt.stop.cause if job.attempt and job.attempt.stop else None

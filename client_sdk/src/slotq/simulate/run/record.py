"""The record of a run: events, states over time and figures, from the changes of jobs.

The policy alone and the live run record by the same function, so their records can be compared.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.projects import BudgetStatus
from slotq_core.operations.status import Status

REFUSED = "refused"

_EVICTIONS: dict[StopCause | None, str] = {
    StopCause.EVICTED: "evict",
    StopCause.YIELDED: "yield",
    StopCause.CLOSED: "suspend",
}
"""The events of evictions, by the decided stop cause."""
_STOPS: dict[StopCause | None, str] = {**_EVICTIONS, StopCause.STALLED: "stall"}
"""The events of stops that the queue decides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedEvent:
    """One event. `t` is the scenario's time in milliseconds."""

    t: int
    event: str
    """submit, refuse, start, evict, yield, stopped, complete, fail, cancel, demote; suspend: the
    hours of its pool stop a job; stall: a silent script is warned of or stopped; interrupt, resume:
    SageMaker has taken spot instances back, and found others; budget: a project has come near its
    budget."""
    job: str
    """Empty for `budget`."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One attempt while it held slots. Times in the scenario's milliseconds."""

    job: str
    pool: str
    since: int
    """Before 0 if the attempt ran when the scenario began."""
    running: int | None = None
    """When it first had its instances. None: never."""
    stopping: int | None = None
    """When the stop was decided. None: never."""
    until: int | None = None
    """The end. None: the attempt held slots at the end of the run."""
    outcome: str = ""
    """The job's state after the attempt. `preempted`: an eviction ended the attempt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptWarm:
    """Instances that stayed warm. Times in the scenario's milliseconds."""

    pool: str
    slots: int
    since: int
    until: int


@dataclass(kw_only=True, slots=True)
class Record:
    """The history of one run."""

    events: list[RecordedEvent] = field(default_factory=list)
    states: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """The states of each job and their start times, in order."""
    runs: list[Run] = field(default_factory=list)
    """The attempts, in the order of their starts."""
    warm: dict[str, KeptWarm] = field(default_factory=dict)
    """Of a simulation: the instances that stayed warm, by the training job that left them."""
    asked: dict[tuple[int, str], Status] = field(default_factory=dict)
    """The reported status of a waiting job, by moment and name."""
    warned: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """When each project came near its budget, in order."""
    end: int = 0
    """The last moment with anything due."""
    _starts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _evictions: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _live: dict[str, int] = field(default_factory=dict)
    """The index in `runs` of each job's live attempt."""

    def begin(self, job: Job, at: int = 0) -> None:
        """Add a job of the initial queue, at that moment."""
        self.states[job.name].append((at, job.state.value))
        if job.attempt:
            since = job.attempt.running_since
            self._hold(
                job.name, job.attempt.pool, job.attempt.admitted_at if since is None else since
            )
            self._follow(job, at)

    def refuse(self, name: str, t: int, reason: str) -> None:
        self.states[name].append((t, REFUSED))
        self.events.append(RecordedEvent(t=t, event="refuse", job=name, reason=reason))

    def warn(self, status: BudgetStatus, t: int) -> None:
        """Record that a project has come near its budget."""
        self.warned[status.project].append(t)
        self.events.append(RecordedEvent(t=t, event="budget", job="", reason=status.sentence()))

    def change(self, before: Job | None, after: Job, t: int) -> None:
        """Record one change of one job."""
        t = max(0, t)
        if before is None or before.state is not after.state:
            self.states[after.name].append((t, after.state.value))
        for event, reason in _events(before, after):
            holder = after if after.attempt else before
            pool = holder.attempt.pool if holder and holder.attempt else None
            self.events.append(
                RecordedEvent(t=t, event=event, job=after.name, pool=pool, reason=reason)
            )
            if event == "start":
                self._starts[after.name].append(t)
            elif event in _EVICTIONS.values():
                self._evictions[after.name].append(t)
        self._follow(after, t)

    def _follow(self, after: Job, t: int) -> None:
        """Update the runs."""
        if after.attempt and after.name not in self._live:
            self._hold(after.name, after.attempt.pool, t)
        if after.name not in self._live:
            return
        place = self._live[after.name]
        run = self.runs[place]
        if run.running is None and after.attempt and after.attempt.running_since is not None:
            run = self.runs[place] = replace(run, running=t)
        if after.attempt is None:
            del self._live[after.name]
            self.runs[place] = replace(run, until=t, outcome=after.state.value)
        elif after.attempt.stop and run.stopping is None:
            self.runs[place] = replace(run, stopping=t)

    def _hold(self, name: str, pool: str, since: int) -> None:
        self._live[name] = len(self.runs)
        self.runs.append(Run(job=name, pool=pool, since=since))

    def state_at(self, name: str, t: int) -> str:
        """The job's state after everything due at `t`; 'not submitted' before the submission."""
        state = "not submitted"
        for since, then in self.states[name]:
            if since <= t:
                state = then
        return state

    def started(self, name: str) -> list[int]:
        """The times of the job's starts, in order."""
        return list(self._starts.get(name, ()))

    def evicted(self, name: str) -> list[int]:
        """The times at which the job's evictions were decided, in order."""
        return list(self._evictions.get(name, ()))

    def evictions(self, name: str) -> int:
        return len(self._evictions.get(name, ()))

    @property
    def last(self) -> int:
        """The time of the last event."""
        return self.events[-1].t if self.events else 0


def _events(before: Job | None, after: Job) -> list[tuple[str, str]]:
    """The events of a change, with their reasons."""
    if before is None:
        return [("submit", "")]
    if _stop_cause(after) is not _stop_cause(before) and _stop_cause(after):
        return [(_STOPS.get(_stop_cause(after), "cancel"), after.message)]
    if before.state is after.state:
        return _within_a_state(before, after)
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


def _within_a_state(before: Job, after: Job) -> list[tuple[str, str]]:
    if _warned_at(after) is not None and _warned_at(before) is None:
        return [("stall", "")]
    if _is_interrupted(before) is not _is_interrupted(after):
        return [("interrupt" if _is_interrupted(after) else "resume", "")]
    demoted = after.priority_class != before.priority_class
    return [("demote", f"now {after.priority_class}")] if demoted else []


def _is_interrupted(job: Job) -> bool:
    return job.attempt is not None and job.attempt.interrupted_since is not None


def _warned_at(job: Job) -> int | None:
    return job.attempt.stalled_at if job.attempt else None


def _stop_cause(job: Job) -> StopCause | None:
    return job.attempt.stop.cause if job.attempt and job.attempt.stop else None

"""The demo's checks: each expected result with the observed one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slotq.demo.evidence import Evidence
from slotq.demo.job.train import SAVE_EVERY, begin, improve
from slotq.demo.story import EVICTED, FOR, PARTS, STARTS
from slotq_core.wire.views.jobs import JobView


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One result that must hold."""

    held: bool
    text: str
    """The observation, so that a failure explains itself."""


def checks(jobs: Mapping[str, JobView], evidence: Evidence) -> list[Check]:
    """All checks, in order of display."""
    found = [*_states(jobs), _starts(jobs), *_evictions(jobs)]
    return [*found, *_resume(jobs, evidence)] if jobs[EVICTED].attempts else found


def _states(jobs: Mapping[str, JobView]) -> Iterator[Check]:
    states = {name: job.state for name, job in jobs.items()}
    yield Check(
        held=set(states.values()) == {"completed"} and len(states) == len(PARTS),
        text="every job completed: " + ", ".join(f"{n} {state}" for n, state in states.items()),
    )


def _starts(jobs: Mapping[str, JobView]) -> Check:
    ran = [
        (attempt.admitted_at, job.name, attempt.number)
        for job in jobs.values()
        for attempt in job.attempts
    ]
    order = tuple((name, number) for _, name, number in sorted(ran))
    return Check(
        held=order == STARTS,
        text="order of starts: " + ", ".join(_attempt(*start) for start in order),
    )


def _evictions(jobs: Mapping[str, JobView]) -> Iterator[Check]:
    counted = {name: job.evictions for name, job in jobs.items()}
    wanted = {part.name: int(part.name == EVICTED) for part in PARTS}
    yield Check(
        held=counted == wanted,
        text="evictions: " + ", ".join(f"{name} {n}" for name, n in counted.items()),
    )
    for first in jobs[EVICTED].attempts[:1]:
        yield Check(
            held=(first.outcome, first.stopped_for) == ("evicted", FOR),
            text=f"{EVICTED}'s first attempt ended {first.outcome}, for {first.stopped_for}",
        )


def _resume(jobs: Mapping[str, JobView], evidence: Evidence) -> Iterator[Check]:
    job, kept = jobs[EVICTED], evidence.kept
    first, last = job.attempts[0].training_job, job.attempts[-1].training_job
    stopped = max(evidence.steps(first), default=0)
    yield Check(
        held=kept is not None and kept > 0 and kept <= stopped <= kept + SAVE_EVERY,
        text=f"{EVICTED} was stopped after step {stopped}; its checkpoint in S3 then held "
        f"step {kept}",
    )
    resumed, went_on = evidence.resumed_from(last), evidence.steps(last)
    yield Check(
        held=kept is not None and resumed == kept and went_on[:1] == [kept + 1],
        text=f"{EVICTED} went on from step {resumed} ({last}); its next step was "
        f"{went_on[0] if went_on else 'none'}",
    )
    yield _same_model(job, evidence)


def _same_model(job: JobView, evidence: Evidence) -> Check:
    """Train once more without an interruption, and compare the models."""
    steps = next(part.steps for part in PARTS if part.name == job.name)
    weights = begin()
    for step in range(steps):
        weights, _ = improve(weights, step)
    model = evidence.model(job.attempts[-1].artifact)
    same = model == weights
    return Check(
        held=same,
        text=f"{job.name}'s model {'equals' if same else 'does not equal'}, to the last bit, that "
        f"of {steps} steps without a stop",
    )


def _attempt(name: str, number: int) -> str:
    return name if number == 1 else f"{name} again"

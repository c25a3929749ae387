"""The words of all messages: plain text, without anything of a request.

A job's message may quote SageMaker, so it is cut, and unprintable characters are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotq_core.model.jobs import Job, JobState
from slotq_core.model.notices import JobEvent, Notification
from slotq_core.notices.happenings import Happening
from slotq_core.timestamps import lasting

LONGEST = 600
"""Characters of a text that comes from SageMaker or a script."""

_HEADS: Mapping[JobEvent, str] = {
    JobEvent.STARTED: "has started",
    JobEvent.EVICTED: "was evicted and waits again",
    JobEvent.RESUMED: "runs again",
    JobEvent.FINISHED: "has finished",
    JobEvent.FAILED: "has failed",
    JobEvent.STUCK: "is stuck",
}
_ENDS: Mapping[JobState, str] = {
    JobState.STOPPED: "was stopped outside the queue",
    JobState.CANCELLED: "was cancelled by the queue",
}


def title(happening: Happening) -> str:
    """Return one short line."""
    return f"{_whose(happening.job)} {_head(happening)}"


def text(happening: Happening) -> str:
    """Return the full text of an event."""
    job, attempt = happening.job, happening.attempt
    where = f" in pool {attempt.pool}" if attempt else ""
    sentence = f"{_whose(job)} {_head(happening)}{where}"
    sentence += f", {happening.why}" if happening.why else ""
    if happening.event in {JobEvent.FAILED, JobEvent.STUCK} and job.message and not happening.why:
        sentence += f": {clean(job.message)}"
    ran = f" It has run for {lasting(job.ran)} in all." if job.terminal and job.ran else ""
    return f"{sentence.rstrip('.')}.{ran}"


def waits_long(job: Job, since: int, now: int) -> str:
    """Return why a waiting job is stuck, as part of a sentence."""
    return f"it has waited for {lasting(now - since)}; `slotq why {job.name}` says for what"


def digest_title(rule: Notification, day: str) -> str:
    return f"{_about(rule)} on {day}"


def digest_text(rule: Notification, day: str, counts: Mapping[str, int]) -> str:
    """Return how often each event has happened on a day (UTC)."""
    counted = [
        f"{counts[event.value]} {event.value}" for event in JobEvent if counts.get(event.value)
    ]
    return f"{_about(rule)} on {day} (UTC): {', '.join(counted) or 'nothing happened'}."


def test_title(rule: Notification) -> str:
    return f"A test of the notification {rule.name}"


def test_text(rule: Notification) -> str:
    events = ", ".join(rule.events) or "no single events"
    digest = f", and a {rule.digest} digest" if rule.digest else ""
    about = _about(rule)
    return f"This is how you will hear of {about[0].lower()}{about[1:]}: {events}{digest}."


def clean(words: str) -> str:
    """Return foreign words as one line of printable text, cut to LONGEST."""
    line = " ".join(words.split())
    line = "".join(character for character in line if character.isprintable())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _whose(job: Job) -> str:
    return f"Job {job.name} of project {job.project}" if job.project else f"Job {job.name}"


def _head(happening: Happening) -> str:
    if happening.event is JobEvent.FAILED:
        return _ENDS.get(happening.job.state, _HEADS[JobEvent.FAILED])
    return _HEADS[happening.event]


def _about(rule: Notification) -> str:
    if rule.project:
        return f"Jobs of project {rule.project}"
    return f"Jobs of {rule.person}" if rule.person else "All jobs"

"""The rules that an event matches, and the messages.

A message's id is a hash of the rule, the job, its entry time, its version and the event. So a
change that is handled twice gives the same ids, and a later job of the same name others.
"""

from __future__ import annotations

import hashlib

from slotq_core import names
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.notices import JobEvent, Notification
from slotq_core.notices import texts
from slotq_core.notices.happenings import Happening
from slotq_core.notices.payloads import DIGEST, TEST, Message
from slotq_core.timestamps import from_iso


def hears(rule: Notification, what: Job | Message) -> bool:
    """Whether the rule applies to this job, or to the job of this message. A project's members and
    a person receive messages only about jobs that they may see anyway."""
    if rule.project:
        return what.project == rule.project
    return not rule.person or what.person == rule.person


def composed(rule: Notification, happening: Happening) -> Message:
    """Return the message of an event."""
    job = happening.job
    identity = (job.name, str(job.entry_time), str(job.version), happening.event.value)
    return _of_job(rule, happening, identity, at=job.changed_at)


def waiting_since(job: Job) -> int:
    """Return the start (ms) of the job's wait: its last eviction; before its first attempt, the
    release or the end of a predecessor that let it into its line; else its entry. Back-offs do not
    end a wait."""
    untried = not job.attempts and not job.schedule_attempts
    return job.changed_at if untried or job.state is JobState.PREEMPTED else job.entry_time


def is_stuck(rule: Notification, job: Job, now: int) -> bool:
    """Whether the job has waited longer than the rule allows."""
    return rule.stuck_after is not None and now - waiting_since(job) >= rule.stuck_after


def waits_long(rule: Notification, job: Job, now: int) -> Message:
    """Return the message of a job that waits for too long; the same for one wait, at any time."""
    why = texts.waits_long(job, waiting_since(job), now)
    happening = Happening(event=JobEvent.STUCK, job=job, attempt=None, why=why)
    identity = (job.name, str(job.entry_time), str(job.attempts), "waits")
    return _of_job(rule, happening, identity, at=now)


def digest(rule: Notification, day: str, counts: dict[str, int]) -> Message:
    """Return the digest of one day (UTC, `2026-11-20`)."""
    return Message(
        id=_hash(rule.name, DIGEST, day),
        notification=rule.name,
        event=DIGEST,
        title=texts.digest_title(rule, day),
        text=texts.digest_text(rule, day, counts),
        at=from_iso(f"{day}T00:00:00+00:00"),
        project=rule.project,
        person=rule.person,
    )


def test(rule: Notification, now: int) -> Message:
    """Return a message that shows that the receiver is reached."""
    return Message(
        id=_hash(rule.name, TEST, str(now)),
        notification=rule.name,
        event=TEST,
        title=texts.test_title(rule),
        text=texts.test_text(rule),
        at=now,
        project=rule.project,
        person=rule.person,
    )


def _of_job(
    rule: Notification, happening: Happening, identity: tuple[str, ...], *, at: int
) -> Message:
    job, attempt = happening.job, happening.attempt
    return Message(
        id=_hash(rule.name, *identity),
        notification=rule.name,
        event=happening.event.value,
        title=texts.title(happening),
        text=texts.text(happening),
        at=at,
        job=job.name,
        project=job.project,
        person=job.person or job.submitter,
        pool=attempt.pool if attempt else "",
        attempt=job.attempts,
        training_job=_training_job(job, attempt),
    )


def _training_job(job: Job, attempt: Attempt | None) -> str:
    if attempt is not None:
        return attempt.training_job
    return names.training_job_name(job.name, job.attempts) if job.attempts else ""


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

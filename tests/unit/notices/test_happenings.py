"""Which changes of a job are told, and as what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.lifecycle import TRANSITIONS
from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.notices import JobEvent
from slotq_core.notices.composing import composed, hears, is_stuck, waits_long
from slotq_core.notices.happenings import happenings
from tests.unit.notices.jobs import ACTIVE, ADA, NOW, attempt, job, rule, stopping

S = JobState


def told(before: Job | None, after: Job) -> list[JobEvent]:
    return [each.event for each in happenings(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "event"),
    [
        (None, job(S.PENDING), None),
        (job(S.PENDING), job(S.STARTING), None),
        (job(S.STARTING), job(S.RUNNING), JobEvent.STARTED),
        (job(S.STARTING), job(S.RUNNING, attempts=2), JobEvent.STARTED),
        (job(S.STARTING), job(S.RUNNING, attempts=2, ran=5000), JobEvent.RESUMED),
        (job(S.RUNNING), stopping(StopCause.EVICTED), None),
        (stopping(StopCause.EVICTED), job(S.PREEMPTED), JobEvent.EVICTED),
        (stopping(StopCause.YIELDED), job(S.PREEMPTED), JobEvent.EVICTED),
        (stopping(StopCause.EVICTED), job(S.COMPLETED), JobEvent.FINISHED),
        (stopping(StopCause.REQUEUED), job(S.PREEMPTED), None),
        (stopping(StopCause.NO_CAPACITY), job(S.BACKOFF), None),
        (stopping(StopCause.STALLED), job(S.PREEMPTED), JobEvent.STUCK),
        (stopping(StopCause.CANCELLED), job(S.CANCELLED), None),
        (job(S.RUNNING), job(S.PREEMPTED, cause="released"), None),
        (job(S.RUNNING), job(S.HELD, cause="released_too_often"), JobEvent.STUCK),
        (job(S.STARTING), job(S.HELD, cause="forbidden_by_project"), JobEvent.STUCK),
        (job(S.PENDING), job(S.HELD), None),
        (job(S.HELD), job(S.PENDING), None),
        (job(S.STARTING), job(S.BACKOFF), None),
        (job(S.RUNNING), job(S.COMPLETED), JobEvent.FINISHED),
        (job(S.STARTING), job(S.COMPLETED), JobEvent.FINISHED),
        (job(S.RUNNING), job(S.FAILED), JobEvent.FAILED),
        (job(S.PENDING), job(S.FAILED, cause="cannot_schedule"), JobEvent.FAILED),
        (job(S.RUNNING), job(S.STOPPED), JobEvent.FAILED),
        (job(S.PENDING), job(S.CANCELLED), None),
        (job(S.PENDING), job(S.CANCELLED, cause="dependency"), JobEvent.FAILED),
        (job(S.PENDING), job(S.CANCELLED, cause="goal_reached"), None),
        (
            stopping(StopCause.GOAL_REACHED),
            job(S.CANCELLED, cause=StopCause.GOAL_REACHED.value),
            None,
        ),
        (job(S.RUNNING), job(S.RUNNING, version=4), None),
        (job(S.COMPLETED), job(S.COMPLETED, version=9), None),
    ],
    ids=lambda value: value.state.value if isinstance(value, Job) else str(value),
)
def test_each_change_is_told_as(before, after, event):
    assert told(before, after) == ([event] if event else [])


def test_no_change_is_told_twice_and_every_end_but_the_users_own_is_told():
    """Over all legal transitions."""
    for before, nexts in TRANSITIONS.items():
        for after in nexts:
            found = told(job(before), job(after))
            assert len(found) <= 1
            if after in {S.COMPLETED, S.FAILED, S.STOPPED}:
                assert found, (before, after)


def silent(**changes) -> Job:
    return job(S.RUNNING, attempt=attempt(silent_since=NOW - 600_000, **changes))


def test_a_silence_is_told_once_when_the_queue_warns_of_it():
    warned = silent(stalled_at=NOW)
    assert told(silent(), warned) == [JobEvent.STUCK]
    assert told(warned, replace(warned, version=4)) == []
    (found,) = happenings(silent(), warned)
    assert found.why.startswith("its script has reported nothing for 10 min")


def test_a_later_job_of_the_same_name_tells_nothing_of_the_earlier():
    assert told(job(S.COMPLETED), job(S.RUNNING, entry_time=NOW + 1)) == []


def message_of(before: Job, after: Job, its=None):
    (found,) = happenings(before, after)
    return composed(its or rule(), found)


def test_messages_say_what_happened_for_whom():
    texts = [
        message_of(job(S.STARTING), job(S.RUNNING)).text,
        message_of(stopping(StopCause.EVICTED), job(S.PREEMPTED)).text,
        message_of(stopping(StopCause.YIELDED), job(S.PREEMPTED)).text,
        message_of(job(S.RUNNING), job(S.COMPLETED, ran=7_200_000)).text,
        message_of(job(S.RUNNING), job(S.FAILED, message="AlgorithmError: boom.")).text,
        message_of(job(S.RUNNING), job(S.STOPPED)).text,
        message_of(job(S.PENDING), job(S.CANCELLED, cause="dependency", message="x failed")).text,
        message_of(silent(), silent(stalled_at=NOW)).text,
    ]
    assert texts[:-1] == [
        "Job job1 of project vision has started in pool p5.",
        "Job job1 of project vision was evicted and waits again in pool p5, for urgent.",
        (
            "Job job1 of project vision was evicted and waits again in pool p5, at the end of its "
            "time slice."
        ),
        "Job job1 of project vision has finished in pool p5. It has run for 2 h in all.",
        "Job job1 of project vision has failed in pool p5: AlgorithmError: boom.",
        "Job job1 of project vision was stopped outside the queue in pool p5.",
        "Job job1 of project vision was cancelled by the queue: x failed.",
    ]
    assert "is stuck in pool p5, its script has reported nothing" in texts[-1]


def test_foreign_words_become_one_line_of_text():
    bad = "a\r\nSubject: b\x00\x1b[31m\u202e" + "x" * 2000
    text = message_of(job(S.RUNNING), job(S.FAILED, message=bad)).text
    assert text.isprintable()
    assert len(text) < 800
    assert "a Subject: b" in text


def test_ids_tell_changes_jobs_and_rules_apart_and_nothing_else():
    one = message_of(job(S.RUNNING), job(S.COMPLETED))
    assert message_of(job(S.STOPPING), job(S.COMPLETED)).id == one.id
    others = [
        message_of(job(S.RUNNING), job(S.COMPLETED, version=4)),
        message_of(job(S.RUNNING), job(S.COMPLETED, name="job2")),
        message_of(job(S.RUNNING), job(S.FAILED)),
        message_of(job(S.RUNNING), job(S.COMPLETED), rule(name="other")),
        message_of(job(S.RUNNING, entry_time=1), job(S.COMPLETED, entry_time=1)),
    ]
    assert len({one.id, *(each.id for each in others)}) == 1 + len(others)


@pytest.mark.parametrize(
    ("its", "heard"),
    [
        (rule(), True),
        (rule(project="vision"), True),
        (rule(project="speech"), False),
        (rule(person=ADA), True),
        (rule(person=ADA + "x"), False),
    ],
)
def test_a_rule_hears_only_of_its_own_jobs(its, heard):
    assert hears(its, job(S.PENDING)) is heard


@pytest.mark.parametrize(
    ("its", "wait", "stuck"),
    [
        (rule(), 10**9, False),
        (rule(stuck_after=1000), 999, False),
        (rule(stuck_after=1000), 1000, True),
    ],
)
def test_a_job_is_stuck_after_its_rules_time(its, wait, stuck):
    assert is_stuck(its, job(S.PENDING), NOW + wait) is stuck


@pytest.mark.parametrize(
    ("its", "since"),
    [
        ({"attempts": 0}, NOW + 5000),  # It came after another job, or was released.
        ({"attempts": 0, "schedule_attempts": 1}, NOW),  # Back from a back-off.
        ({"attempts": 1}, NOW),
    ],
)
def test_a_job_waits_since_it_came_into_line_and_back_offs_end_no_wait(its, since):
    waiting = job(S.PENDING, changed_at=NOW + 5000, **its)
    assert not is_stuck(rule(stuck_after=1000), waiting, since + 999)
    assert is_stuck(rule(stuck_after=1000), waiting, since + 1000)


def test_an_evicted_job_waits_since_its_eviction_and_each_wait_is_told_once():
    its = rule(stuck_after=1000)
    evicted = job(S.PREEMPTED, changed_at=NOW + 5000)
    assert not is_stuck(its, evicted, NOW + 5999)
    assert is_stuck(its, evicted, NOW + 6000)
    first = waits_long(its, job(S.PENDING, attempts=0), NOW + 7_200_000)
    again = waits_long(its, job(S.PENDING, attempts=0, version=8), NOW + 9_000_000)
    assert first.id == again.id != waits_long(its, evicted, NOW + 6000).id
    assert "it has waited for 2 h" in first.text


def test_the_states_of_the_helper_are_the_models():
    for state in JobState:
        assert (job(state).attempt is not None) == (state in ACTIVE)

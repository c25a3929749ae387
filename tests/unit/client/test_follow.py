"""Notices about a followed job, and their times."""

from __future__ import annotations

import pytest

from slotq.errors import CannotReach, NoSuchJob
from slotq.jobs.follow import HEARTBEAT, PATIENCE, follow, news, place_text, status_line
from slotq_core.wire.views.jobs import OutlookView
from tests.unit.client.fake_queue import Clock, attempt, ended, job_view, running, waiting

EVICTED = [attempt(1, outcome="evicted", stop_cause="evicted", stopped_for="job4")]
STOPPING = [attempt(1, stop_cause="evicted", stopped_for="job4")]


def followed(*answers, poll=5.0):
    """Follow a job that gives these answers, one a poll. Returns the notices and the end."""
    clock, said, script = Clock(), [], list(answers)

    def fetch():
        answer = script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    job = follow(fetch, say=said.append, clock=clock, sleep=clock.sleep, poll=poll)
    return said, job, clock


def waits(place):
    """The text of `waiting(place)`."""
    return (
        f"job1: waiting, place {place} in the line ({place - 1} ahead, since 2026-11-20 10:30 UTC)"
        ": the pool is full"
    )


def test_only_changes_are_announced():
    said, job, clock = followed(
        waiting(3), waiting(3), waiting(2), running(), running(), ended(), poll=5
    )
    assert said == [
        waits(3),
        waits(2),
        "job1: running in pool p5 (attempt 1: job1)",
        "job1: completed after 1 attempt",
    ]
    assert job.state == "completed"
    assert clock.now == 25


def outlook(earliest):
    return OutlookView(rooms=[], evictions=[], reserved=[], times=[], earliest=earliest)


@pytest.mark.parametrize(
    ("earliest", "said"),
    [
        ("2026-11-20T10:45:30.000Z", ", earliest change 10:45 UTC"),
        ("2026-11-21T00:05:00.000Z", ", earliest change 2026-11-21 00:05 UTC"),
        (None, ""),
    ],
)
def test_a_known_earliest_time_is_announced(earliest, said):
    assert status_line(waiting(2, outlook=outlook(earliest))) == (
        f"waiting, place 2 in the line (1 ahead, since 2026-11-20 10:30 UTC{said}): "
        "the pool is full"
    )


def test_the_pause_between_polls_is_bounded():
    job = job_view(state="backoff", outlook=outlook("2026-11-20T10:31:00.000Z"))
    assert status_line(job) == "backing off before its next attempt (earliest change 10:31 UTC)"


def test_a_long_wait_is_mentioned_from_time_to_time():
    looks = [waiting(1)] * int(2 * HEARTBEAT / 5 + 1)
    said, _, _ = followed(*looks, ended(), poll=5)
    assert said[:3] == [waits(1)] * 3
    assert len(said) == 4


def test_an_eviction_names_its_beneficiary():
    said, _, _ = followed(
        running(),
        running(state="stopping", evictions=1, attempts=STOPPING, message="evicted for job4"),
        waiting(1, state="preempted", evictions=1, attempts_begun=1, attempts=EVICTED),
        running(2, evictions=1),
        ended(number=2, evictions=1),
    )
    assert "evicted for job4: it is stopping, keeps its place" in said[1]
    assert said[2] == waits(1)
    assert said[3] == "job1: running in pool p5 (attempt 2: job1-qstamp-2-abcdef)"
    assert said[4] == "job1: completed after 2 attempts, evicted 1 time"


def test_a_job_whose_pool_closes_names_the_pool():
    stop = [attempt(1, stop_cause="closed", stopped_for="june", checkpoints="s3://b/saved")]
    line = status_line(running(state="stopping", attempts=stop))
    assert line.startswith("suspended because of the times of pool june: it is stopping")


def test_an_eviction_between_two_polls_is_announced():
    again = running(2, evictions=1, attempts=[*EVICTED, attempt(2)])
    said, _, _ = followed(running(), again, ended(number=2, evictions=1))
    assert said[1] == (
        "job1: was evicted for job4; now running in pool p5 (attempt 2: job1-qstamp-2-abcdef)"
    )


def test_a_failure_is_announced_with_its_message():
    said, _, _ = followed(ended("failed", message="AlgorithmError: exit code 1"))
    assert said == ["job1: failed after 1 attempt: AlgorithmError: exit code 1"]


def test_a_cancel_is_not_called_an_eviction():
    stop = [attempt(1, stop_cause="cancelled", stopped_for="ada")]
    assert status_line(running(state="stopping", attempts=stop, message="cancelled by ada")) == (
        "stopping: cancelled by ada"
    )
    assert status_line(running(state="stopping", attempts=[], message="")) == "stopping"


@pytest.mark.parametrize(
    "state", ["pending", "preempted", "backoff", "held", "starting", "stopping"]
)
def test_every_state_has_a_notice(state):
    assert status_line(job_view(state=state, attempts_begun=1, pool="p5"))


def test_an_unchanged_job_gives_no_notice():
    assert news(running(), running()) is None
    assert news(None, running()) is not None


def test_a_briefly_unavailable_queue_is_retried():
    away = CannotReach("no route")
    said, job, _ = followed(running(), away, away, ended())
    assert job.state == "completed"
    assert [line for line in said if "does not answer" in line] == [said[1]]


def test_a_queue_that_stays_unavailable_ends_the_following():
    away = [CannotReach("no route")] * int(PATIENCE / 5 + 2)
    with pytest.raises(CannotReach):
        followed(running(), *away)


def test_an_unknown_job_is_an_error_at_once():
    with pytest.raises(NoSuchJob):
        followed(NoSuchJob("there is no job 'job1'"))


def test_a_place_beyond_what_was_counted_is_a_bound():
    far = waiting(1_002, "more than 1,000 jobs are ahead of it", place_is_lower_bound=True)
    said = "waiting, more than 1,000 ahead in the line (since 2026-11-20 10:30 UTC)"
    assert status_line(far) == f"{said}: more than 1,000 jobs are ahead of it"
    assert place_text(far) == ">1001"
    assert place_text(waiting(5)) == "5"
    assert place_text(running(1)) == ""
    unknown = waiting(1, "other jobs are ahead of it", place_is_lower_bound=True)
    assert status_line(unknown).startswith("waiting, others ahead in the line")

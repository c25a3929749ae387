"""The time in which an attempt is interrupted is no running time."""

from __future__ import annotations

from dataclasses import replace

from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.reports import Report
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import PriorityClass
from slotq_core.policy.lifecycle.demotion import demotes_at
from slotq_core.policy.lifecycle.interruptions import at_its_end, interrupted, resumed
from slotq_core.policy.lifecycle.stall import heard
from slotq_core.policy.state.candidates import protection, unsaved

POOL = Pool(
    name="s",
    instance_type="ml.m5.large",
    capacity=Demand(slots=1),
    min_runtime=50_000,
    stall_after=60_000,
)
CLASSES = (
    PriorityClass(name="HIGH", value=2, demote_to="LOW", demote_after=100_000),
    PriorityClass(name="LOW", value=1),
)
ATTEMPT = Attempt(
    number=1,
    training_job="job",
    token="t",
    pool="s",
    instance_type="ml.m5.large",
    admitted_at=0,
    created=True,
    running_since=1_000,
    reported=True,
)
JOB = Job(
    name="job",
    state=JobState.RUNNING,
    priority=2,
    priority_class="HIGH",
    entry_time=0,
    demand=Demand(slots=1),
    pools=("s",),
    attempts=1,
    attempt=ATTEMPT,
    reports=True,
)


def stopped_for_a_while(since: int = 41_000, until: int = 141_000) -> Job:
    waits = interrupted(JOB, since)
    assert waits is not None
    runs = resumed(waits, until)
    assert runs is not None
    return runs


def demotion(job: Job) -> list[int]:
    return [at for at, _ in demotes_at(Snapshot(pools=(POOL,), classes=CLASSES, active=(job,)))]


def test_a_class_demotes_later_by_the_interruption_and_not_during_it():
    waits = interrupted(JOB, 41_000)
    assert waits is not None
    assert (demotion(JOB), demotion(waits)) == ([101_000], [])
    assert demotion(stopped_for_a_while()) == [201_000]


def test_the_protection_after_a_start_lasts_longer_by_the_interruption():
    assert protection(JOB, POOL, 0, 0) == (True, 51_000)
    assert protection(stopped_for_a_while(), POOL, 0, 142_000) == (True, 151_000)


def test_an_interrupted_attempt_is_protected_until_it_has_run_for_so_long():
    """Else a lower rank could keep slots for as long as SageMaker has no instances."""
    for since, is_protected in ((41_000, True), (51_000, False)):
        waits = interrupted(JOB, since)
        assert waits is not None
        assert protection(waits, POOL, 0, 900_000) == (is_protected, None)


def test_what_an_interruption_has_cost_an_eviction_costs_no_more():
    saved = replace(JOB, attempt=replace(ATTEMPT, checkpoint_at=31_000))
    for job in (JOB, saved):
        waits = interrupted(job, 41_000)
        assert waits is not None and unsaved(waits, 900_000) == 0
        runs = resumed(waits, 141_000)
        assert runs is not None and unsaved(runs, 150_000) == 9_000
    assert unsaved(saved, 40_000) == 9_000


def test_no_silence_counts_from_before_the_return():
    """The last report is from before the interruption."""
    job, report = stopped_for_a_while(), Report(step=3, at=40_000)
    for now, silent in ((200_000, None), (201_000, 141_000)):
        after = heard(job, POOL, report, now)
        assert after.attempt is not None
        assert after.attempt.silent_since == silent
    waits = interrupted(replace(JOB, attempt=replace(ATTEMPT, silent_since=2_000)), 41_000)
    assert waits is not None and waits.attempt is not None
    assert waits.attempt.silent_since is None
    assert heard(waits, POOL, report, 900_000) == waits


def test_interruptions_add_up():
    job = stopped_for_a_while()
    waits = interrupted(job, 151_000)
    assert waits is not None and waits.attempt is not None
    assert (waits.attempt.ran_before, waits.attempt.interruptions) == (50_000, 2)
    ended = at_its_end(waits, 400_000)
    assert ended.attempt is not None
    assert ended.attempt.running_since == 350_000


def test_what_is_no_news_changes_nothing():
    job = stopped_for_a_while()
    assert interrupted(job, 41_000) is None, "it has come back since"
    assert resumed(job, 200_000) is None, "it runs"
    waits = interrupted(job, 151_000)
    assert waits is not None
    assert resumed(waits, 141_000) is None, "that was before"
    assert interrupted(waits, 152_000) is None
    assert at_its_end(job, 200_000) is job

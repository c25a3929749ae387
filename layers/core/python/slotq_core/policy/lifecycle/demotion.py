"""Step 1, demotions: a job that used up its time in a class gets a lower class.

A class may demote: after 30 minutes of running time at ABOVE_NORMAL a job counts as NORMAL.
Running time adds up over attempts, so a resumed job does not win its class back (no thrashing).
Demotion changes the rank. For limits see state/class_counts.py.

See docs/policy-decisions.md#classes-and-users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slotq_core.lifecycle import copied
from slotq_core.model.jobs import Job
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import PriorityClass, classes_of


def demotes_at(snapshot: Snapshot) -> Iterator[tuple[int, Job]]:
    """Running jobs in classes that demote, each with the time (ms) of its demotion."""
    classes = classes_of(snapshot.classes)
    times = {e.name: e.demote_after for e in classes.values() if e.demote_to in classes}
    for job in snapshot.active if times else ():
        if job.priority_class not in times:
            continue
        if job.attempt is None or job.attempt.running_since is None:
            continue
        had = job.ran - job.ran_before_class
        yield job.attempt.running_since + times[job.priority_class] - had, job


def demoted(job: Job, classes: Mapping[str, PriorityClass]) -> Job:
    """The job in its next lower class. Its running time there starts at 0."""
    current = classes[job.priority_class]
    lower = classes[current.demote_to]
    return copied(
        job,
        priority=lower.value,
        priority_class=lower.name,
        admitted_class=job.admitted_class or job.priority_class,
        ran_before_class=job.ran_before_class + current.demote_after,
    )


def admitted_in(job: Job, current: PriorityClass, classes: Mapping[str, PriorityClass]) -> Job:
    """An AUTO job in the class that admits it, demoted by all its running time so far."""
    return come_into(copied(job, priority=current.value, priority_class=current.name), classes)


def come_into(job: Job, classes: Mapping[str, PriorityClass]) -> Job:
    """The job after a change of class, demoted by all its running time so far, also that in other
    classes: no change of class wins time back."""
    return demoted_by_time(copied(job, ran_before_class=0), classes)


def demoted_by_time(job: Job, classes: Mapping[str, PriorityClass]) -> Job:
    """The job, demoted by the running time of its ended attempts. An attempt may end after its time
    in the class and before a pass has demoted it."""
    while not job.terminal and _used_up_time(job, classes):
        job = demoted(job, classes)
    return job


def _used_up_time(job: Job, classes: Mapping[str, PriorityClass]) -> bool:
    current = classes.get(job.priority_class)
    if current is None or current.demote_to not in classes:
        return False
    return job.ran - job.ran_before_class >= current.demote_after

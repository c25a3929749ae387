"""Step 1, demotions: a job that has had its time in a class comes into a lower one (DESIGN 5.3).

"A class may demote: after 30 minutes of running time at ABOVE_NORMAL a job counts as NORMAL.
Running time adds up over attempts, so a resumed job does not win its class back."
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slotq_core.model import Job, PriorityClass


def demotes_at(job: Job, classes: Mapping[str, PriorityClass]) -> int | None:
    """When the running job has had its time in its class; None: never, as things stand."""
    its = classes.get(job.priority_class)
    if its is None or its.demote_to not in classes:
        return None
    if job.attempt is None or job.attempt.running_since is None:
        return None
    had = job.ran - job.ran_before_class
    return job.attempt.running_since + its.demote_after - had


def demoted(job: Job, classes: Mapping[str, PriorityClass]) -> Job:
    """The job in its next class, with its time there beginning anew."""
    its = classes[job.priority_class]
    lower = classes[its.demote_to]
    return replace(
        job,
        priority=lower.value,
        priority_class=lower.name,
        ran_before_class=job.ran_before_class + its.demote_after,
    )

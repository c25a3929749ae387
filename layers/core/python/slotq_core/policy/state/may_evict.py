"""Who may be a victim: the one predicate, asked wherever a running job or a claim might give way.

Victims of every kind (reclaim, preempt, consolidate, time slices), claims that others may take
over, what a drained-for job may evict later, the work that a quota binds, and the reasons: all ask
`PlanState.may_evict`. It depends on the job's settings, on the protected jobs of the plan
(quotas/in_quota.py) and on the members beyond the core of a gang (groups/elastic.py), not on time:
a `min_runtime` is a matter of its own (candidates.py).

See docs/policy-decisions.md#semi-preemptible-jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from operator import attrgetter

from slotq_core.model.jobs import Job

MayEvict = Callable[[Job], bool]
"""Whether a plan may evict the job, once no `min_runtime` protects it. Whoever may not be evicted
counts as fixed in quotas."""

BY_SETTING: MayEvict = attrgetter("evictable")
"""The job's settings alone."""


def may_evict(protected: AbstractSet[str], beyond_core: AbstractSet[str] | None = None) -> MayEvict:
    """The predicate of a plan. `protected`: the names of the jobs that no plan of this moment
    evicts, whatever their settings allow. `beyond_core`: of those that it may evict in any case,
    and it may come to have more; None: it never has any."""
    if beyond_core is not None:
        return lambda job: job.name in beyond_core or (job.evictable and job.name not in protected)
    if not protected:  # Most plans: then nothing should cost more than the settings.
        return BY_SETTING
    return lambda job: job.evictable and job.name not in protected

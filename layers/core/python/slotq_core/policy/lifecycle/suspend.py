"""The grace that a job gets before it is stopped (DESIGN 6.3, "Suspend").

"*Direct* (default): StopTrainingJob at once. *Asked* (pool `suspend_grace` > 0): a marker object
first; the queue calls StopTrainingJob when the script has released or the grace is over."

Only evicted and yielding jobs that run get a grace; over several pools, the longest of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool

_ASKED = frozenset({StopCause.EVICTED, StopCause.YIELDED})


def grace(job: Job, pools: Mapping[str, Pool]) -> int:
    """The grace (ms) of a job that has a stop order; 0: stop at once."""
    attempt = job.attempt
    if attempt is None or attempt.stop is None or attempt.running_since is None:
        return 0
    if attempt.stop.cause not in _ASKED:
        return 0
    names = [pool for pool, _ in job.parts] or [attempt.pool]
    return max((pools[name].suspend_grace for name in names if name in pools), default=0)

"""Read which quota SageMaker names when it refuses a training job.

"The account-level service limit '<name>' is N Instances, with current utilization of U Instances
and a request delta of D Instances." Known names:

`<type> for training job usage`                    training jobs on demand, of one instance type
`Number of instances across all training jobs`     all training jobs
`<type> for spot training job usage`               other quotas, as is every other name
`<type> for training warm pool usage`
`Number of instances across all processing jobs`   the debugger's and the profiler's rules
"""

from __future__ import annotations

import re

from slotq_core.model.pools import ServiceQuota

_OF_ONE_TYPE = r"(?P<type>\S+) for training job usage"
_OF_ALL_TRAINING = r"(?P<all>(Total )?Number of instances across (all )?training jobs)"
_SENTENCE = r"service limit '(?:{name})' is (?P<limit>\d{{1,9}}) Instances"

OF_TRAINING = _SENTENCE.format(name=f"{_OF_ONE_TYPE}|{_OF_ALL_TRAINING}")
"""The sentence about a quota that pools have to do with."""

_ANY = _SENTENCE.format(name=rf"{_OF_ONE_TYPE}|{_OF_ALL_TRAINING}|[^']{{1,200}}")


def quota_in(text: str) -> ServiceQuota | None:
    """Return the quota that a refusal names; None if the text has no such sentence."""
    found = re.search(_ANY, text, re.IGNORECASE)
    if found is None:
        return None
    return ServiceQuota(
        limit=int(found["limit"]),
        instance_type=found["type"] or "",
        all_training=found["all"] is not None,
    )

"""Preemptible training jobs without checkpoints, which an eviction would restart: warn, provide a
place, or refuse.

Each pool has a rule (`CheckpointRule`). The strictest rule of a job's pools applies, because
admission cannot know in which pool the job will start. The rules exempt jobs that are never
evicted, such as interactive ones.

A spot pool takes no job without checkpoints, evicted or not: it provides a place where its rule
says so, and refuses the job otherwise.

A place that the queue provides lies below the job's own output: its role may write there, its
output's owner pays, and readers of the output may read the checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slotq_core.errors import CheckpointsRequired
from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.jobs import Job
from slotq_core.model.pools import CapacityKind, CheckpointRule, Pool
from slotq_core.names import CHECKPOINTS_FOLDER, set_back
from slotq_core.timestamps import iso
from slotq_core.wire.training.field_paths import value_at, with_value

FIELD = "CheckpointConfig"
LOCATION = f"{FIELD}.S3Uri"
OUTPUT = "OutputDataConfig.S3OutputPath"
_STRICTEST_LAST = tuple(CheckpointRule)
_LONGEST = 1024
"""SageMaker's limit for a location."""
_S3 = re.compile(r"(https|s3)://[^/]+")
_HOW = (
    "give the request a CheckpointConfig (checkpoint_s3_uri in the SageMaker SDK) and save below "
    "/opt/ml/checkpoints"
)
_OR_NOT = "or submit the job with the tag slotq:preemptible=false"


def loses_its_work(job: Job) -> bool:
    """Whether an eviction restarts the job from its beginning."""
    return job.evictable and not job.checkpoints


def assured(job: Job, pools: Iterable[Pool]) -> Job:
    """The job under the rules of its pools, with checkpoints if a pool provides a place. Raises
    CheckpointsRequired if a pool requires them."""
    own = [pool for pool in pools if pool.name in job.pools]
    if not own or job.checkpoints:
        return job
    rules = {pool.name: _rule(pool, job) for pool in own}
    match max(rules.values(), key=_STRICTEST_LAST.index):
        case CheckpointRule.REQUIRE:
            raise CheckpointsRequired(_refusal(own, rules), field=FIELD)
        case CheckpointRule.PROVIDE:
            return replace(job, checkpoints=True)
    return job


def _rule(pool: Pool, job: Job) -> CheckpointRule:
    """The rule of the pool for a job without checkpoints. SageMaker interrupts any job on spot
    instances, so a warning is not enough there."""
    if pool.capacity_kind is CapacityKind.SPOT:
        provides = pool.checkpoints is CheckpointRule.PROVIDE
        return CheckpointRule.PROVIDE if provides else CheckpointRule.REQUIRE
    if not job.evictable or job.work is WorkKind.PROCESSING:
        return CheckpointRule.WARN  # A processing job has no checkpoints, whoever provides a place.
    return pool.checkpoints


def _refusal(own: Sequence[Pool], rules: Mapping[str, CheckpointRule]) -> str:
    strict = [name for name, rule in rules.items() if rule is CheckpointRule.REQUIRE]
    others = [name for name in rules if name not in strict]
    elsewhere = f", or only other pools: slotq:pools={','.join(others)}" if others else ""
    which = f"pool {strict[0]} takes" if len(strict) == 1 else f"pools {', '.join(strict)} take"
    spot = [pool.name for pool in own if pool.capacity_kind is CapacityKind.SPOT]
    if not set(spot).isdisjoint(strict):
        are = f"{spot[0]} is" if len(spot) == 1 else f"{', '.join(spot)} are"
        return (
            f"{which} only jobs with checkpoints, because {are} spot: when SageMaker takes the "
            f"instances back, this one would begin again: {_HOW}{elsewhere}"
        )
    return (
        f"{which} preemptible jobs only with checkpoints, because an eviction would set this one "
        f"back to its beginning: {_HOW}; {_OR_NOT}{elsewhere}"
    )


def provided(request: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """The request with a place for the job's checkpoints below its output. The place is unique,
    because it contains the job's name and entry time. Raises CheckpointsRequired if nothing can lie
    below the output."""
    output = str(value_at(request, OUTPUT))
    entered = iso(job.entry_time)[:19].replace("-", "").replace(":", "")
    place = f"{output.rstrip('/')}/{CHECKPOINTS_FOLDER}/{job.name}/{entered}"
    if not _S3.match(output) or len(place) > _LONGEST:
        raise CheckpointsRequired(
            f"there can be no checkpoints below {OUTPUT} '{output[:200]}': {_HOW}",
            field=FIELD,
        )
    return with_value(request, LOCATION, place)


def warning(job: Job) -> str:
    """The warning to the user of a job that `loses_its_work`."""
    return f"{set_back(job.name)}: {_HOW}; {_OR_NOT}"


def notice(request: Mapping[str, Any]) -> str:
    """The notice at the submission of a job with a provided place."""
    return (
        f"the queue keeps checkpoints of {request['TrainingJobName']} in "
        f"{value_at(request, LOCATION)}, which its pool provides: what the script saves below "
        "/opt/ml/checkpoints outlives an eviction, all else is lost"
    )

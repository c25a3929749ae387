"""Names of training jobs, and the tokens that mark them as the queue's.

Both depend on the job alone, so a handler that finishes a crashed start computes the same ones.
Names are mapped back by look-up, never by splitting.

See docs/protocol.md#intents-names-and-tokens.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from slotq_core.model.capacity.work import MARK, WorkKind, bare, marked, work_of

LONGEST = 63
"""The most characters of a training job's name. The pattern alone allows any number of hyphens."""

RULE = f"1 to {LONGEST} letters, digits and hyphens"
"""What a name may be, for messages."""

_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")

SCHEMA: dict[str, Any] = {"pattern": f"^{_NAME.pattern}$", "minLength": 1, "maxLength": LONGEST}
"""SageMaker's own rule for TrainingJobName, as a JSON schema."""

JOB_SCHEMA: dict[str, Any] = {
    "pattern": f"^({MARK})?{_NAME.pattern}$",
    "minLength": 1,
    "maxLength": len(MARK) + LONGEST,
}
"""The rule for a job's name in the queue (`model.capacity.work`)."""

STAMP = "-qstamp-"
"""Marks a name that the queue made; submitted names may not contain it."""

PRIORITY_TAG = "priority"
"""A job's priority: a number, or the name of a class."""

QUEUES_PRIORITY_TAG = "slotq:priority"
"""The same, spelled like the queue's other tags."""

RUNTIME_LIMIT_TAG = "slotq:runtime-limit"
"""`job`: the maximum runtime covers all attempts; `attempt`: each attempt has its own."""

POOLS_TAG = "slotq:pools"
"""The pools that a job accepts, comma separated."""

PROJECT_TAG = "slotq:project"
"""The project that a job belongs to."""

DEMAND_TAG = "slotq:demand"
"""A job's demand besides slots, `NAME=AMOUNT`, comma separated."""

AFTER_TAG = "slotq:after"
"""Jobs that must complete before a job waits for slots, comma separated."""

AFTER_ANY_TAG = "slotq:after-any"
"""The same, for jobs that must end in any state."""

MOST_AFTER_TAGS = 15
"""The most tags of each of these kinds. A tag holds three of the longest names, and a job comes
after at most 45 others. The second is `slotq:after-2`."""

CALLBACK = "slotq:callback"
"""The member of a submission's body that says who waits for the job's end: no tag, because a tag is
shown, and shorter than a token."""

SUBMITTER_TAG = "slotq:submitter"
"""The submitter of a job; on training jobs only, for cost allocation."""

JOB_TAG = "slotq:job"
QUEUE_TAG = "slotq:queue"
"""The job and the queue that a training job belongs to, on each that a queue creates. Training jobs
of earlier versions lack the queue's."""

CHECKPOINTS_FOLDER = "slotq-checkpoints"
"""The folder below a job's output in which the queue provides places for checkpoints."""

GROUPS_FOLDER = "slotq-groups"
"""The folder below an output in which the members of a gang meet."""

MAX_TAGS = 44
"""The most tags of a submission. SageMaker allows 50; the queue adds six."""

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
"""The CloudWatch log group of training jobs. Its streams are `<training job>/<host>-<time>`."""

LOG_GROUPS = {WorkKind.TRAINING: LOG_GROUP, WorkKind.PROCESSING: "/aws/sagemaker/ProcessingJobs"}
"""The log group of each kind of work."""

_KEPT = 44
LONGEST_TAG = 256
"""The most characters of a tag's value."""
_IN_TAGS = frozenset(" _.:/=+-@")
"""What a tag's value may contain besides letters and digits."""


def is_legal(name: str) -> bool:
    """Whether a job and its training job may have this name."""
    return len(name) <= LONGEST and _NAME.fullmatch(name) is not None


def is_job(name: str) -> bool:
    """Whether a job of the queue may have this name (`model.capacity.work`)."""
    return is_legal(bare(name))


def training_job_name(job: str, number: int) -> str:
    """The training job's name of an attempt: the job's own for the first, a stamped one afterwards,
    with the mark of the job's kind of work.

    Without the mark at most 63 characters for up to 9,999 attempts, and legal in SageMaker if the
    job's name is.
    """
    if number == 1:
        return job
    digest = hashlib.sha256(job.encode()).hexdigest()[:6]
    return marked(f"{bare(job)[:_KEPT].rstrip('-')}{STAMP}{number}-{digest}", work_of(job))


def log_place(training_job: str) -> tuple[str, str]:
    """The log group of an attempt, and what the names of its streams begin with."""
    return LOG_GROUPS[work_of(training_job)], f"{bare(training_job)}/"


def node_training_job(pool: str, node: str, generation: int, token: str) -> str:
    """The name of a node's training job: at most 63 characters, legal in SageMaker whatever the
    names of the pool and the node are.

    It depends on the token, because SageMaker never forgets a name: generations begin again in a
    new table, and two queues of one account may have pools of one name.
    """
    end = f"{STAMP}{generation}-{token_in_tags(token)[:8]}"
    begin = re.sub(r"[^a-zA-Z0-9]+", "-", f"{pool[:30]}-{node}").strip("-") or "node"
    return begin[: LONGEST - len(end)].rstrip("-") + end


def token_in_tags(token: str) -> str:
    """A node's token as tags and events show it: a hash, because the token itself is a secret of
    the queue and the node's agent."""
    return hashlib.sha256(f"node token {token}".encode()).hexdigest()


def numbered_tags(key: str) -> tuple[str, ...]:
    """The tags that together hold one list of jobs: `slotq:after`, `slotq:after-2` …"""
    return (key, *(f"{key}-{number}" for number in range(2, MOST_AFTER_TAGS + 1)))


def packed(jobs: Iterable[str]) -> list[str]:
    """The values of the tags that together hold these names, each once, as many in each as fit."""
    values: list[str] = []
    for name in dict.fromkeys(jobs):
        if values and len(values[-1]) + 1 + len(name) <= LONGEST_TAG:
            values[-1] += f",{name}"
        else:
            values.append(name)
    return values


def setting_of(tag: Any) -> Any:
    """The setting that a tag's key means: of two spellings the shorter, of the tags of one list the
    first, else the key itself."""
    if isinstance(tag, str) and tag in _NUMBERED:
        return tag.rpartition("-")[0]
    return PRIORITY_TAG if tag == QUEUES_PRIORITY_TAG else tag


_NUMBERED = frozenset((*numbered_tags(AFTER_TAG)[1:], *numbered_tags(AFTER_ANY_TAG)[1:]))

AFTER_TAGS = (*numbered_tags(AFTER_TAG), *numbered_tags(AFTER_ANY_TAG))

_LISTS = frozenset({POOLS_TAG, DEMAND_TAG, *AFTER_TAGS})
"""Tags whose value is a list."""


def sagemaker_tags(tags: Iterable[Any]) -> list[Any]:
    """Tags in SageMaker's form. SageMaker refuses commas in a value, so the queue's lists get
    spaces."""
    return [
        {**tag, "Value": tag["Value"].replace(",", " ")}
        if isinstance(tag, Mapping)
        and tag.get("Key") in _LISTS
        and isinstance(tag.get("Value"), str)
        else tag
        for tag in tags
    ]


def with_project(request: Mapping[str, Any], project: str) -> Mapping[str, Any]:
    """The request with this project's tag, instead of another's; unchanged without a project.

    A job can have another project than its request names: the caller's default, or the one that it
    was moved to.
    """
    if not project:
        return request
    others = [tag for tag in request.get("Tags") or () if tag["Key"] != PROJECT_TAG]
    return {**request, "Tags": [*others, {"Key": PROJECT_TAG, "Value": project}]}


def without_provided_checkpoints(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request without a checkpoint location that the queue provided. The location belongs to
    one job: a clone with the same location would continue from the other job's work, or damage
    it."""
    config = request.get("CheckpointConfig")
    place = config.get("S3Uri") if isinstance(config, Mapping) else None
    if f"/{CHECKPOINTS_FOLDER}/" not in str(place):
        return request
    return {key: value for key, value in request.items() if key != "CheckpointConfig"}


def set_back(name: str) -> str:
    """The beginning of the warning for a job without checkpoints (`admission.checkpoints`)."""
    return f"an eviction sets {name} back to its beginning"


def tag_value(text: str) -> str:
    """The text as SageMaker takes it for a tag's value: at most 256 characters, its last, with a
    space for each character that tags cannot have."""
    kept = "".join(c if c.isalnum() or c in _IN_TAGS else " " for c in text)
    return kept[-LONGEST_TAG:]


def token(job: str, entry_time: int, number: int) -> str:
    """The token of an attempt. Two jobs with the same name at different times get different
    tokens."""
    return hashlib.sha256(f"{job}\n{entry_time}\n{number}".encode()).hexdigest()[:32]

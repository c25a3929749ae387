"""Names of training jobs, and the tokens that prove which of them are ours (DESIGN section 1).

Both are functions of the job alone, so that whoever finishes a crashed start uses the same ones.
Names are mapped back by look-up, never by splitting.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

LONGEST = 63
"""Characters of a training job's name; the pattern alone lets any number of hyphens pass."""

_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")

SCHEMA: dict[str, Any] = {"pattern": f"^{_NAME.pattern}$", "minLength": 1, "maxLength": LONGEST}
"""SageMaker's own rule for TrainingJobName, as a JSON schema."""

STAMP = "-qstamp-"
"""Marks a name that the queue made; refused in a submitted one."""

RUNTIME_LIMIT_TAG = "slotq:runtime-limit"
"""`job`: the maximum runtime counts over all attempts; `attempt`: it is each attempt's own."""

POOLS_TAG = "slotq:pools"
"""The pools that a job accepts, comma separated."""

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
"""Where SageMaker writes what training jobs print: streams `<training job>/<host>-<time>`."""

_KEPT = 44


def is_legal(name: str) -> bool:
    """Whether a training job, and so a job, may bear this name."""
    return len(name) <= LONGEST and _NAME.fullmatch(name) is not None


def training_job_name(job: str, number: int) -> str:
    """The name of a job's attempt: its own for the first, a stamped one for those after it.

    At most 63 characters for up to 9,999 attempts, and legal in SageMaker wherever `job` is.
    """
    if number == 1:
        return job
    digest = hashlib.sha256(job.encode()).hexdigest()[:6]
    return f"{job[:_KEPT].rstrip('-')}{STAMP}{number}-{digest}"


def sagemaker_tags(tags: Iterable[Any]) -> list[Any]:
    """Tags as SageMaker takes them: it has no commas in a value, and refuses the whole request."""
    return [
        {**tag, "Value": tag["Value"].replace(",", " ")}
        if isinstance(tag, Mapping)
        and tag.get("Key") == POOLS_TAG
        and isinstance(tag.get("Value"), str)
        else tag
        for tag in tags
    ]


def token(job: str, entry_time: int, number: int) -> str:
    """The intent's mark. Two jobs that bore the same name at different times differ in it."""
    return hashlib.sha256(f"{job}\n{entry_time}\n{number}".encode()).hexdigest()[:32]

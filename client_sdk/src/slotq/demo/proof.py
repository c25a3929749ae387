"""The demo's checks: each expected result, and what S3 and the logs say without the queue."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import boto3
from botocore.exceptions import ClientError

from slotq.demo.job.train import SAVE_EVERY, begin, improve
from slotq.demo.story import EVICTED, FOR, PARTS, STARTS
from slotq.jobs.job_logs import LogTail
from slotq_core.model.jobs import JobState
from slotq_core.wire.views.jobs import JobView


class Evidence:
    """Reads checkpoints, log lines and models from AWS, as the environment sets it."""

    def __init__(self, evicted: str, bucket: str) -> None:
        session = boto3.Session()
        self._s3, self._logs = session.client("s3"), session.client("logs")
        self._evicted, self._bucket = evicted, bucket
        self.kept: int | None = None
        """The step in the evicted job's checkpoint, read while the job waited to run again."""

    def look(self, job: JobView) -> None:
        """Keep what is visible only at this moment."""
        if job.name == self._evicted and job.state == JobState.PREEMPTED:
            self.kept = self.checkpoint(job.name)

    def checkpoint(self, job: str) -> int | None:
        """The step in a job's checkpoint in S3. None: no checkpoint yet."""
        saved = self._object(f"{job}/checkpoints/checkpoint.json")
        return None if saved is None else int(json.loads(saved)["step"])

    def steps(self, training_job: str) -> list[int]:
        """The steps that a training job has logged, in order."""
        found = (re.match(r"step (\d+) ", line) for line in self.lines(training_job))
        return [int(match.group(1)) for match in found if match]

    def resumed_from(self, training_job: str) -> int | None:
        """The step that a training job resumed from, by its own log. None: a fresh start."""
        found = (re.search(r"goes on from step (\d+)", x) for x in self.lines(training_job))
        return next((int(match.group(1)) for match in found if match), None)

    def lines(self, training_job: str) -> list[str]:
        """The log lines of a training job."""
        try:
            return list(LogTail(self._logs, say=lambda _: None).new_lines(training_job))
        except ClientError:
            return []

    def model(self, artifact: str) -> list[float] | None:
        """The weights in a model.tar.gz. None: no such object."""
        bucket, _, key = artifact.removeprefix("s3://").partition("/")
        packed = self._object(key, bucket)
        if packed is None:
            return None
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            member = tar.extractfile("model.json")
            assert member is not None
            weights: list[float] = json.load(member)["weights"]
            return weights

    def _object(self, key: str, bucket: str | None = None) -> bytes | None:
        try:
            answer = self._s3.get_object(Bucket=bucket or self._bucket, Key=key)
        except ClientError:
            return None
        body: bytes = answer["Body"].read()
        return body


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofResult:
    """One result that must hold."""

    held: bool
    text: str
    """The observation, so that a failure explains itself."""


def checks(jobs: Mapping[str, JobView], evidence: Evidence) -> list[ProofResult]:
    """All checks, in order of display."""
    found = [*_states(jobs), _starts(jobs), *_evictions(jobs)]
    return [*found, *_resume(jobs, evidence)] if jobs[EVICTED].attempts else found


def _states(jobs: Mapping[str, JobView]) -> Iterator[ProofResult]:
    states = {name: job.state for name, job in jobs.items()}
    yield ProofResult(
        held=set(states.values()) == {"completed"} and len(states) == len(PARTS),
        text="every job completed: " + ", ".join(f"{n} {state}" for n, state in states.items()),
    )


def _starts(jobs: Mapping[str, JobView]) -> ProofResult:
    ran = [
        (attempt.admitted_at, job.name, attempt.number)
        for job in jobs.values()
        for attempt in job.attempts
    ]
    order = tuple((name, number) for _, name, number in sorted(ran))
    return ProofResult(
        held=order == STARTS,
        text="order of starts: " + ", ".join(_attempt(*start) for start in order),
    )


def _evictions(jobs: Mapping[str, JobView]) -> Iterator[ProofResult]:
    counted = {name: job.evictions for name, job in jobs.items()}
    wanted = {part.name: int(part.name == EVICTED) for part in PARTS}
    yield ProofResult(
        held=counted == wanted,
        text="evictions: " + ", ".join(f"{name} {n}" for name, n in counted.items()),
    )
    for first in jobs[EVICTED].attempts[:1]:
        yield ProofResult(
            held=(first.outcome, first.stopped_for) == ("evicted", FOR),
            text=f"{EVICTED}'s first attempt ended {first.outcome}, for {first.stopped_for}",
        )


def _resume(jobs: Mapping[str, JobView], evidence: Evidence) -> Iterator[ProofResult]:
    job, kept = jobs[EVICTED], evidence.kept
    first, last = job.attempts[0].training_job, job.attempts[-1].training_job
    stopped = max(evidence.steps(first), default=0)
    yield ProofResult(
        held=kept is not None and kept > 0 and kept <= stopped <= kept + SAVE_EVERY,
        text=f"{EVICTED} was stopped after step {stopped}; its checkpoint in S3 then held "
        f"step {kept}",
    )
    resumed, went_on = evidence.resumed_from(last), evidence.steps(last)
    yield ProofResult(
        held=kept is not None and resumed == kept and went_on[:1] == [kept + 1],
        text=f"{EVICTED} went on from step {resumed} ({last}); its next step was "
        f"{went_on[0] if went_on else 'none'}",
    )
    yield _same_model(job, evidence)


def _same_model(job: JobView, evidence: Evidence) -> ProofResult:
    """Train once more without an interruption, and compare the models."""
    steps = next(part.steps for part in PARTS if part.name == job.name)
    weights = begin()
    for step in range(steps):
        weights, _ = improve(weights, step)
    model = evidence.model(job.attempts[-1].artifact)
    same = model == weights
    return ProofResult(
        held=same,
        text=f"{job.name}'s model {'equals' if same else 'does not equal'}, to the last bit, that "
        f"of {steps} steps without a stop",
    )


def _attempt(name: str, number: int) -> str:
    return name if number == 1 else f"{name} again"

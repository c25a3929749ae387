"""Observes a training without the queue's word: through S3 and the logs."""

from __future__ import annotations

import io
import json
import re
import tarfile

import boto3
from botocore.exceptions import ClientError

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

"""An account in a running emulator, used through real boto3 over HTTP."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import mock

from botocore.exceptions import ClientError

from slotq.local import state
from slotq.local.keys import TOKEN_HEADER

GROUP = "/aws/sagemaker/TrainingJobs"
PATIENCE = 120.0


def gone(pid: int) -> bool:
    """Whether a process has ended with all its threads, also before anyone has waited for it."""
    try:
        state, *more = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return state == "Z" and int(more[16]) <= 1
    except OSError:
        return True


class Account:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with mock.patch.dict(os.environ, {"SLOTQ_LOCAL_DIR": str(folder)}):
            self.running = state.running()
            self.variables = state.variables(self.running)
        self.endpoint = self.running.endpoint
        self.bucket = self.endpoint.bucket

    @cached_property
    def s3(self) -> Any:
        return self.endpoint.client("s3")

    @cached_property
    def sagemaker(self) -> Any:
        return self.endpoint.client("sagemaker")

    @cached_property
    def logs(self) -> Any:
        return self.endpoint.client("logs")

    def control(self, what: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(
            f"{self.running.url}/_slotq/{what}",
            data,
            headers={TOKEN_HEADER: self.running.keys.token},
        )
        with urllib.request.urlopen(asked, timeout=PATIENCE) as said:
            return json.load(said)

    def knobs(self, values: Mapping[str, Any] | None = None) -> Any:
        return self.control("knobs", values)

    def upload_script(self, name: str, source: str) -> str:
        """Upload a sourcedir.tar.gz with train.py. Returns the URI."""
        return self.upload_source(name, {"train.py": source})

    def upload_source(self, name: str, files: Mapping[str, str | bytes]) -> str:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path, given in files.items():
                content = given.encode() if isinstance(given, str) else given
                entry = tarfile.TarInfo(path)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        key = f"{name}/source/sourcedir.tar.gz"
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=packed.getvalue())
        return f"s3://{self.bucket}/{key}"

    def request(
        self, name: str, source: str = "", *, instances: int = 1, **changes: Any
    ) -> dict[str, Any]:
        """A CreateTrainingJob request for a script, given as text."""
        parameters = changes.pop("parameters", {})
        program = changes.pop("program", "train.py")
        script = {
            "sagemaker_program": json.dumps(program),
            "sagemaker_submit_directory": json.dumps(self.upload_script(name, source)),
        }
        own = {key: json.dumps(value) for key, value in parameters.items()}
        return {
            "TrainingJobName": name,
            "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
            "RoleArn": "arn:aws:iam::123456789012:role/slotq-local",
            "OutputDataConfig": {"S3OutputPath": f"s3://{self.bucket}/out"},
            "ResourceConfig": {
                "InstanceType": "ml.m5.large",
                "InstanceCount": instances,
                "VolumeSizeInGB": 1,
            },
            "StoppingCondition": {"MaxRuntimeInSeconds": 100},
            "HyperParameters": {**(script if source else {}), **own},
            **changes,
        }

    def create(self, name: str, source: str = "", **changes: Any) -> None:
        self.sagemaker.create_training_job(**self.request(name, source, **changes))

    def describe(self, name: str) -> dict[str, Any]:
        described: dict[str, Any] = self.sagemaker.describe_training_job(TrainingJobName=name)
        return described

    def until(self, condition: Callable[[], Any], what: str = "it") -> Any:
        """Wait until the condition holds. Returns the condition's result."""
        end, pause = time.monotonic() + PATIENCE, 0.05
        while time.monotonic() < end:
            if found := condition():
                return found
            time.sleep(pause)
            pause = min(pause * 1.3, 0.5)  # Each look costs the emulator as much as a step of work.
        raise AssertionError(f"{what} did not come within {PATIENCE} seconds")

    def ended(self, name: str) -> dict[str, Any]:
        """Wait for a training job's end, also of one that is not there yet. Returns the
        description."""

        def over() -> dict[str, Any] | None:
            try:
                shown = self.describe(name)
            except ClientError as error:
                if "not found" in str(error):
                    return None
                raise
            live = shown["TrainingJobStatus"] in {"InProgress", "Stopping"}
            return None if live else shown

        found: dict[str, Any] = self.until(over, f"the end of {name}")
        return found

    def said(self, name: str, host: str = "algo-1") -> list[str]:
        """The log lines of a training job."""
        try:
            streams = self.logs.describe_log_streams(
                logGroupName=GROUP, logStreamNamePrefix=f"{name}/{host}-"
            )["logStreams"]
        except self.logs.exceptions.ResourceNotFoundException:
            return []
        return [
            event["message"]
            for stream in streams
            for event in self.logs.get_log_events(
                logGroupName=GROUP, logStreamName=stream["logStreamName"], startFromHead=True
            )["events"]
        ]

    def wait_for_line(self, name: str, line: str) -> None:
        self.until(lambda: line in self.said(name), f"the line '{line}'")

    def read(self, key: str) -> bytes:
        content: bytes = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return content

    def keys(self, prefix: str) -> list[str]:
        found = self.s3.list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [one["Key"] for one in found.get("Contents", ())]

    def unpacked(self, key: str) -> dict[str, bytes]:
        """The files in a tar.gz."""
        with tarfile.open(fileobj=io.BytesIO(self.read(key)), mode="r:gz") as tar:
            return {
                one.name: file.read()
                for one in tar.getmembers()
                if (file := tar.extractfile(one)) is not None
            }

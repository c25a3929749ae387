"""The SageMaker adapter over the training plane in one process, and clients that fail."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from slotq.local.services.training_service import PlaneClient
from slotq.local.training.knobs import Knobs
from slotq.local.training.plane import Plane
from slotq.local.training.virtual_runner import VirtualClock, VirtualRunner, Work
from slotq_core import names
from slotq_core.adapters.sagemaker.service import SageMakerTraining
from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState

TYPE = "ml.p4d.24xlarge"


def job(name: str = "job1") -> Job:
    return Job(
        name=name,
        state=JobState.STARTING,
        priority=1,
        entry_time=7,
        demand=Demand(slots=1),
        pools=("p",),
    )


def attempt(number: int = 1, name: str = "job1", entry_time: int = 7) -> Attempt:
    return Attempt(
        number=number,
        training_job=names.training_job_name(name, number),
        token=names.token(name, entry_time, number),
        pool="p",
        instance_type=TYPE,
        admitted_at=7,
    )


def request(name: str = "job1", **changes: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/training-role",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "CheckpointConfig": {"S3Uri": "s3://bucket/checkpoints"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "Tags": [{"Key": "priority", "Value": "5"}],
        **changes,
    }


class World:
    def __init__(self, **knobs: Any) -> None:
        self.clock = VirtualClock()
        runner = VirtualRunner(clock=self.clock, work_of=lambda *_: Work(runtime=10_000, stop=1000))
        self.events: list[dict[str, Any]] = []
        self.plane = Plane(
            clock=self.clock, runner=runner, emit=self.events.append, knobs=Knobs(**knobs)
        )
        self.client = PlaneClient(self.plane)
        self.training = SageMakerTraining(
            queue="test", clock=self.clock, make_client=lambda: self.client
        )

    def until(self, seconds: int) -> None:
        while (due := self.plane.next_due()) is not None and due <= seconds * 1000:
            self.clock.set(due)
            self.plane.advance()
        self.clock.set(seconds * 1000)


class Failing:
    """A client whose calls all raise this error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        def call(**_: Any) -> Any:
            raise self.error

        return call


def client_error(code: str, text: str = "", status: int = 400) -> ClientError:
    return ClientError(
        {
            "Error": {"Code": code, "Message": text},
            "ResponseMetadata": {"HTTPStatusCode": status},
        },
        "Any",
    )

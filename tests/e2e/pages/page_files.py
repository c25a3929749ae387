"""Files that pages need beforehand."""

from __future__ import annotations

import json


def request(*command: str, name: str = "any", instance: str = "ml.m5.large") -> str:
    """A CreateTrainingJob request for a command of this machine."""
    return json.dumps(
        {
            "TrainingJobName": name,
            "AlgorithmSpecification": {
                "TrainingImage": "train:1",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": command,
            },
            "RoleArn": "arn:aws:iam::123456789012:role/trainer",
            "OutputDataConfig": {"S3OutputPath": "s3://sagemaker-us-east-1-123456789012/models"},
            "ResourceConfig": {"InstanceType": instance, "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        }
    )


def apps(folder: str) -> dict[str, str]:
    """The two apps of a federated job, whose members sleep."""
    job = json.dumps({"AlgorithmSpecification": {"ContainerEntrypoint": ["sleep", "600"]}})
    return {f"{folder}/{app}/job.json": job for app in ("aggregator", "trainer")}

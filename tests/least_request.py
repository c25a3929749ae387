"""The least CreateTrainingJob request that SageMaker takes."""

from __future__ import annotations

from typing import Any

TRAINER = "arn:aws:iam::123456789012:role/trainer"


def least_request(name: str, **fields: Any) -> dict[str, Any]:
    """Of a job with this name; `fields` beside or in place of the least ones."""
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {"TrainingImage": "train:1", "TrainingInputMode": "File"},
        "RoleArn": TRAINER,
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1},
        **fields,
    }

"""The places that SageMaker writes to for a training job, and those that a project allows.

s3://bucket/team-a           the prefix and all below it, by whole parts: never s3://bucket/team-ab
s3://bucket-*/team-a         `*` matches any text within one part fs-0123456789abcdef0/team-a  a
directory of a file system that a job mounts to write arn:aws:sagemaker:…          model packages
and MLflow servers, by ARN

The script of a job may write elsewhere: only the rights of its execution role bound that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from slotq_core.model.callers import fits
from slotq_core.wire.training.field_paths import values_at

BY_URI = (
    "OutputDataConfig.S3OutputPath",
    "CheckpointConfig.S3Uri",
    "DebugHookConfig.S3OutputPath",
    "DebugRuleConfigurations[].S3OutputPath",
    "TensorBoardOutputConfig.S3OutputPath",
    "ProfilerConfig.S3OutputPath",
    "ProfilerRuleConfigurations[].S3OutputPath",
)
OF_PROCESSING = (
    "ProcessingOutputConfig.Outputs[].S3Output.S3Uri",
    "ProcessingInputs[].DatasetDefinition.AthenaDatasetDefinition.OutputS3Uri",
    "ProcessingInputs[].DatasetDefinition.RedshiftDatasetDefinition.OutputS3Uri",
)
BY_ARN = ("ModelPackageConfig.ModelPackageGroupArn", "MlflowConfig.MlflowResourceArn")
FEATURE_GROUPS = "ProcessingOutputConfig.Outputs[].FeatureStoreOutput.FeatureGroupName"
"""Feature groups that processing jobs write to. No pattern allows them."""
MOUNTED = "InputDataConfig[].DataSource.FileSystemDataSource"
"""File systems. Those that are not mounted `ro` can be written."""

_S3, _ARN, _FILES = "s3://", "arn:", "fs-"
_BAD = re.compile(r"[\x00-\x20\x7f\\%]")
"""Characters that some program on the way may read as another path."""
_DOTS = frozenset({".", ".."})


def written(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each place that SageMaker writes to: the field's path, and the place as in the patterns."""
    for path in (*BY_URI, *BY_ARN, *OF_PROCESSING):
        for here, place in values_at(request, path):
            yield here, str(place)
    for here, name in values_at(request, FEATURE_GROUPS):
        yield here, f"feature-group/{name}"
    for here, mount in values_at(request, MOUNTED):
        if isinstance(mount, Mapping) and mount.get("FileSystemAccessMode") != "ro":
            folder = str(mount.get("DirectoryPath", "")).strip("/")
            yield f"{here}.DirectoryPath", f"{mount.get('FileSystemId', '')}/{folder}".rstrip("/")


def lies_in(pattern: str, place: str) -> bool:
    """Whether the place is the pattern's, or lies below it."""
    if place.startswith(_ARN) or pattern.startswith(_ARN):
        return place.startswith(_ARN) and pattern.startswith(_ARN) and fits(pattern, place)
    if pattern.startswith(_S3) != place.startswith(_S3) or not is_plain(place):
        return False
    wanted, parts = _parts(pattern), _parts(place)
    return len(wanted) <= len(parts) and all(map(fits, wanted, parts))


def is_plain(place: str) -> bool:
    """Whether a place has no part that a program might read as another path: dots, escapes,
    spaces."""
    return not _BAD.search(place) and _DOTS.isdisjoint(place.split("/"))


def is_pattern(text: str) -> bool:
    """Whether the text can be a pattern of places."""
    if text.startswith(_ARN):
        return True
    known = text.startswith(_FILES) or (text.startswith(_S3) and len(text) > len(_S3))
    return known and is_plain(text) and all(_parts(text))


def _parts(place: str) -> list[str]:
    """The bucket or the file system, then the parts of the path, without a final slash."""
    return place.removeprefix(_S3).rstrip("/").split("/")

"""The fields of a CreateProcessingJob request: names, types, and which are required.

Generated from botocore 1.44.5 by `make training-fields`; do not edit. Admission does not ask
botocore itself: loading SageMaker's service model takes longer than the rest of a submission.
"""

from __future__ import annotations

from collections.abc import Mapping

STRUCTURES: Mapping[str, Mapping[str, str]] = {
    "CreateProcessingJobRequest": {
        "ProcessingInputs": "list ProcessingInput",
        "ProcessingOutputConfig": "ProcessingOutputConfig",
        "ProcessingJobName": "string",
        "ProcessingResources": "ProcessingResources",
        "StoppingCondition": "ProcessingStoppingCondition",
        "AppSpecification": "AppSpecification",
        "Environment": "map string",
        "NetworkConfig": "NetworkConfig",
        "RoleArn": "string",
        "Tags": "list Tag",
        "ExperimentConfig": "ExperimentConfig",
    },
    "ProcessingInput": {
        "InputName": "string",
        "AppManaged": "boolean",
        "S3Input": "ProcessingS3Input",
        "DatasetDefinition": "DatasetDefinition",
    },
    "ProcessingS3Input": {
        "S3Uri": "string",
        "LocalPath": "string",
        "S3DataType": "string",
        "S3InputMode": "string",
        "S3DataDistributionType": "string",
        "S3CompressionType": "string",
    },
    "DatasetDefinition": {
        "AthenaDatasetDefinition": "AthenaDatasetDefinition",
        "RedshiftDatasetDefinition": "RedshiftDatasetDefinition",
        "LocalPath": "string",
        "DataDistributionType": "string",
        "InputMode": "string",
    },
    "AthenaDatasetDefinition": {
        "Catalog": "string",
        "Database": "string",
        "QueryString": "string",
        "WorkGroup": "string",
        "OutputS3Uri": "string",
        "KmsKeyId": "string",
        "OutputFormat": "string",
        "OutputCompression": "string",
    },
    "RedshiftDatasetDefinition": {
        "ClusterId": "string",
        "Database": "string",
        "DbUser": "string",
        "QueryString": "string",
        "ClusterRoleArn": "string",
        "OutputS3Uri": "string",
        "KmsKeyId": "string",
        "OutputFormat": "string",
        "OutputCompression": "string",
    },
    "ProcessingOutputConfig": {
        "Outputs": "list ProcessingOutput",
        "KmsKeyId": "string",
    },
    "ProcessingOutput": {
        "OutputName": "string",
        "S3Output": "ProcessingS3Output",
        "FeatureStoreOutput": "ProcessingFeatureStoreOutput",
        "AppManaged": "boolean",
    },
    "ProcessingS3Output": {
        "S3Uri": "string",
        "LocalPath": "string",
        "S3UploadMode": "string",
    },
    "ProcessingFeatureStoreOutput": {
        "FeatureGroupName": "string",
    },
    "ProcessingResources": {
        "ClusterConfig": "ProcessingClusterConfig",
    },
    "ProcessingClusterConfig": {
        "InstanceCount": "integer",
        "InstanceType": "string",
        "VolumeSizeInGB": "integer",
        "VolumeKmsKeyId": "string",
        "InstancePreferences": "list ProcessingInstancePreference",
        "SelectedInstanceType": "string",
        "SelectedInstanceCount": "integer",
    },
    "ProcessingInstancePreference": {
        "InstanceType": "string",
        "InstanceCount": "integer",
    },
    "ProcessingStoppingCondition": {
        "MaxRuntimeInSeconds": "integer",
    },
    "AppSpecification": {
        "ImageUri": "string",
        "ContainerEntrypoint": "list string",
        "ContainerArguments": "list string",
    },
    "NetworkConfig": {
        "EnableInterContainerTrafficEncryption": "boolean",
        "EnableNetworkIsolation": "boolean",
        "VpcConfig": "VpcConfig",
    },
    "VpcConfig": {
        "SecurityGroupIds": "list string",
        "Subnets": "list string",
    },
    "Tag": {
        "Key": "string",
        "Value": "string",
    },
    "ExperimentConfig": {
        "ExperimentName": "string",
        "TrialName": "string",
        "TrialComponentDisplayName": "string",
        "RunName": "string",
    },
}
"""By name; the request first."""

REQUIRED: Mapping[str, tuple[str, ...]] = {
    "CreateProcessingJobRequest": (
        "ProcessingJobName",
        "ProcessingResources",
        "AppSpecification",
        "RoleArn",
    ),
    "ProcessingInput": ("InputName",),
    "ProcessingS3Input": (
        "S3Uri",
        "S3DataType",
    ),
    "AthenaDatasetDefinition": (
        "Catalog",
        "Database",
        "QueryString",
        "OutputS3Uri",
        "OutputFormat",
    ),
    "RedshiftDatasetDefinition": (
        "ClusterId",
        "Database",
        "DbUser",
        "QueryString",
        "ClusterRoleArn",
        "OutputS3Uri",
        "OutputFormat",
    ),
    "ProcessingOutputConfig": ("Outputs",),
    "ProcessingOutput": ("OutputName",),
    "ProcessingS3Output": (
        "S3Uri",
        "S3UploadMode",
    ),
    "ProcessingFeatureStoreOutput": ("FeatureGroupName",),
    "ProcessingResources": ("ClusterConfig",),
    "ProcessingClusterConfig": ("VolumeSizeInGB",),
    "ProcessingInstancePreference": ("InstanceType",),
    "ProcessingStoppingCondition": ("MaxRuntimeInSeconds",),
    "AppSpecification": ("ImageUri",),
    "VpcConfig": (
        "SecurityGroupIds",
        "Subnets",
    ),
    "Tag": (
        "Key",
        "Value",
    ),
}
"""The fields that a structure must have."""

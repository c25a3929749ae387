"""The fields of a CreateTrainingJob request: names, types, and which are required.

Generated from botocore 1.44.5 by `make training-fields`; do not edit. Admission does not ask
botocore itself: loading SageMaker's service model takes longer than the rest of a submission.
"""

from __future__ import annotations

from collections.abc import Mapping

STRUCTURES: Mapping[str, Mapping[str, str]] = {
    "CreateTrainingJobRequest": {
        "TrainingJobName": "string",
        "HyperParameters": "map string",
        "AlgorithmSpecification": "AlgorithmSpecification",
        "RoleArn": "string",
        "InputDataConfig": "list Channel",
        "OutputDataConfig": "OutputDataConfig",
        "ResourceConfig": "ResourceConfig",
        "VpcConfig": "VpcConfig",
        "StoppingCondition": "StoppingCondition",
        "Tags": "list Tag",
        "EnableNetworkIsolation": "boolean",
        "EnableInterContainerTrafficEncryption": "boolean",
        "EnableManagedSpotTraining": "boolean",
        "CheckpointConfig": "CheckpointConfig",
        "DebugHookConfig": "DebugHookConfig",
        "DebugRuleConfigurations": "list DebugRuleConfiguration",
        "TensorBoardOutputConfig": "TensorBoardOutputConfig",
        "ExperimentConfig": "ExperimentConfig",
        "ProfilerConfig": "ProfilerConfig",
        "ProfilerRuleConfigurations": "list ProfilerRuleConfiguration",
        "Environment": "map string",
        "RetryStrategy": "RetryStrategy",
        "RemoteDebugConfig": "RemoteDebugConfig",
        "InfraCheckConfig": "InfraCheckConfig",
        "SessionChainingConfig": "SessionChainingConfig",
        "ServerlessJobConfig": "ServerlessJobConfig",
        "MlflowConfig": "MlflowConfig",
        "ModelPackageConfig": "ModelPackageConfig",
    },
    "AlgorithmSpecification": {
        "TrainingImage": "string",
        "AlgorithmName": "string",
        "TrainingInputMode": "string",
        "MetricDefinitions": "list MetricDefinition",
        "EnableSageMakerMetricsTimeSeries": "boolean",
        "ContainerEntrypoint": "list string",
        "ContainerArguments": "list string",
        "TrainingImageConfig": "TrainingImageConfig",
    },
    "MetricDefinition": {
        "Name": "string",
        "Regex": "string",
    },
    "TrainingImageConfig": {
        "TrainingRepositoryAccessMode": "string",
        "TrainingRepositoryAuthConfig": "TrainingRepositoryAuthConfig",
    },
    "TrainingRepositoryAuthConfig": {
        "TrainingRepositoryCredentialsProviderArn": "string",
    },
    "Channel": {
        "ChannelName": "string",
        "DataSource": "DataSource",
        "ContentType": "string",
        "CompressionType": "string",
        "RecordWrapperType": "string",
        "InputMode": "string",
        "ShuffleConfig": "ShuffleConfig",
    },
    "DataSource": {
        "S3DataSource": "S3DataSource",
        "FileSystemDataSource": "FileSystemDataSource",
        "DatasetSource": "DatasetSource",
    },
    "S3DataSource": {
        "S3DataType": "string",
        "S3Uri": "string",
        "S3DataDistributionType": "string",
        "AttributeNames": "list string",
        "InstanceGroupNames": "list string",
        "ModelAccessConfig": "ModelAccessConfig",
        "HubAccessConfig": "HubAccessConfig",
    },
    "ModelAccessConfig": {
        "AcceptEula": "boolean",
    },
    "HubAccessConfig": {
        "HubContentArn": "string",
    },
    "FileSystemDataSource": {
        "FileSystemId": "string",
        "FileSystemAccessMode": "string",
        "FileSystemType": "string",
        "DirectoryPath": "string",
    },
    "DatasetSource": {
        "DatasetArn": "string",
    },
    "ShuffleConfig": {
        "Seed": "integer",
    },
    "OutputDataConfig": {
        "KmsKeyId": "string",
        "S3OutputPath": "string",
        "CompressionType": "string",
    },
    "ResourceConfig": {
        "InstanceType": "string",
        "InstanceCount": "integer",
        "VolumeSizeInGB": "integer",
        "VolumeKmsKeyId": "string",
        "KeepAlivePeriodInSeconds": "integer",
        "InstanceGroups": "list InstanceGroup",
        "TrainingPlanArn": "string",
        "InstancePlacementConfig": "InstancePlacementConfig",
        "InstancePreferences": "list InstancePreference",
        "SelectedInstanceType": "string",
        "SelectedInstanceCount": "integer",
    },
    "InstanceGroup": {
        "InstanceType": "string",
        "InstanceCount": "integer",
        "InstanceGroupName": "string",
    },
    "InstancePlacementConfig": {
        "EnableMultipleJobs": "boolean",
        "PlacementSpecifications": "list PlacementSpecification",
    },
    "PlacementSpecification": {
        "UltraServerId": "string",
        "InstanceCount": "integer",
    },
    "InstancePreference": {
        "InstanceType": "string",
        "InstanceCount": "integer",
        "TrainingPlanArns": "list string",
    },
    "VpcConfig": {
        "SecurityGroupIds": "list string",
        "Subnets": "list string",
    },
    "StoppingCondition": {
        "MaxRuntimeInSeconds": "integer",
        "MaxWaitTimeInSeconds": "integer",
        "MaxPendingTimeInSeconds": "integer",
    },
    "Tag": {
        "Key": "string",
        "Value": "string",
    },
    "CheckpointConfig": {
        "S3Uri": "string",
        "LocalPath": "string",
    },
    "DebugHookConfig": {
        "LocalPath": "string",
        "S3OutputPath": "string",
        "HookParameters": "map string",
        "CollectionConfigurations": "list CollectionConfiguration",
    },
    "CollectionConfiguration": {
        "CollectionName": "string",
        "CollectionParameters": "map string",
    },
    "DebugRuleConfiguration": {
        "RuleConfigurationName": "string",
        "LocalPath": "string",
        "S3OutputPath": "string",
        "RuleEvaluatorImage": "string",
        "InstanceType": "string",
        "VolumeSizeInGB": "integer",
        "RuleParameters": "map string",
    },
    "TensorBoardOutputConfig": {
        "LocalPath": "string",
        "S3OutputPath": "string",
    },
    "ExperimentConfig": {
        "ExperimentName": "string",
        "TrialName": "string",
        "TrialComponentDisplayName": "string",
        "RunName": "string",
    },
    "ProfilerConfig": {
        "S3OutputPath": "string",
        "ProfilingIntervalInMilliseconds": "integer",
        "ProfilingParameters": "map string",
        "DisableProfiler": "boolean",
    },
    "ProfilerRuleConfiguration": {
        "RuleConfigurationName": "string",
        "LocalPath": "string",
        "S3OutputPath": "string",
        "RuleEvaluatorImage": "string",
        "InstanceType": "string",
        "VolumeSizeInGB": "integer",
        "RuleParameters": "map string",
    },
    "RetryStrategy": {
        "MaximumRetryAttempts": "integer",
    },
    "RemoteDebugConfig": {
        "EnableRemoteDebug": "boolean",
    },
    "InfraCheckConfig": {
        "EnableInfraCheck": "boolean",
    },
    "SessionChainingConfig": {
        "EnableSessionTagChaining": "boolean",
    },
    "ServerlessJobConfig": {
        "BaseModelArn": "string",
        "AcceptEula": "boolean",
        "JobType": "string",
        "CustomizationTechnique": "string",
        "Peft": "string",
        "EvaluationType": "string",
        "EvaluatorArn": "string",
        "SequenceLength": "string",
    },
    "MlflowConfig": {
        "MlflowResourceArn": "string",
        "MlflowExperimentName": "string",
        "MlflowRunName": "string",
    },
    "ModelPackageConfig": {
        "ModelPackageGroupArn": "string",
        "SourceModelPackageArn": "string",
    },
}
"""By name; the request first."""

REQUIRED: Mapping[str, tuple[str, ...]] = {
    "CreateTrainingJobRequest": (
        "TrainingJobName",
        "RoleArn",
        "OutputDataConfig",
    ),
    "AlgorithmSpecification": ("TrainingInputMode",),
    "MetricDefinition": (
        "Name",
        "Regex",
    ),
    "TrainingImageConfig": ("TrainingRepositoryAccessMode",),
    "TrainingRepositoryAuthConfig": ("TrainingRepositoryCredentialsProviderArn",),
    "Channel": (
        "ChannelName",
        "DataSource",
    ),
    "S3DataSource": (
        "S3DataType",
        "S3Uri",
    ),
    "ModelAccessConfig": ("AcceptEula",),
    "HubAccessConfig": ("HubContentArn",),
    "FileSystemDataSource": (
        "FileSystemId",
        "FileSystemAccessMode",
        "FileSystemType",
        "DirectoryPath",
    ),
    "DatasetSource": ("DatasetArn",),
    "ShuffleConfig": ("Seed",),
    "OutputDataConfig": ("S3OutputPath",),
    "InstanceGroup": (
        "InstanceType",
        "InstanceCount",
        "InstanceGroupName",
    ),
    "PlacementSpecification": ("InstanceCount",),
    "InstancePreference": ("InstanceType",),
    "VpcConfig": (
        "SecurityGroupIds",
        "Subnets",
    ),
    "Tag": (
        "Key",
        "Value",
    ),
    "CheckpointConfig": ("S3Uri",),
    "DebugHookConfig": ("S3OutputPath",),
    "DebugRuleConfiguration": (
        "RuleConfigurationName",
        "RuleEvaluatorImage",
    ),
    "TensorBoardOutputConfig": ("S3OutputPath",),
    "ProfilerRuleConfiguration": (
        "RuleConfigurationName",
        "RuleEvaluatorImage",
    ),
    "RetryStrategy": ("MaximumRetryAttempts",),
    "ServerlessJobConfig": (
        "BaseModelArn",
        "JobType",
    ),
    "MlflowConfig": ("MlflowResourceArn",),
    "ModelPackageConfig": ("ModelPackageGroupArn",),
}
"""The fields that a structure must have."""

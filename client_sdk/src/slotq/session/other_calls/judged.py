"""Every operation of SageMaker that starts work, and what becomes of the operation here.

SageMaker has a quota of instances for training jobs, and others for processing jobs, transform
jobs, endpoints, notebooks and so on. A pool of the queue is the first. So a call competes with the
queue's jobs only if training jobs come of it; all others go to SageMaker unchanged.

docs/client.md shows this table. A test compares it with the calls of the installed SDK and
botocore: a further one must be judged here.
"""

from __future__ import annotations

from collections.abc import Mapping

QUEUED = "CreateTrainingJob"

INSTEAD: Mapping[str, str] = {
    "CreateHyperParameterTuningJob": (
        "put the trials into the queue as a sweep: session.sweep(estimator, space), "
        "queue.sweeps.submit, or slotq sweep"
    ),
    "CreateAutoMLJob": (
        "train the candidates that you want to compare as a sweep: session.sweep, or slotq sweep"
    ),
    "CreateAutoMLJobV2": (
        "train the candidates that you want to compare as a sweep: session.sweep, or slotq sweep"
    ),
    "StartPipelineExecution": "submit the training steps to the queue, each --after the one before",
    "RetryPipelineExecution": "submit the training steps to the queue, each --after the one before",
}
"""The operations of which training jobs come that SageMaker itself creates, so that the queue never
sees them; those of pipelines only where a step trains. Each with what to do instead."""

PIPELINES = frozenset({"StartPipelineExecution", "RetryPipelineExecution"})

PASSED: Mapping[str, str] = {
    "CreateProcessingJob": "uses SageMaker's quota of processing instances",
    "CreateTransformJob": "uses the quota of transform instances",
    "CreateLabelingJob": "people do the work; automated labelling trains within its own quota",
    "CreateCompilationJob": "has instances of its own",
    "CreateEdgePackagingJob": "has instances of its own",
    "CreateOptimizationJob": "has a quota of its own",
    "CreateInferenceRecommendationsJob": "starts endpoints for a while",
    "CreateAIBenchmarkJob": "measures endpoints",
    "CreateAIRecommendationJob": "measures endpoints",
    "CreateModelCardExportJob": "writes a document",
    "CreateDataQualityJobDefinition": "starts nothing: it describes processing jobs",
    "CreateModelBiasJobDefinition": "starts nothing: it describes processing jobs",
    "CreateModelExplainabilityJobDefinition": "starts nothing: it describes processing jobs",
    "CreateModelQualityJobDefinition": "starts nothing: it describes processing jobs",
    "CreateMonitoringSchedule": "starts processing jobs",
    "StartMonitoringSchedule": "starts processing jobs",
    "CreateJob": "customizes a model without instances of yours, as serverless training jobs do",
    "CreateTrainingSession": "customizes a model without instances of yours",
    "CreatePipeline": "starts nothing; the start of an execution is judged",
    "CreateTrainingPlan": "reserves capacity; the queue's jobs may name the plan",
    "CreateCluster": "HyperPod has instances of its own",
    "CreateClusterExtension": "HyperPod has instances of its own",
    "CreateClusterSchedulerConfig": "HyperPod has instances of its own",
    "StartClusterHealthCheck": "HyperPod has instances of its own",
    "CreateNotebookInstance": "uses the quota of notebook instances",
    "StartNotebookInstance": "uses the quota of notebook instances",
    "StartSession": "connects to a Studio space",
    "CreateEdgeDeploymentPlan": "deploys to devices",
    "StartEdgeDeploymentStage": "deploys to devices",
    "StartInferenceExperiment": "uses endpoints",
    "StartMlflowTrackingServer": "has instances of its own",
}
"""The operations that go to SageMaker unchanged, and why they take nothing from the queue."""

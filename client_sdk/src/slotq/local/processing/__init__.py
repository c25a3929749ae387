"""Processing jobs on the training plane, which runs them like training jobs.

processing_job  one processing job as SageMaker shows it
processing_run  its container: inputs, outputs, configuration
"""

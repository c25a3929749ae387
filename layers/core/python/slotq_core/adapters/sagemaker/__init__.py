"""SageMaker training. Its own words never leave this folder.

service           the port `TrainingService`
operations        SageMaker's operations for each kind of work
processing        processing jobs in the words of training jobs
node_requests     the CreateTrainingJob request of a node
observations      events and descriptions as observations
sagemaker_errors  every documented error and outcome, and what follows from it
sagemaker_rights  what refusals say: whose right is missing, which quota is used up
executions        executions of pipelines
training_plans    the description of a training plan as facts
unknown_fields    fields that this botocore does not know are sent all the same
"""

"""SageMaker training. Its own words never leave this folder.

service           the port `TrainingService`
observations      events and descriptions as observations
sagemaker_errors  every documented error and outcome, and what follows from it
quota_sentences   which quota a refusal names
sagemaker_rights  refusals for want of a right: whose right it is
unknown_fields    fields that this botocore does not know are sent all the same
"""

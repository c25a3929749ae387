"""SageMaker training. Its own words never leave this folder.

    service           the port `TrainingService`
    observations      events and descriptions as observations
    sagemaker_errors  every documented error and outcome, and what follows from it
"""

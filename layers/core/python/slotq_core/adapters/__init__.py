"""The ports, implemented. No adapter knows another.

dynamodb          the store
memory            the same store in memory, for simulations and tests
sagemaker         the training service
eventbridge       job state changes as events
sqs               dead letters
submitters        who submits by a queue of messages
nodes             what is shipped to nodes: the agent
receivers         SNS, Slack and webhooks, for notifications; state machines and pipelines
notifiers         how a pass is asked for, now or later
scripts           what training scripts read and write below their checkpoints
deployment_settings  settings from environment variables
initial_settings  pools and limits of the settings, brought into the store
"""

"""Where `fit()` is caught: SageMaker's calls, answered by the queue.

installed_sdk       `QueueTrainingJobSession` for the SDK that is installed
sdk2                for SDK v2
sdk3                for SDK v3
install             `slotq.install`, for plain boto3; the settings that all of these take
hooks               botocore's event hooks
training_calls      the operations, answered for jobs of the queue
answers             what each call is answered with
shared_clients      clients that SDK v3 keeps for the whole process
other_sessions      copies of sessions, later default sessions, other processes
relay               the same as an endpoint, for other programs
"""

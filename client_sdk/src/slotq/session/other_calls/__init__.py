"""The other calls of SageMaker that start something: what becomes of each in a session of ours.

judged      each operation, with what we do about it and why
refusing    refuses those that would start training jobs past the queue
"""

"""S3 to /opt/ml and back.

transfer        code, channels and artifacts
archives        what is unpacked, and what must not be
checkpoints     the folder that is kept in S3 while the job runs
upload_markers  what SageMaker's agent lays beside the files that it copies
"""

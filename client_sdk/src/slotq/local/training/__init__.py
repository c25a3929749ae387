"""Our own SageMaker training plane. It knows no HTTP.

plane           the operations
life            a training job from start to end
warm_pools      instances that stay after the end, for the next job
training_plans  instances that are bought for windows of time
plan_documents  reads the plans that the emulator is to have
training_job    one training job as SageMaker shows it
search          Search, over the training jobs
request_check   checks a request by botocore's model, and how a call can fail
runner          what the plane asks of whatever does the work
process_runner  work as processes
training_run    one training job from download to upload
virtual_runner  work on a virtual clock
knobs           delays and faults, to order
"""

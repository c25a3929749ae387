"""The whole system on this machine: `slotq local`.

emulator       all of it in one process
entry          what keeps strangers out
keys           the keys of one emulator
front          who answers a request
serve          runs an emulator, here or in the background
state          a running emulator, for `stop`, `env` and `as`
acting         another person, for `as`
kept           what survives a restart
endpoint       where it listens
notifier       notifies people of their jobs
sam_local      the built functions under `sam local`
services       AWS around the queue: moto, API Gateway, Lambda
training       the SageMaker training plane
processing     processing jobs on that plane
container      jobs as processes: /opt/ml, environment, transfer
job_processes  a shell beside a job's process, its ports, and connections there
"""

"""A training container's contract, for processes.

workdir       /opt/ml of each host
transfer      code, channels and artifacts between S3 and /opt/ml
archives      what is unpacked, and names that others chose
checkpoints   the folder that is kept in S3 while the job runs
image         the Python that replaces the job's image, and each job's own over it
script        hyperparameters, and the command of script mode, or the request's own
variables     the environment of script mode, ports among it
host_process  one process and its group, and who gets SIGTERM
isolation     a private /opt/ml by a mount namespace, and a container's rights
node          what a node's agent gets: GPUs, and where things lie
job_output    from a process's bytes to log lines in the logs service
"""

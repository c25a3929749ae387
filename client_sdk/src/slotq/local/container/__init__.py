"""A training container's contract, for processes.

workdir       /opt/ml of each host
storage       S3 to /opt/ml and back, checkpoints among it
image         what stands for the job's image: a Python, SageMaker's toolkit
job_python    the job's own environment over it
arguments     hyperparameters, and the script's arguments
script        the command of script mode, or the request's own
variables     the environment of script mode
host_process  one process and its group
signals       who gets SIGTERM
ports         ports of their own for jobs that share this machine
isolation     a private /opt/ml by a mount namespace
paths         names that others chose, below a folder
job_output    from a process's bytes to log lines in the logs service
"""

"""A training container's contract, for processes.

workdir       /opt/ml of each host
transfer      S3 to /opt/ml and back
script        the command and environment of script mode
host_process  one process and its group
isolation     a private /opt/ml by a mount namespace
paths         names that others chose, below a folder
archives      unpacks archives that users made
job_output    log lines to the logs service
"""

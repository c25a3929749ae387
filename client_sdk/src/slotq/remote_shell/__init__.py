"""A shell in a running job, and ports of it on this machine.

running      which jobs can be entered, and what to tell of the others
request      what a request needs so that a shell can be opened
ports        ports to forward, and where this machine listens for them
ssm_session  sessions of AWS Systems Manager in a training job's container
plugin       the Session Manager plugin, which runs the sessions
at_start     waits for a job's start, then enters it
"""

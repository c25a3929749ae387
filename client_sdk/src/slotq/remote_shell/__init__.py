"""A shell in a running job, and ports of it on this machine.

request      what a request needs so that a shell can be opened
ports        ports to forward, and where this machine listens for them
ssm_session  which jobs can be entered, and sessions of AWS Systems Manager in them
on_node      the command that enters one job of a node
plugin       the Session Manager plugin, which runs the sessions
at_start     waits for a job's start, then enters it
"""

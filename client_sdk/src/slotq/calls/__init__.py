"""What the queue can be asked beside jobs (`jobs.job_calls`), groups (`groups.group_calls`) and
sweeps (`sweeps.sweep`).

configuration_calls  pools, projects, the whole configuration and its limits
usage_calls          what jobs have used, and when
service_calls        the queue itself: its release, its callers, its health, its snapshot
earlier_names        QueueClient's methods under their names of version 0.2
"""

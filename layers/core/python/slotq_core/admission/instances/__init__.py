"""What instances contain, how they are bought, and which jobs share one.

instance_contents  GPUs, vCPUs and memory, for demands, pools and quotas
capacity_kinds     on demand, spot or a plan: what requests ask for, and what pools offer
runtimes           how long a job may run, for pools that are not always open
warm_keys          jobs that leave and use warm instances
nodes              jobs that ask for GPUs of a node: which may run there, and whose node it is
"""

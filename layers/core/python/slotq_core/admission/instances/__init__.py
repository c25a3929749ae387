"""What instances contain, and which jobs share one.

instance_contents  GPUs, vCPUs and memory, for demands, pools and quotas
nodes              jobs that ask for GPUs of a node: which may run there, and whose node it is
"""

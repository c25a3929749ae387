"""Nodes as rooms within the rooms of their pools.

node_room     the GPUs of one node: free, coming free, claimed, held
node_index    the nodes of one tenant in one pool, by the GPUs that they have left
node_requests  what waiting jobs ask for in fair shares
own_amounts   what jobs hold themselves, also in quotas and shares where projects share nodes
own_limits    the limits of projects, in which jobs on nodes count by themselves
node_jobs     a node as one job of its pool, for all jobs that do not run on nodes
gang_members  members of running gangs on nodes: who stops with whom
nodes         the nodes of a plan: which job may use which, and what the plan gives on them
node_ends     which nodes end, and when the next one might
"""

"""The actions of a turn, least disruptive first. Actions look at the state and propose.

settle         step 1: what the clock has already decided
consolidate    move running jobs to another pool
reclaim        take slots back from projects above their share
reservation_reclaim  take slots back that are reserved for the project
preempt        evict a lower rank of the same project
time_slice     take turns between users of one rank
reserve        let a pool drain for a job that others passed for too long
backfill       start a later job where a pool drains, if that delays nobody
victims        a set of victims: what it frees and what it costs
victim_search  looks for a better set
nodes          the same for GPUs of nodes
action_rules   the actions of one plan together
"""

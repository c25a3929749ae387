"""The actions of a turn, least disruptive first. Actions look at the state and propose.

settle         step 1: what the clock has already decided
consolidate    move running jobs to another pool
node_moves     move running jobs to other nodes
reclaim        take slots back from projects above their share
preempt        evict a lower rank of the same project
time_slice     take turns between users of one rank
reserve        let a pool drain for a job that others passed for too long
victims        a set of victims: what it frees and what it costs
node_victims   jobs of lower rank on one node
victim_search  looks for a better set
move_search    which jobs of one node to move, and where to
action_rules   the actions of one plan together
"""

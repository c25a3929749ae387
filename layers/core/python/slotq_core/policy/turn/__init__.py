"""The order of turns, and the steps of one turn.

turn_order  the most deprived project's first job
steps       the steps of a turn: find a proposal, have it applied
gang_turn   the turn of a gang: all members or none
node_turn   the turn of a job that takes GPUs of a node
gang_on_nodes  the members of a gang that take GPUs of nodes
prospects   a quick test whether a turn can bring anything
unread      when a line is read of which only a lower bound is known
blocked     a turn that brought nothing
revisit     which blocked jobs a turn may have helped
warm_starts  starts in terms of warm instances, and their releases
net         restarts without a start that a later turn takes back
result      the plan of a final state
"""

"""The actions of a turn that needs GPUs of a node, least disruptive first.

node_moves    move running jobs to other nodes
move_search   which jobs of one node to move, and where to
node_reclaim  take GPUs of a shared node back from projects above their share
node_victims  jobs of lower rank on one node
node_slices   take turns between users of one rank
"""

"""The actions of a turn on nodes, least disruptive first.

node_moves     move running jobs to other nodes
node_reclaim   take GPUs of a shared node back from projects above their share
node_victims   jobs of lower rank on one node
node_slices    take turns between users of one rank
"""

"""Nodes: what the queue and the agents of its nodes write for each other. Imported only by queues
that keep nodes.

orders         what should run on a node, from the table
reports        what a node says of itself, into the table
reading        looks at reports: at one when its agent asks for it, at all with each tick
node_training  the TrainingService of attempts on a node
"""

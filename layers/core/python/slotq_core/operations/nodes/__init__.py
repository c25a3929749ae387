"""The life of nodes, from a decision to a training job and back.

node_steps     what decisions change about nodes: starts, drains, stops
node_changes   changes one node while others change it
node_stops     when a node is stopped, and why
node_effects   carries out intents: new ones, those of dead handlers, stops, silence
node_starts    CreateTrainingJob, and what its answers mean
node_news      what news of a node's training job changes
ended_nodes    the end of a node: its jobs, its slot, and what the pool learns
node_drift     what no event has reported of nodes, for the reconciliation
shared_roles   warns of execution roles that nodes of several projects use
orders         what should run on a node, from the table
reports        what a node says of itself, into the table
reading        looks at reports: at one when its agent asks for it, at all with each tick
node_training  the TrainingService of attempts on a node

Only queues with nodes import these modules.
"""

"""The queue's answers: model -> JSON. Version 1.

A request imports the module of its answer and no other, because each model costs time at a cold
start (benchmarks/cold_start.py).

jobs     jobs, alone and in lists
pools    pools, their use and their health
nodes    nodes, and the jobs on their GPUs
usage    what jobs have used
about    the queue itself, and who the caller is
forms    the model's fields as JSON and back, by the types that they are declared with
"""

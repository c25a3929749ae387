"""A scenario, run on a virtual clock.

engine      the policy over jobs that take their time
live        the same through manager, store and training plane
agenda      what is due when
played_nodes  the agents of the live run's nodes
opening     how a run begins and how its jobs go on
simulated_starts  attempts that wait for their instances
simulated_spot  spot instances that come and go
simulated_warm  instances that stay warm
simulated_nodes  nodes that start, have jobs and end
simulated_jobs  jobs that have not ended and spent budgets, as a plan needs them
dependents  jobs that come after others, or after groups
record      what happened
metrics     the figures of a run, and the capacity and use of its pools
"""

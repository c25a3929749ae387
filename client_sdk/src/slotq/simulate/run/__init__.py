"""A scenario, run on a virtual clock.

engine            the policy over jobs that take their time
live              the same through manager, store and training plane
agenda            what is due when
opening           how a run begins, of a scenario or of a queue as it stands
beginning         the world at t = 0
standing          jobs that have not ended, as a plan wants them
dependents        jobs that come after others, or after groups
spent             what projects with a budget have spent
failing_attempts  attempts that a scenario lets fail
record            what happened
timeline          capacity and use over time
metrics           the figures of a run
"""

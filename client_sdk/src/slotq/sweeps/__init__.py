"""Sweeps and arrays: many jobs from one request.

space        what a sweep tries: grids, lists, seeded samplers
members      the members' requests, from one template
definition   a sweep whole: its rounds of trials, its objective, halving
sweep        a submitted sweep: its results, the best, verbs for it whole
sweep_calls  `queue.sweeps`
of_estimators  `session.sweep`
array_range  an array's indices, as Slurm's users write them
"""

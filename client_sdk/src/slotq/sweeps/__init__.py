"""Sweeps and arrays: many jobs from one request.

space        what a sweep tries: grids, lists, seeded samplers
tuner_ranges  the ranges of SageMaker's tuner as samplers
members      the members' requests, from one template; an array's indices
definition   a sweep whole: its rounds of trials, its objective, halving
sweep        `queue.sweeps`; a submitted sweep: its results, the best, verbs for it whole
of_tuners    what a tuner of SageMaker's SDK says of a sweep
of_estimators  `session.sweep`
"""

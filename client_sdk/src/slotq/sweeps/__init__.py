"""Sweeps and arrays: many jobs from one request.

space        what a sweep tries: grids, lists, seeded samplers
members      the members' requests, from one template; an array's indices
definition   a sweep whole: its rounds of trials, its objective, halving
sweep        `queue.sweeps`; a submitted sweep: its results, the best, verbs for it whole
of_estimators  `session.sweep`
"""

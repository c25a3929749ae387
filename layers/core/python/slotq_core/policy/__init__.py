"""The pure core: a snapshot and a time in, a plan out.

cycle      the whole policy on one screen: begin here
plan       decisions, as data
order      rank, entry time, name
lines      waiting jobs that are blocked alike
setbacks   decisions that the store refuses, and what a pass then puts away
turn       whose turn it is, and what one turn does
actions    what a turn may try, a verb a file
state      what a plan works on: rooms, claims, gangs, quotas, limits
lifecycle  what follows from an outcome
explain    reasons and outlook
"""

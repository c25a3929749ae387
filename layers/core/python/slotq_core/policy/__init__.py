"""The pure core: a snapshot and a time in, a plan out.

cycle      the whole policy on one screen: begin here
plan       decisions, as data
order      rank, entry time, name
lines      waiting jobs that are blocked alike
setbacks   decisions that the store refuses, and the jobs then put away
turn       the order of turns, and the steps of one turn
actions    the actions of a turn, a verb a file
state      the working state of a plan: rooms, claims, gangs, quotas, limits
lifecycle  jobs and pools after a decision or an outcome
explain    reasons and outlook
"""

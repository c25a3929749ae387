"""Admission: what the queue accepts, and the refusals.

submission      a submission from end to end, under one configuration
access          who may do what: roles of callers in projects
rules           pools, class and size of a submission
requirements    what a demand takes from a pool, and which properties it requires
instances       what instances contain, and which jobs share one
dependencies    jobs that come after others
groups          groups: every member, then the whole; gangs that could never start
checkpoints     preemptible jobs without checkpoints
user_groups     users' classes and limits, and who is in which group
user_quotas     what users hold of their limits
roles_and_plans  which execution roles and training plans a submission may name
prescribed      what a project fills into requests, and what it forbids
caller_limits   limits on callers
configuration   checks of a changed configuration
"""

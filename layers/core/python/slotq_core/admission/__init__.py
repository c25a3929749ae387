"""What is refused at admission.

submission      a submission from end to end: what becomes of it under one configuration
access          who may do what: roles of callers in projects
rules           pools, class and size of a submission
requirements    what a demand takes from a pool, and which properties it requires
instance_contents  what instances contain, for quotas of GPUs, CPUs and memory
dependencies    jobs that come after others
gangs           gangs that could never start
checkpoints     what becomes of preemptible jobs that save none
user_groups     users' classes and limits, and who is in which group
user_quotas     what users hold of their limits
roles_and_plans  which execution roles and training plans a submission may name
prescribed      what a project fills into requests, and what it forbids
caller_limits   how much a caller may ask of the queue
configuration   what a change of the configuration is refused for
"""

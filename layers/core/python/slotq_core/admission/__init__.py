"""What is refused at the door.

access          who may do what: roles of callers in projects
rules           pools, class and size of a submission
requirements    what a demand takes from a pool, and which properties it requires
contents        what instances contain, for quotas of GPUs, CPUs and memory
dependencies    jobs that come after others
groups          what is refused of a group as a whole
user_groups     users' classes and limits, and who is in which group
user_quotas     what users hold of their limits
roles_and_plans  which execution roles and training plans a submission may name
waits_for_change  what a new job waits for until the configuration changes: a warning
prescribed      what a project fills into requests, and what it forbids
caller_limits   how much a caller may ask of the queue
subscription    quotas that departments, pools or running jobs contradict
references      what projects name and a change would remove
"""

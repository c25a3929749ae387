"""What the manager does, an operation a file.

periodic       what each tick does before its pass
passes         a pass: load, plan, commit, effect, confirm
decisions_in_parts  decisions about groups that one transaction cannot hold
effects        calls to SageMaker and what their answers mean
attempts       what becomes of attempts: suspends, reports of scripts, lessons for a pool
training_plans  the plans of pools, as SageMaker describes them
nodes          the life of nodes: instances that the queue keeps for its jobs
reconcile      repairs drift between the queue and SageMaker
authorize      what a caller may do, under the current configuration
admit          counts a submission against the limits
amend          changes that users make to a job
bulk           changes of many jobs in one request
configuring    changes of the configuration, with their history
jobs           verbs and questions about jobs
status         jobs as people see them, with place, reason and warnings
callbacks      answers to those who wait for jobs' ends
notices        notifications: composed once, delivered at least once
overview       pools, shares, limits and the longest wait, for people
doctor         examines everything, for people
usage          the usage of jobs, from the history
"""

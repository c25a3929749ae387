"""What the manager does, an operation a file.

periodic       what each tick does before its pass
passes         a pass: load, plan, commit, effect, confirm
decisions_in_parts  decisions about groups that one transaction cannot hold
effects        calls to SageMaker and what their answers mean
attempts       what becomes of attempts: suspends, reports of scripts, lessons for a pool
reconcile      repairs drift between the queue and SageMaker
authorize      what a caller may do, under the configuration of this moment
admit          counts a submission against the limits
amend          changes that users make to a job
bulk           changes of many jobs in one request
configuring    changes of the configuration, on the record
jobs           what people ask of jobs, and about them
status         jobs as people see them, with place, reason and warnings
notices        who is told of what has happened, at least once
overview       pools, shares, limits and the longest wait, for people
doctor         examines everything, for people
usage          what jobs have used, from the history
"""

"""Jobs and pools after a decision or an outcome.

apply             a decision, applied to the jobs it names
retry             a job whose attempt has ended
pool_health       a pool after capacity errors: back-off and probe
start_times       how long starts take in a pool
missing_rights    a pool, or a role in it, after a refused right
start_attempts    scheduler settings: attempts to start, back-off, giving up
stall             attempts that report nothing for too long
demotion          classes that demote
runtimes          how long jobs may run, and by when they have ended
closing           pools whose size changes with time: what must not start, what stops
reservations      slots set aside for a project: what others must not start
warm_slots        instances that stay warm after an attempt
interruptions     an attempt whose spot instances SageMaker takes back
suspend           when a job that must stop is stopped
"""

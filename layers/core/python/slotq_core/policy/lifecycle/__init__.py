"""Jobs and pools after a decision or an outcome.

apply             a decision, applied to the jobs it names
retry             a job whose attempt has ended
pool_health       a pool after capacity errors: back-off and probe; how long starts take
missing_rights    a pool, or a role in it, after a refused right
start_attempts    scheduler settings: attempts to start, back-off, giving up
stall             attempts that report nothing for too long
demotion          classes that demote
hours             what ends in time: pools that close, slots that are reserved
warm_slots        instances that stay warm after an attempt
interruptions     an attempt whose spot instances SageMaker takes back
suspend           when a job that must stop is stopped
"""

"""The life of attempts.

observing        what news of a training job, or its end, changes for the job
attempt_changes  changes jobs while an attempt is live, many in one transaction
listening        reads reports of training scripts that may change a decision
suspends         asks scripts to release their slots, and decides when a grace is over
pool_lessons     updates a pool's health from an outcome
rights_report    reports missing rights to operators
start_requests   the request that an attempt starts with, under its project's rules
warm_slots       releases and follows warm instances
warm_report      pools whose instances SageMaker does not keep warm
gang_starts      environment variables for the members of a gang
"""

"""JSON to model and back, versioned. Only these modules and `api` know pydantic.

submission         a CreateTrainingJob request, read
setting_tags       a job's settings as tags, and back (without pydantic)
groups             groups of jobs
verbs              the users' verbs on jobs: the table of them (without pydantic)
resubmission       which ended jobs can be retried, and under which names
job_changes        changes of jobs, one or many, and their outcomes
configuration      changes of pools and limits
document           the whole configuration as one document
record             the record of changes
views              the queue's answers
scenario           the whole queue, written and read back
nodes              documents of nodes, and the rules of their pools (without pydantic)
base               the base of every model
body               reading bodies, and reporting their faults
capacity           when a pool is open (without pydantic)
pool_definition    a pool as people write it (without pydantic)
traits             properties that are texts or booleans (without pydantic)
limits_definition  the limits as people write them (without pydantic)
strict_json        JSON from strangers (without pydantic)
training           SageMaker's request: its fields and faults, and what it names
"""

VERSION = 1
"""The version of the JSON."""

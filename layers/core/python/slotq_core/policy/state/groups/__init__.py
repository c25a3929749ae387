"""Jobs that belong together.

gangs                who must start, who may, and what happens when one is no longer whole
job_parts            jobs over several pools
matching             which pool for which member
limits_as_resources  users' limits as resources of a pool
concurrency          `max_jobs` and `max_parallel`
"""

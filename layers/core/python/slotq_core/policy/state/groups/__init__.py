"""Jobs that belong together.

gangs                who must start, who may, and what happens when one is no longer whole
elastic              the core of an elastic gang, and the members beyond it
job_parts            jobs over several pools
matching             which pool for which member
concurrency          `max_jobs` and `max_parallel`
"""

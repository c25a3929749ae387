"""What a plan works on.

pool_room            what of a pool is free, coming free and held
running_jobs         who holds slots, and what stops together
candidates           who may be evicted, and in which order
claims               slots owed to a beneficiary
quotas               what projects and departments hold and deserve
user_limits          what each user holds and may hold
concurrency          `max_jobs` and `max_parallel`
gangs                gangs: who must start, who may
job_parts            jobs over several pools
matching             which pool for which member
limits_as_resources  users' limits as resources of a pool
"""

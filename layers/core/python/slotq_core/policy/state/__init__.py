"""The working state of a plan.

plan_state    everything a plan knows and has decided: begin here
decided       the decisions and reasons so far
journal       one undo log: checkpoint and rollback
eligibility   where a job may start at all
pool_room     what of a pool is free, coming free and held
warm_room     instances that stay warm: idle, given, and being released
pool_jobs     who runs in a pool, and who may be evicted there
running_jobs  the same in all pools; gangs stop together
may_evict     who may be a victim: the one predicate
candidates    who may be evicted, and in which order
claims        slots owed to a beneficiary, and who may take over whose claim
quotas        what projects and departments hold and deserve
user_limits   what each user holds and may hold
class_counts  the class in which each job of a user counts
nodes         nodes as rooms within their pools, and as jobs for everybody else
groups        gangs, sweeps, jobs over several pools
"""

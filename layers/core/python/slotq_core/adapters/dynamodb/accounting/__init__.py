"""The use of limits and slots, and the room of pools.

counters       callers' use of their limits, and the census of jobs
usage_records  usage records of attempts, and sums by day
nodes          the nodes, one by one
pool_ledgers   the ledgers of pools under a change of the configuration
month_sums     this month's spending of projects with a budget
past_use       past use by project, for fair shares over time
"""

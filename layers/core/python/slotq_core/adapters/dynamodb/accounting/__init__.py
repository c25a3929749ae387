"""The use of limits and slots, and the room of pools.

counters       callers' use of their limits, and the census of jobs
usage_records  usage records of attempts, and sums by day
nodes          the nodes, and what a load reads of them
pool_ledgers   the ledgers of pools under a change of the configuration
month_sums     this month's spending of projects with a budget
"""

"""The use of limits and slots.

counters       callers' use of their limits, and the census of jobs
usage_records  usage records of attempts, and sums by day
month_sums     this month's spending of projects with a budget
"""

"""What callers and attempts have used.

counters       what callers have used of their limits, and the census of jobs
usage_records  what attempts used, and its sums by day
month_sums     what projects with a budget have spent this month
"""

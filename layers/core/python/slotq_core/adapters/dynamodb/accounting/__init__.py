"""What callers and attempts have used.

counters       what callers have used of their limits
usage_records  what attempts used, and its sums by day
month_sums     what projects with a budget have spent this month
"""

"""What callers and attempts have used.

counters       what callers have used of their limits
lines_of_items  the lines of the jobs that a census counts
usage_records  what attempts used, and its sums by day
month_sums     what projects with a budget have spent this month
"""

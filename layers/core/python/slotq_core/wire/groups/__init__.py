"""Groups of jobs as JSON.

submission  a new group, read
views       a group as the queue shows it
"""

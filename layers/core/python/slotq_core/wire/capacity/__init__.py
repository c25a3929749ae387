"""When a pool is open, as people write it, and the moments that follow.

opening_hours  windows of days and times in a time zone
plan_windows   the windows of a training plan
reservations   slots for one project, from a time to another
"""

"""When a pool is open, and what it is like besides amounts, as people write it.

opening_hours  windows of days and times in a time zone, and the moments that follow
plan_windows   the windows of a training plan
reservations   slots for one project, from a time to another
traits         properties that are texts or booleans
"""

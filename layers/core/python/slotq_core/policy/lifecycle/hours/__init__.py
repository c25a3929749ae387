"""What ends in time, and what would not: pools whose size changes, and slots that are reserved.

runtimes      how long jobs may run, and by when they have ended
closing       pools whose size changes with time: what must not start, what stops
reservations  slots set aside for a project: what others must not start
"""

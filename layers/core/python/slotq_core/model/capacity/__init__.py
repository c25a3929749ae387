"""When capacity is there.

schedule      the size of a pool as a function of time
reservations  slots of a pool that are set aside for one project
"""

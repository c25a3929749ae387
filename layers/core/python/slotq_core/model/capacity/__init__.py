"""When capacity is there.

work          the kinds of work, training and processing, by name
schedule      the size of a pool as a function of time
plans         what a training plan offers, as last read
reservations  slots of a pool that are set aside for one project
"""

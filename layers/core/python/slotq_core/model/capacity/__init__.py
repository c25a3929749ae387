"""When capacity is there.

schedule  the size of a pool as a function of time
plans     what a training plan offers, as last read
"""

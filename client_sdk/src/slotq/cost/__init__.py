"""What a queue costs, and what its jobs have used.

rates            measured use, prices and assumptions
bill             the bill
instance_prices  prices of instances, public or your own
used             what jobs have used, in hours and dollars
"""

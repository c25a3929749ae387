"""What a queue costs, and what its jobs have used.

bill             the bill, from measured use, prices and assumptions
instance_prices  prices of instances, public or your own
used             what jobs have used, in hours and dollars
"""

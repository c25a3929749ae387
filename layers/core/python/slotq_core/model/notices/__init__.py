"""What people are told of their jobs, and where.

rules    who hears of what, and how
message  one message, ready to be sent
"""

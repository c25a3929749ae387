"""The whole queue as JSON, to be reckoned on with.

views    the queue, written
reading  the same, read back
"""

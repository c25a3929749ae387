"""The whole queue as JSON, to be reckoned on with.

views    the queue, written
pages    the same, in pages, and read back
"""

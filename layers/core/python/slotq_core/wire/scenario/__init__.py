"""The whole queue as JSON, as input of simulations.

views    the queue, written
pages    the same, in pages, and read back
"""

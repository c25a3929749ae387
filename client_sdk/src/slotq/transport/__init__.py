"""Calls to the queue.

    signed_http  one call, signed and repeated
    refusals     error answers as exceptions
    discovery    finds a queue by its name
    network      names and connections
"""

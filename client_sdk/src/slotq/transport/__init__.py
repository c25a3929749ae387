"""Calls to the queue.

signed_http  one call, signed and repeated
answers      answers as views
connection   what all calls of a client share; waits for limits
refusals     error answers as exceptions
discovery    finds a queue by its name
aws_session  the boto3 session that signs
network      names and connections
"""

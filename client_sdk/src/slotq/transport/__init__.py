"""Calls to the queue.

signed_http  one call, signed and repeated
answers      answers as views, or as exceptions
connection   what all calls of a client share; waits for limits
discovery    finds a queue by its name
aws_session  the boto3 session that signs
aws_errors   errors of AWS's other services, for people
network      names and connections
"""

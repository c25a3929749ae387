"""Calls to the queue.

signed_http  one call, signed and repeated
answers      answers as views
connection   what all calls of a client share
refusals     error answers as exceptions
discovery    finds a queue by its name
aws_session  the boto3 session that signs
patience     waits until a limit lets a call through
scenario_pages  puts the pages of the whole queue together
network      names and connections
"""

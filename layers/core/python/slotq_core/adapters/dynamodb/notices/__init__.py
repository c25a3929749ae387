"""Notifications on DynamoDB.

outbox  the port `Outbox`
stream  changes of jobs, as the table's stream tells them
"""

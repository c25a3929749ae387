"""How a pass is asked for (`ports.Notifier`).

lambda_wake  by an asynchronous invocation, or on the spot
alarms       later, by a delayed message or a timer
"""

"""Those who ask the queue for something.

access  who may do what in a project
limits  how much callers may ask of the queue
"""

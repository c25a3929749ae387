"""What is on its way to others, kept until it has arrived.

notices    messages to people, and changes of jobs from the table's stream
"""

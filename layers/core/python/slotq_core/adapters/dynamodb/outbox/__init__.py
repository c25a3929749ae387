"""What is on its way to others, kept until it has arrived.

callbacks  who waits for a job's end, by token
notices    messages to people, and changes of jobs from the table's stream
"""

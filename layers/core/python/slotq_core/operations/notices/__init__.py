"""Who is told of what has happened.

notifying   from a job's change to its messages, each made once
delivering  messages to their receivers, until these have taken them
"""

"""What is refused of a group as a whole.

gangs  gangs that could never start
"""

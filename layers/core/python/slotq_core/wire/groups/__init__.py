"""Groups of jobs as JSON.

group_submission  a new group, read
members     members that share a template, or what they come after
member_environment  what members of a gang are told in their environment (without pydantic)
sweep       what a sweep tries and looks for, read and shown
views       a group as the queue shows it
"""

"""Groups of jobs as JSON.

group_submission  a new group, read
members     members that share a template or dependencies; a batch of single jobs, read
member_environment  the environment variables for members of a gang (without pydantic)
sweep       what a sweep tries and looks for, read and shown
views       a group as the queue shows it
"""

"""What people and programs read.

job_tables   jobs as tables
group_tables  groups of jobs as tables
sweep_tables  results of sweeps as tables
drawings     trees of jobs, and attempts over time
usage_tables  what jobs have used as a table and as CSV
pool_tables  pools and changes as tables
project_tables  projects as tables
quota_tables  users' quotas as bars
columns      the columns of `slotq ls`
fitting_table  a table that leaves out columns where it is too wide
submitters   who submitted a job, in few letters
plain_table  the queue as a plain table
json_views   JSON that is not the queue's own
"""

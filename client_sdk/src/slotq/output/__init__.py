"""What people and programs read.

job_tables      jobs as tables, and their submitters in few letters
group_tables    groups of jobs and sweeps as tables
job_graph       which jobs come after which
timeline_text   the attempts of a window
usage_tables    what jobs have used as a table and as CSV
account_tables  what runs in the account beside the queue
pool_tables     pools and changes as tables
node_tables     nodes, with a cell for each GPU
project_tables  projects, and users' quotas as bars
columns         the columns of `slotq ls`
fitting_table   a table that leaves out columns where it is too wide, and the console
plain_table     the queue as a plain table
json_views      JSON that is not the queue's own
"""

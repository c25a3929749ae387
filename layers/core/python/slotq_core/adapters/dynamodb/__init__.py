"""The store on DynamoDB.

store             the port `Store`
jobs              the jobs
decisions         changes of jobs, in transactions
layout            the table, its items, and every expression sent to it
reading           the reads of a pass, in parallel where possible
transactions      changes of jobs as the actions of one transaction
line_bounds       lines: touches, returns, lower bounds, removals
accounting        callers' use of their limits, and attempts' use of slots
held_slots        who holds and claims the slots of a pool
configuration     pools, limits, departments and projects, with the history of changes
sharing_documents  departments, projects and many pools, as documents that never change
health            the health of pools, and unexpected training jobs
groups            the groups that users have submitted
outbox            messages on their way, and changes of jobs from the table's stream
wake              the generation and the lease of passes
calls             calls to the table: pages, consistency, errors
repair            inspection, repair, backup and expiry
"""

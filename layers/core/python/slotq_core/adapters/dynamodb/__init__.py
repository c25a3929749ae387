"""The store on DynamoDB.

store             the port `Store`
jobs              the jobs
decisions         changes of jobs, in transactions
layout            the table, its items, and every expression sent to it
reading           what a pass reads, at once where it can
transactions      changes of jobs as the actions of one transaction
line_bounds       lines: touches, returns, lower bounds, removals
accounting        what callers have used of their limits, and attempts of slots
held_slots        who holds and claims the slots of a pool
configuration     pools, limits, and how projects share, changed on the record
sharing_documents  departments and projects, as documents that never change
health            what was learned of pools, and unexpected training jobs
groups            the groups that users have submitted
notices           messages on their way, and changes of jobs as the table's stream tells them
wake              the generation and the lease of passes
calls             calls to the table: pages, consistency, errors
repair            inspection, repair, backup and expiry
"""

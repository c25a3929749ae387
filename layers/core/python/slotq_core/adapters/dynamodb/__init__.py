"""The store on DynamoDB.

store             the port `Store`
layout            the table, its items, and every expression sent to it
reading           what a pass reads, at once where it can
transactions      changes of jobs as the actions of one transaction
line_bounds       lines: touches, returns, lower bounds, removals
accounting        what callers have used of their limits, and attempts of slots
held_slots        who holds and claims the slots of a pool
configured_pools  the configuration, changed on the record
sharing_documents  departments and projects, as documents that never change
pool_facts        a pool's health, and what others occupy of it
groups            the groups that users have submitted
notices           messages on their way, and changes of jobs as the table's stream tells them
sightings         training jobs that nobody expects
touched_lines     the lines that a submission need not touch again
wake              the generation and the lease of passes
calls             calls to the table: pages, consistency, errors
dynamodb_errors   what DynamoDB's errors mean to the queue
repair            inspection, repair, backup and expiry
"""

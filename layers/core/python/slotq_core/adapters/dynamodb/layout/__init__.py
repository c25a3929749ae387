"""What is in the table, and every expression that touches it.

table               keys, partitions and the table's definition
items               which items there are, and what is in each
changed_items       what a change of a job changes
records             records of the model as attributes, by the types of their fields
sharing_text        departments and projects, as stored
validation          which items can be understood
lines               a line's item, and the rules of its bound
expressions         conditions, updates and queries, named
ledger_expressions  the same for a pool's ledger
"""

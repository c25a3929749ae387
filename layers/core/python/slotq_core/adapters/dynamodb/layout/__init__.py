"""The contents of the table, and every expression sent to it.

table               keys, partitions and the table's definition
items               the kinds of items, and their contents
changed_items       the items that a change of a job writes and deletes
records             records of the model as attributes, by the types of their fields
validation          decides which items are readable
lines               a line's item, and the rules of its bound
expressions         conditions, updates and queries, named
ledger_expressions  the same for a pool's ledger
"""

"""The reads of a pass, and its caches.

loading        the input of decisions: pools, then lines and back-offs, then the first jobs of lines
pool_reading   the jobs that hold slots of pools; cached until a ledger changes
node_reading   the nodes of pools that have any
waiting_lines  the lines of one load, read or with a stand-in
line_reading   the jobs that wait in lines, and how many are ahead of one
in_parallel    independent reads at once
"""

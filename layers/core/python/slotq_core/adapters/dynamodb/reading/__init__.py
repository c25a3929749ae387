"""What a pass reads, and what it need not read again.

loading        the input of decisions: pools, then lines and back-offs, then the first jobs of lines
pool_reading   who holds the slots of pools; kept while the ledgers stand still
waiting_lines  the lines of one load, read or with a stand-in
line_reading   the jobs that wait in lines, and how many are ahead of one
in_parallel    independent reads at once
"""

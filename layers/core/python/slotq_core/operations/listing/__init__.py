"""Lists of jobs in pages: what a page costs grows with the page, not with the queue.

cursor  where a page begins
walk    reads one page
"""

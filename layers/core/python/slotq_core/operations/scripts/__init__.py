"""What the queue does with the reports of training scripts.

listening  on the tick: which attempts are silent, and what evictions would cost
progress   for people: how far running jobs are
"""

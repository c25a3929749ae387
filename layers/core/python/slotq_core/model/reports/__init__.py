"""The reports of training scripts on their attempts.

report     one attempt's report: progress, the last save, a suspend
slow_save  a save that takes longer than an eviction leaves it
"""

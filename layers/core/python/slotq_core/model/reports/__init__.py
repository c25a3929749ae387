"""What training scripts say of their attempts.

report     one attempt's report: progress, the last save, a suspend
outcome    what an ended attempt keeps and loses, by its report
slow_save  a save that takes longer than an eviction leaves it
"""

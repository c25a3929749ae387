"""`slotq whatif`.

command   the command; the change, put into force
wanted    its options, read as a change
tables    its answer, for people
"""

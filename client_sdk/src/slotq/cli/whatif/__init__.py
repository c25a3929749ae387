"""`slotq whatif`.

command   the command
wanted    its options, read as a change
tables    its answer, for people
putting   the change, put into force
"""

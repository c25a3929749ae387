"""Whose turn it is, and what one turn does.

turn_order  the most deprived project's first job
walk        the working state of one plan
gang_turn   the turn of a gang: all members or none
prospects   a quick test whether a turn can bring anything
blocked     a turn that brought nothing
losses      what a turn takes from jobs served in the same plan
revisit     which jobs to revisit within a plan
"""

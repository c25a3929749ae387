"""Whose turn it is, and what one turn does.

turn_order  the most deprived project's first job
steps       the steps of a turn: find a proposal, have it applied
gang_turn   the turn of a gang: all members or none
prospects   a quick test whether a turn can bring anything
unread      when a line is read of which only a lower bound is known
blocked     a turn that brought nothing
revisit     which blocked jobs a turn may have helped
net         what a later turn takes back was never given
result      the plan that a state amounts to
"""

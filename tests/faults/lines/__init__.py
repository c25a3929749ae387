"""The protocol of lines and their bounds, checked in every order of its steps.

model    explores all orders of the calls of a few real handlers, and of the time between them
cases    what the handlers are: submitters, returns, passes, removals, an earlier version, audits
mutants  each safeguard of the protocol broken on purpose
"""

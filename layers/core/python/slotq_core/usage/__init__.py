"""The use of slots: the pure part of `slotq usage`. Times are ms, days are UTC.

calendar_days  days as text, and the parts of a span by day
attempt_use    one attempt: its owner, its slots and its times
amounts        sums over attempts within a window, by group
past_use       the projects' parts of past use, with old use counted less
day_rows       the sums of a day as text, in parts of bounded size
"""

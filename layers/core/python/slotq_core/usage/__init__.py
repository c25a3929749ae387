"""What jobs have used: the pure part of `slotq usage`. Times are ms, days are UTC.

calendar_days  days as text, and which part of a span falls into each
attempt_use    one attempt: whose it is, what it held and for how long
amounts        what attempts add up to within a window, and for whom
day_rows       the sums of a day as text, in parts of bounded size
"""

"""Quotas and fair shares.

fair_shares  divides one resource among projects or departments
account      what one project or department holds and deserves
opening      the accounts at the beginning of a plan
accounts     the accounts during a plan
shares       which excess over fair shares a job brings
givers       the projects that may give, kept as sets
gate         who may reclaim from whom
budgets      what a project may spend in a month, and what follows beyond it
in_quota     the semi-preemptible jobs that their quotas protect
limits       what limits and quotas leave to a job
reservation_rights  what is set aside for a project, whatever its share

See docs/policy-decisions.md#shares-and-reclaim.
"""

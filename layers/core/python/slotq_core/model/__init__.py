"""SlotQ's words as data: frozen and keyword-only.

Times (`Moment`) are milliseconds since the epoch, durations (`Duration`) milliseconds, all whole
numbers, so that equal times compare equal on every path.

    jobs      a job, as submitted and as the queue keeps it
    attempts  one run of a job
    reports   the reports of training scripts
    demand    amounts: what a job needs, what a pool has
    pools     capacity that jobs can run on, and its health
    capacity  the size of a pool as a function of time
    nodes     instances that the queue keeps, on which an agent runs jobs
    callers   what callers may do, and how much they may ask
    projects  projects and departments: quota, weight, limit, budget, prescriptions
    sharing   departments, projects and operators together
    users     priority classes, users' limits, yields
    groups    gangs and sweeps
    notices   who receives which notifications
    snapshot  the input of a decision
    reasons   why a job waits, and what it could have, and when
"""

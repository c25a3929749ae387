"""SlotQ's words as data: frozen and keyword-only.

Times (`Moment`) are milliseconds since the epoch, durations (`Duration`) milliseconds, all whole
numbers, so that equal times compare equal on every path.

    jobs      a job, as submitted and as the queue keeps it
    attempts  one run of a job
    reports   what a training script says of its attempt
    demand    amounts: what a job needs, what a pool has
    pools     capacity that jobs can run on, and what SageMaker says of it
    access    who may do what in a project
    projects  projects and departments: quota, weight, limit, budget, prescriptions
    sharing   departments, projects and operators together
    users     priority classes, users' limits, yields
    groups    gangs and sweeps
    notices   who is told of what, and a message
    caller_limits  what callers may ask of the queue
    snapshot  the input of a decision
    reasons   why a job waits, and what it could have, and when
"""

"""One job, from submission to end.

    submission  the request that is sent
    job         `QueuedJob`
    follow      follows a job until it ends
    progress    shows waiting: lines, one line, a notebook table
    job_logs    log lines across attempts
    resubmit    submits an ended job again
"""

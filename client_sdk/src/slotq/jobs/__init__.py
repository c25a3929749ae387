"""One job, from submission to end.

submission       the request that is sent
job_calls        `queue.jobs`
job              `QueuedJob`
follow           follows a job until it ends
progress         shows waiting and running: lines, one line, a notebook's card
notebook         a job as a card, which follows it
job_logs         log lines across attempts, and the last ones of a failed job
verbs            the verbs as methods: by name, of one job, of many
many             verbs for many jobs at once
foreign_names    training jobs outside the queue: their names, and which of them a list shows
sagemaker_model  faults of a request by this machine's botocore
rendering        tables in HTML and plain text
notices          what a session says: printed and logged; warnings, each once
progress_bar     how far a job is, as a bar, as a cell of a table, and in words
"""

"""Commands about groups as a whole.

gang          `slotq gang`
job_folder    `slotq submit JOB_FOLDER`
group_logs    `slotq logs GROUP`
job_or_group  the job or the group that a name means
"""

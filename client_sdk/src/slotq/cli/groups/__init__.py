"""Commands about groups as a whole.

gang          `slotq gang`
job_folder    `slotq submit JOB_FOLDER`
"""

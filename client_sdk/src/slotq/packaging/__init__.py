"""A folder and a command as a training job.

command_job    the request for a command
archive        the folder as an archive, without what stays at home
training_file  `slotq_training.py` and others beside the user's code
job_files      those others
"""

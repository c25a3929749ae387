"""Files that are shipped beside a job's code, and slotq_training.py. Nothing here imports them.

hfai           `import hfai` for scripts written for HFAI's platform
sitecustomize  script mode: sets MASTER_IP, RANK … at the start of each Python of the job
"""

"""Commands that change jobs.

submit         `slotq submit`
sweep          `slotq sweep`, `slotq submit --array`
request_file   the request in a file
with_shell     `slotq submit --shell`
cancel         `slotq cancel`
hold           `slotq hold`
release        `slotq release`
priority       `slotq priority`
move           `slotq move`
transfer       `slotq transfer`
requeue        `slotq requeue`
retry_command  `slotq retry`
clone          `slotq clone`
"""

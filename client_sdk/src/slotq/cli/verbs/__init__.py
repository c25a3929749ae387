"""Commands that change jobs.

submit         `slotq submit`
sweep          `slotq sweep`, `slotq submit --array`
request_file   the request in a file
with_shell     `slotq submit --shell`
changes        `slotq cancel`, `hold`, `release`, `priority`, `move`, `transfer`, `requeue`
resubmitting   `slotq retry`, `slotq clone`
"""

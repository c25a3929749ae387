"""Jobs submitted together.

bodies       what is sent for a new group, and for a clone of one
group_calls  `queue.groups`
gathering    `slotq.gang`: jobs that are submitted together at the end of a block
batches      `queue.batch`, `queue.submit_many`: independent jobs in few requests
"""

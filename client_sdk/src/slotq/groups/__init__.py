"""Jobs submitted together.

bodies     what is sent for a new group
clones     the members of a group, once more under other names
group_calls  `queue.groups`
gathering  `slotq.gang`: jobs that are submitted together at the end of a block
"""

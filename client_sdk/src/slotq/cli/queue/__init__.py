"""Commands about the queue as a whole.

pools_command   `slotq pools`
nodes_command   `slotq nodes`
reservations_command  `slotq reserve`, `slotq reservations`
projects_command  `slotq projects`
quota_command   `slotq quota`
limits_command  `slotq limits`, `slotq whoami`
config_command  `slotq config`
notify_command  `slotq notify`
doctor          `slotq doctor`
configure       `slotq configure`
cost_command    `slotq cost`
usage_command   `slotq usage`, `slotq timeline`
backup          `slotq backup`
"""

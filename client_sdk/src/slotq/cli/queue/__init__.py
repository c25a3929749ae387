"""Commands about the queue as a whole.

pools_command   `slotq pools`
limits_command  `slotq limits`
doctor          `slotq doctor`
configure       `slotq configure`
cost_command    `slotq cost`
usage_command   `slotq usage`
backup          `slotq backup`
"""

"""Commands about the queue as a whole.

pools_command   `slotq pools`
limits_command  `slotq limits`
doctor          `slotq doctor`
configure       `slotq configure`
whoami          `slotq whoami`
cost_command    `slotq cost`
backup          `slotq backup`
"""

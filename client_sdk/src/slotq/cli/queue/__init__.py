"""Commands about the queue as a whole.

    pools_command  `slotq pools`
    doctor         `slotq doctor`
    configure      `slotq configure`
    cost_command   `slotq cost`
    backup         `slotq backup`
"""

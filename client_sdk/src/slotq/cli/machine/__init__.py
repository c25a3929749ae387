"""Commands about this machine.

local_command     `slotq local`
ui_command        `slotq ui`
demo_command      `slotq demo`
simulate_command  `slotq simulate`
deploy_command    `slotq deploy`
exec              `slotq exec`; runs its command, and that of `local as`
completion        `slotq completion`, `slotq version`
"""

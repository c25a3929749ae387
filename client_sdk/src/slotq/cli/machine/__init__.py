"""Commands about this machine.

local_command     `slotq local`
ui_command        `slotq ui`
demo_command      `slotq demo`
simulate_command  `slotq simulate`
exec              `slotq exec`
program           runs the command of `exec` and of `local as`
completion        `slotq completion`
version_command   `slotq version`
"""

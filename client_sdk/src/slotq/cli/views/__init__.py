"""Commands that show jobs.

ls             `slotq ls`
groups         `slotq groups`
show_command   `slotq show`
why            `slotq why`
history        `slotq history`
timeline       `slotq timeline`
logs_command   `slotq logs`
watch          `slotq watch`
graph          `slotq graph`
watching       following changes on the terminal
shell_command  `slotq shell`
entering       a shell or ports, in SageMaker or in the emulator
"""

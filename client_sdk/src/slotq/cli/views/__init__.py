"""Commands that show jobs.

ls            `slotq ls`, `slotq groups`
show_command  `slotq show`, `slotq why`, `slotq history`
logs_command  `slotq logs`, of a job or a group
graph         `slotq graph`
watching      `slotq watch`; following changes on the terminal
entering      `slotq shell`, in SageMaker or in the emulator
"""

"""`slotq demo`: the first use case, on this machine, with real processes.

driver       the demo from first line to last, in the browser too
story        what is played, and what must come of it
world        an emulator of its own
environment  what the demo takes of its environment
play         submits the jobs with the SageMaker SDK, which calls only the emulator
screen       what is shown
proof        the checks, and what S3 and the logs say
"""

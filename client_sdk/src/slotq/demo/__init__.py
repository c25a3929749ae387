"""`slotq demo`: the first use case, on this machine, with real processes.

driver       the demo from first line to last
story        what is played, and what must come of it
world        an emulator of its own
environment  what the demo takes of its environment
play         submits the jobs with the SageMaker SDK
page         the same in the browser
sdk          the SDK, which calls nobody but the emulator
screen       what is shown
evidence     what S3 and the logs say
proof        the checks
"""

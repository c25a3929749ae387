"""`slotq demo`: the use case that the system began with, on this machine, with real processes."""

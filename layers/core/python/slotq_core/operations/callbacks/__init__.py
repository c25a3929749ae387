"""Those who wait for a job's end by a token: state machines and pipelines.

answering  tells them of ends, shows that jobs live, and notices that nobody waits any more
callback_report  those who cannot be told, for operators
"""

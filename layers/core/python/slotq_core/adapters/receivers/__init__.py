"""Those who get messages (`ports.notices.Receivers`), and those who wait for a job's end
(`ports.callbacks.Answers`).

callbacks  state machines and pipelines
sending  SNS, Slack and webhooks, and the secrets that these need
https    one restricted request to an address that an operator has configured
"""

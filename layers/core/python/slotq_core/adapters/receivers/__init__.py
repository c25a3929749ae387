"""Those who get messages (`ports.notices.Receivers`).

sending  SNS, Slack and webhooks, and the secrets that these need
https    one restricted request to an address that an operator has configured
"""

"""Those who get messages (`ports.notices.Receivers`).

sending  SNS, Slack and webhooks, and the secrets that these need
https    one careful request to an address of somebody else's choice
"""

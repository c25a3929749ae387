"""Those who get messages (`ports.notices.Receivers`).

sending  SNS, Slack and webhooks
secrets  the secrets that these need, from where they are kept
https    one careful request to an address of somebody else's choice
"""

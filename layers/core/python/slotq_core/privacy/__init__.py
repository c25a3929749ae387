"""Who sees what of a request.

disclosure  which fields of a request are shown to whom
redaction   messages without the request's secrets
"""

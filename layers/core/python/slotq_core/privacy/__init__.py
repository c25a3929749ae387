"""Who callers are, and who sees what of a request.

identity    the person behind a caller
disclosure  which fields of a request are shown to whom
withholding  the whole queue without the names of others
redaction   messages without the request's secrets
"""

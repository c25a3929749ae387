"""The identity of callers, and their view of requests and jobs.

identity    the person behind a caller
disclosure  which fields of a request are shown to whom
withholding  the whole queue without the names of other people's jobs
redaction   messages without the request's secrets
"""

"""What is told of jobs, to whom and in which words. Pure.

happenings  two states of a job, and what has happened in between
composing   who hears of it, and the messages
texts       the words of all messages
payloads    a message, its JSON for webhooks, and the signature of that
places      which URLs, topics and references may be configured
"""

"""What is told of jobs, to whom and in which words. Pure.

happenings  two states of a job, and what has happened in between
composing   who hears of it, and the messages
texts       the words of all messages
channels    the channels by which messages go: a class for each
payloads    a message, its form for each receiver, and its signature for webhooks
places      which URLs, topics and references may be configured
"""

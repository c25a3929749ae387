"""Notifications: events, receivers and texts. Pure.

happenings  the events between two states of a job
job_answers  what a job's end says to whoever waits for it
composing   the rules that apply, and the messages
texts       the words of all messages
channels    the channels of messages: a class for each
payloads    a message, its form for each receiver, and its signature for webhooks
places      which URLs, topics and references may be configured
"""

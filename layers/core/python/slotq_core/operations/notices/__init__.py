"""Notifications.

notifying   composes the messages of a job's change, each once
delivering  sends messages until their receivers have accepted them
"""

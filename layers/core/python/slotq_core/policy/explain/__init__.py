"""Why a job waits.

waiting   the typed reason of a job that was examined
timers    the times at which the clock alone may change something
share_status  what projects deserve, hold and wait for
forecast  the outlook of one job, when someone asks
node_outlook  the same in pools with nodes
"""

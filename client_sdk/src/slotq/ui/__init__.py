"""`slotq ui`: the queue in the browser, served on loopback and signed with the user's credentials.

page_server  the HTTP server: the page's files, the queue's API below /api, its own calls below /own
gate         who may ask: Host, Origin and token
relay        passes a page's call on to the queue, signed
logs         the new lines of a job's logs, read from CloudWatch
own_calls    calls of the page that the API lacks
what_if      forecasts of a change, and of the starts of jobs, by the simulator
built_page   the files of the page, as packaging has built them from client_sdk/ui
"""

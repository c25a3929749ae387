"""A job in a notebook.

card     a job as a card: HTML, and plain text elsewhere
buttons  what can be done to it, below its card
kernel   the display of the notebook that this process serves, if any
live     cards that follow their jobs
"""

"""A job in a notebook.

card     a job as a card: HTML, and plain text elsewhere
buttons  what can be done to it, below its card
live     cards that follow their jobs, on the notebook's display
"""

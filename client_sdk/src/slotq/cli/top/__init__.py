"""`slotq top`: the queue live on the whole screen.

command   the command
scene     what is shown, and what a key does to it
draw      the scene as lines of text
keyboard  keys by name
loop      keeps the scene up to date
"""

"""`slotq top`: the queue live on the whole screen.

`scene` is what there is to see and what a key does to it, `draw` makes lines of it, `keyboard`
reads keys, and `loop` keeps them going.
"""

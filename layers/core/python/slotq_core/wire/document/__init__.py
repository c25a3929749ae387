"""The configuration as one document: what `slotq config` shows and applies, and a scenario's world.

contents  all sections together; reads a document
sections  each section and its keys
values    kinds of values
models    sections to model
checks    what the sections ask of each other
writing   model to document
faults    what is wrong, and where
"""

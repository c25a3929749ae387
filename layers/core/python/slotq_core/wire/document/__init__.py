"""The configuration as one document: what `slotq config` shows and applies, and a scenario's world.

settings        what a document says
contents        all sections together; reads a document
sections        each section and its keys
values          kinds of values
requests        the part of a document about CreateTrainingJob requests
models          sections to model
checks          what the sections ask of each other
time_sharing    the same of classes, users and user groups
receivers       kinds of values of notifications
writing         model to document
differences     the entries in which two configurations differ
amending        a change of one project's entry
views           what the API takes and answers
faults          what is wrong, and where
"""

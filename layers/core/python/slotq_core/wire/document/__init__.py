"""The configuration as one document: what `slotq config` shows and applies, and a scenario's world.

settings        what a document says
contents        all sections together; reads a document
sections        each section and its keys
values          kinds of values
request_fields  fields of CreateTrainingJob as values
models          sections to model
checks          what the sections ask of each other
request_checks  what a project prescribes for requests, in itself
writing         model to document
differences     the entries in which two configurations differ
amending        a change of one project's entry
views           what the API takes and answers
faults          what is wrong, and where
"""

"""The configuration as one document, for `slotq config` and for scenarios.

contents        all sections together; reads a document
sections        each section and its keys
values          kinds of values
requests        the part of a document about CreateTrainingJob requests
models          sections to model
checks          rules across the sections
time_sharing    the same of classes, users and user groups
receivers       kinds of values of notifications
writing         model to document
differences     the entries in which two configurations differ
amending        a change of one project's entry
views           requests and answers of the API
faults          the faults of a document, and their places
"""

"""Changes of the configuration, on the record.

configurator  the operators' verbs: every change goes one way
advice        notifications that go nowhere, a scheduler that gives jobs up too soon
jobs_in_need  jobs that keep a pool or a project from being removed
moving        a project's jobs become another project's
"""

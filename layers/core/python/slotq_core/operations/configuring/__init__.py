"""Changes of the configuration, on the record.

configurator      the operators' verbs: every change goes one way
notification_advice notifications that go nowhere
jobs_in_need      jobs that keep a pool or a project from being removed
moving            a project's jobs become another project's
scheduler_advice  a warning where the scheduler settings give jobs up too soon
"""

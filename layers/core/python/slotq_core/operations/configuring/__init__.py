"""Changes of the configuration, on the record.

configurator         the operators' verbs: one code path for every change
notification_advice  refusals and warnings about notifications that nobody can receive
jobs_in_need         jobs that keep a pool or a project from being removed
moving               moves a project's jobs to another project
scheduler_advice     warns of scheduler settings that give jobs up too soon
"""

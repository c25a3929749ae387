"""Changes of the configuration, with their history.

configurator  the operators' verbs: one code path for every change
advice        refuses or warns of settings that cannot work: notifications, the scheduler's patience
jobs_in_need  jobs that keep a pool or a project from being removed
moving        moves a project's jobs to another project
"""

"""What the manager does, an operation a file.

    passes     a pass: load, plan, commit, effect, confirm
    effects    calls to SageMaker and what their answers mean
    reconcile  repairs drift between the queue and SageMaker
    amend      changes that users make to a job
    configure  changes of the configuration, on the record
    status     jobs as people see them, with place and reason
    poison     sends what cannot be understood to the dead letters
"""

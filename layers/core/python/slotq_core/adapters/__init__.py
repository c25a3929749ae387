"""The ports, implemented. No adapter knows another.

    dynamodb          the store
    memory            the same store in memory, for simulations and tests
    sagemaker         the training service
    eventbridge       job state changes as events
    sqs               dead letters
    receivers         SNS, Slack and webhooks, for notifications
    notifiers         how a pass is asked for, now or later
    scripts           what training scripts read and write below their checkpoints
    settings          settings from environment variables
    initial_settings  pools and limits of the settings, brought into the store
Rules that every store applies:
    configured      what of a new configuration is kept
    snapshots       builds the snapshot of a pass
    order_keys      the order within a line, as strings
    holdings        what a transaction takes from each pool and gives back
    group_ends      what has become of a gang's members
    ended_attempts  how long an ended job stays readable; what an ended attempt used
    spending        what projects with a budget have spent when a pass loads
    yields          who has yielded to a time slice
    stored_request  a request as it is kept: compressed JSON
"""

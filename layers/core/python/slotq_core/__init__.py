"""The core of SlotQ: a priority queue in front of SageMaker training.

In reading order; each imports only from those above it, and from `copies`, `errors`,
`spelling` and `timestamps`.

    model       jobs, pools, projects … as data
    lifecycle   the legal transitions of a job
    names       names and tokens of training jobs
    resubmission  which jobs can be retried, and under which names
    wire        JSON to model and back
    usage       what attempts used, added up
    requests    what a request names: fields, images, places
    privacy     who sees what of a request
    notices     what is told of jobs, to whom and in which words
    policy      what runs and what waits: begin with `policy.cycle`
    admission   what is refused at the door
    ports       what the manager needs from the world
    storage     rules that every store applies
    routing     from an API event to the function that answers it
    operations  passes, effects, reconciliation and the users' verbs
    manager     submit, cancel, observe, tick
    adapters    the ports on DynamoDB, SageMaker …
    routes      the HTTP routes of the configuration
    api         the HTTP routes
    openapi     their description
    errors      the one error tree
    spelling    the known names near a misspelt one
    copies      changed copies of frozen values
    timestamps  times as text
    instance_types  what SageMaker's instances contain
    version     the version
"""

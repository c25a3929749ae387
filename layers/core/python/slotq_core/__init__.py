"""The core of SlotQ: a priority queue in front of SageMaker training.

In reading order; each imports only from those above it, and from `errors`, `spelling`,
`timestamps` and `gpu_amounts`.

    model       jobs, pools, projects … as data
    lifecycle   the legal transitions of a job
    names       names and tokens of training jobs
    wire        JSON to model and back
    usage       what attempts used, added up
    privacy     who sees what of a request
    notices     notifications: events, rules, payloads and texts
    policy      what runs and what waits: begin with `policy.cycle`
    admission   what is refused at admission
    ports       what the manager needs from the world
    storage     rules that every store applies
    operations  passes, effects, reconciliation and the users' verbs
    manager     submit, cancel, observe, tick
    adapters    the ports on DynamoDB, SageMaker …
    api         the HTTP routes, and their description
    errors      the one error tree
    spelling    the known names near a misspelt one
    timestamps  times as text
    gpu_amounts  GPUs in hundredths, and as text
"""

__version__ = "0.2.0"

"""JSON to model and back, versioned. Only these modules, `api` and `openapi` know pydantic.

    submission       a CreateTrainingJob request, read
    amendment        a change to a job
    configuration    a change of the configuration, and the record
    views            what the queue answers
    body             how a body is read, and how its faults are told
    pool_definition  a pool as people write it (without pydantic)
    strict_json      JSON from strangers (without pydantic)
"""

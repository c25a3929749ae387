"""SageMaker's CreateTrainingJob request: fields, faults, and what it names (without pydantic).

training_request    faults of a request, by the structure of SageMaker's API
training_fields     that structure, generated from botocore's model
processing_request  a CreateProcessingJob request in the same words, and back
processing_fields   its structure, generated
field_paths         fields by path
warm_keys           what jobs must have in common to use warm instances
field_rules         SageMaker's rules between fields
image_patterns      images, and patterns of them
place_patterns      the places that SageMaker writes to, and patterns of them
step_messages       messages of callback steps of SageMaker Pipelines, and their requests
instance_types      what instances contain, generated
"""

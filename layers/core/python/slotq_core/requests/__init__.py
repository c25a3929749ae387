"""What a CreateTrainingJob request names, for the rules of projects and pools.

field_paths     its fields, by path
field_rules     SageMaker's rules between its fields
image_patterns  its images, and patterns of them
place_patterns  the places that SageMaker writes to, and patterns of them
checkpoints     what becomes of preemptible jobs that save none
group_members   what the members of a gang are told in their environment
"""

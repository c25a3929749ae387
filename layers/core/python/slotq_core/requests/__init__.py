"""What a CreateTrainingJob request names, for a project's rules.

field_paths     its fields, by path
image_patterns  its images, and patterns of them
place_patterns  the places that SageMaker writes to, and patterns of them
"""

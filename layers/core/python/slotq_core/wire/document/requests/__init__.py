"""A document's prescriptions for CreateTrainingJob requests.

request_fields  fields of CreateTrainingJob as values
request_checks  what a project prescribes for requests, in itself
"""

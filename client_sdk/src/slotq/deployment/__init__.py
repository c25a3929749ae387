"""`slotq deploy`: a queue from the folder of a release, without SAM and without a clone.

release_folder  the folder: its template, its code and their digests
code_bucket     the bucket of the account and region that holds the code
stack           the CloudFormation stack: what an update would change, and its progress
"""

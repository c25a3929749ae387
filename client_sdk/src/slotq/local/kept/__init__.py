"""What an emulator keeps over a restart, in `kept/` of its state folder.

snapshot    all of it: when it counts, where it lies, for whom
objects     S3: buckets, and each object's content in a file that its hash names
items       DynamoDB: the queue's table
lines       the training jobs' log lines
jobs        the training jobs themselves

Everything is read and written through the services' own API, so nothing here depends on how moto
keeps it, and a newer version reads what an older one has left. Not kept: what else moto holds
(users and roles, models, versions of objects, uploads in parts that are under way).
"""

"""What an emulator keeps over a restart, in `kept/` of its state folder.

    snapshot       all that is kept, as one moment of it
    items          a table's items
    objects        S3's buckets and objects
    training_jobs  training jobs
    lines          log lines

All is read and written through the services' own API, so nothing depends on how moto stores it,
and a newer version reads what an older one left. Not kept: moto's users and roles, models, object
versions and unfinished multipart uploads.
"""

"""The port `Scripts` on S3.

s3               reads what lies below the jobs' checkpoints
report_document  a report's bytes as a Report: data of strangers
"""

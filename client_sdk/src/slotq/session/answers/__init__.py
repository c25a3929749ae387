"""What each of AWS's calls is answered with, for jobs of the queue.

describe            DescribeTrainingJob
list_training_jobs  ListTrainingJobs
deletion            DeleteTrainingJob
other_calls         other calls that start something: passed on, or refused
virtual_log_stream  CloudWatch's log calls, across attempts
"""

"""What each of AWS's calls is answered with, for jobs of the queue.

describe            DescribeTrainingJob
list_training_jobs  ListTrainingJobs
processing_calls    CreateProcessingJob and its like
deletion            DeleteTrainingJob
other_calls         other calls that start something: passed on, or refused
log_calls           CloudWatch's calls about logs
virtual_log_stream  a job's log over all attempts, as one stream
log_positions       what a reader of it asks for, and the page that answers
"""

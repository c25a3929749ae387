"""The usage of jobs, from the history.

report           usage in a window, in pages
timeline         the attempts that held slots in a window, in pages
record_marks     positions among records, without names of jobs
day_sums         adds up the days that are over, so that the sums outlive the history
project_metrics  amounts of projects, as a bounded number of metrics
month_sums       adds up this month's spending of projects with a budget
past_use         adds up past use by project once an hour
"""

"""What jobs have used, from the history.

report    what was used in a window, a page at a time
timeline  the attempts that held slots in a window, a page at a time
record_marks  how far a reading of records has come, without names of jobs
day_sums  adds up days that are over, so that they outlive the history
project_metrics  what projects hold and deserve, as a bounded number of metrics
month_sums  adds up what projects with a budget have spent this month
"""

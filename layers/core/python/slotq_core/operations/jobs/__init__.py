"""What people ask of jobs, and about them.

submissions      takes submissions in; retries: the request of an ended job as another job
batches          takes many submissions in at once
followers        jobs that come after others: found at a submission, freed or cancelled at an end
group_watch      how far a group has come, for the jobs after it
groups           groups of jobs: takes them in, finishes what a dead handler began
sweeps           members of sweeps, the retries that replace them, and the end at the goal
changes          cancels and amends a stored job
lookup           one job or a list, as a caller may see them
listing          lists of jobs in pages
group_lookup     one group or all, as a caller may see them
group_summary    the state of a group, and what a gang lacks
queue_snapshots  the whole queue, as a caller may see it
explanation      the plan that explains why listed jobs wait
"""

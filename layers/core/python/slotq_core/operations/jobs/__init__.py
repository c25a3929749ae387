"""What people ask of jobs, and about them.

submissions  takes submissions in
followers    jobs that come after others: found at a submission, freed or cancelled at an end
groups       groups of jobs: takes them in, finishes what a dead handler began
changes      cancels and amends a stored job
lookup       one job or a list, as a caller may see them
explanation  the plan that explains why listed jobs wait
warnings     what the user of a job should know before it is too late
"""

"""What the live path costs, counted: the real handler over a table in memory.

account      the handler, in an account in this process
engine       the table: DynamoDB's rules and a meter
meter        calls, rounds of calls, units
queues       queues of any size
sharing      the projects that share a queue, their people
passes       what a pass costs
submissions  what a submission costs
projects     both, in queues that many projects share
shapes       passes in queues of any shape, and a search for the worst
groups       what the submission of a group costs
life         a job's life call by call
classic      the design that scans, sorts and lists, beside ours
limits       which limit of DynamoDB binds first
burst        submissions a second, beside raw transactions
soak         thousands of jobs, killed processes, lost events
shift        the soak's processes: what they handle, and who is killed
worker       one of them
watch        what must never happen meanwhile
"""

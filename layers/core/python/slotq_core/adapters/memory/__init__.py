"""The store in memory. It passes the contract suite of the real one.

store     the port `Store`
jobs      the jobs, the groups, and who waits for jobs' ends
worlds    the input of decisions
decisions  changes of jobs
configuration  pools, limits, and how projects share
nodes     the nodes, and the conditions of their changes
node_documents  orders and reports of nodes
health    what was learned of pools, and the upkeep
state     what these share: jobs, with lines in their order, claimants and due timers
counters  what callers have used of their limits
scheduler  when passes run
scripts   training scripts and what they have written
usage_records  what attempts used, and its sums by day
"""

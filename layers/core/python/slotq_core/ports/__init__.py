"""The manager's ports as Protocols, and the data that crosses them.

The adapters implement the ports. `adapters.memory` is the fake; the same contract suite tests it
and the real store.

training      SageMaker training
stored        the data that crosses the border of the store
store         where jobs are kept: its facets, and its upkeep
jobs          the jobs and the groups that users have submitted
decisions     the input of a pass, and its changes of jobs
configuration  pools, limits, sharing; the health of pools
counters      the use of callers' limits
usage         the record of attempts' use
scripts       the reports of training scripts, and requests to them
nodes         the documents that the queue and the agents of nodes exchange
notices       messages on their way to people
callbacks     who waits for a job's end, until it is known to them
surroundings  when passes run, the clock, independent calls, and people
"""

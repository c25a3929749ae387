"""The manager's ports as Protocols, and the data that crosses them.

The adapters implement the ports. `adapters.memory` is the fake; the same contract suite tests it
and the real store.

training      SageMaker training
stored        what the store is given and gives
store         where jobs are kept: its facets, and its upkeep
jobs          the jobs and the groups that users have submitted
decisions     the world that a pass decides on, and its changes of jobs
configuration  pools, limits, how projects share; what was learned of pools
counters      what callers have used of their limits
usage         the record of what attempts used
scripts       what training scripts say, and are asked
notices       messages on their way to people
surroundings  when passes run, the clock, independent calls, and people
"""

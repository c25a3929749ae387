// Written by `make tables` from slotq_core/wire/verbs.py: what can be done with jobs, and in which
// words. What ends a job comes last.

export interface Verb {
  name: string;
  /** The key of the change, and its value if it is always the same. */
  key: string;
  value?: boolean;
  /** With the key `tags`: the tag that has the value. */
  tag?: string;
  /** The value is the number of the job's attempt. */
  ofAttempt?: boolean;
  /** What else it takes, and the words for it. */
  takes?: string;
  label?: string;
  /** For jobs in which states it has a button, and what that says will happen. */
  offers: { states: string[]; says: string }[];
  /** The same for the jobs of a group; absent: it has none there. */
  ofAGroup?: string;
  /** The key of the change in a what-if; absent: none shows it. */
  simulated?: string;
}

export const VERBS: Verb[] = [
  {"name": "hold", "key": "held", "value": true, "ofAGroup": "Those that wait do not start until they are released. They keep their entry time.", "simulated": "holds", "offers": [{"states": ["pending", "preempted", "backoff"], "says": "The job does not start until it is released. It keeps its entry time."}]},
  {"name": "release", "key": "held", "value": false, "ofAGroup": "They may start again, at their entry time.", "simulated": "releases", "offers": [{"states": ["held"], "says": "The job may start again. Its place is that of its entry time."}]},
  {"name": "priority", "key": "tags", "tag": "priority", "takes": "priority", "label": "New priority", "ofAGroup": "Those that wait move in their lines at once; those that run may be evicted with a lower one.", "simulated": "priorities", "offers": [{"states": ["pending", "preempted", "backoff", "held"], "says": "The job moves in its lines at once. With a higher priority it may evict others."}, {"states": ["starting", "running", "stopping"], "says": "With a lower priority the job may be evicted for others."}]},
  {"name": "move", "key": "tags", "tag": "slotq:pools", "takes": "pools", "label": "Pools, separated by commas", "simulated": "moves", "offers": [{"states": ["pending", "preempted", "backoff", "held"], "says": "The job accepts these pools from now on, the most welcome first."}]},
  {"name": "requeue", "key": "give_up", "ofAttempt": true, "offers": [{"states": ["starting", "running"], "says": "Its training job is stopped. The job waits again, at its entry time and with its checkpoints."}]},
  {"name": "cancel", "key": "cancel", "value": true, "ofAGroup": "Those that wait end and do not run. Those that run are stopped; what they have not saved is lost.", "simulated": "cancels", "offers": [{"states": ["pending", "preempted", "backoff", "held"], "says": "The job ends and does not run."}, {"states": ["starting", "running", "stopping"], "says": "Its training job is stopped, and the job does not run again. What it has not saved is lost."}]},
];

"""The one DynamoDB table: its layout, its keys and its definition.

    pk                  sk                        holds
    JOB#<job>           JOB                       the whole job; the only item in `by-state`
    JOB#<job>           REQUEST                   the request as submitted: JSON, zlib, binary
    JOB#<job>           ATTEMPT#<0001>            one attempt, as it began and then as it ended
    JOB#<job>           AFTER#<other job>         a copy of a job that waits for this one
    NAME#<training job> NAME                      the job, or the node, that a training job
                                                  belongs to
    HISTORY             <moment>#<job>            an ended job whose records are still to be marked
    ENDED#<day>         <moment>#<job>#<0001>     what an attempt used whose end was recorded then
    USAGE               <day>                     what is summed up of that day's ENDED items, and
                                                  in which parts
    USAGE#<day>         <0000>#<hash>             one part of the sums, compressed
    WAITING#<line>      <order key>               a copy of one waiting job, sorted by the order
    LINES               <line>                    a line that may have jobs: its touches and bound
    POOL#<pool>         LEDGER                    version, used_*, foreign_*, free_*, holders,
                                                  onNodes, activity, facts; `since`, the revision
                                                  that it awaits
    POOL#<pool>         HEALTH                    what SageMaker's answers showed about the pool
    POOL#<pool>         ACTIVE#<job>              a copy of a job that holds slots of the pool
    POOL#<pool>         CLAIM#<job>               a copy of a waiting job that has a claim there
    POOL#<pool>         HELD#<job>                slots kept for a job that cannot be understood
    POOL#<pool>         HELD#node:<node>          the slot of a node, and the node as it started
    POOL#<pool>         WARM#<training job>       instances that stay warm after this one
    POOL#<pool>         ACTIVE-ON-NODE#<job>      a copy of a job that runs on a node of the pool
    POOL#<pool>         YIELD#<rank>#<project>#<user>
                                                  when a user's job last yielded to a slice there;
                                                  0.2.0 named no project: YIELD#<rank>#<user>
    NODES#<pool>        <node>                    a node, and what is free on it: gpu_*, free_*;
                                                  `jobs`, and job_* of each
    DUE                 <moment>#<job>            a copy of a job in back-off, or of one whose end
                                                  has not notified its dependents yet
    CONFIG              POOL#<pool>               a pool's definition and its position, unless the
                                                  pools are in the document
    CONFIG              REVISION                  raised with each change of the configuration, with
                                                  its `digest`; `repairs`; all callers' use of the
                                                  limits at the last audit (`waiting`, `lines`);
                                                  `groupDecisions`, and `inParts` while PARTS
                                                  exists; `changing` while it changes in parts
    CONFIG              LIMITS                    the limits of callers and of the queue
    CONFIG              CHANGE#<moment>#<number>  who changed what, when: before and after
    CONFIG              SHARING#<hash>#<00>       departments, projects and operators, and many
                                                  pools: a document that never changes; REVISION
                                                  names the current one
    GROUP#<group>       GROUP                     a group: its rules and the names of its members
    OPENING             <group>                   a group's submission until its record is kept
    PARTS               PARTS                     a decision about a group that is not finished yet
    CALLERS             <caller>                  one caller's use: waiting, m<minute>; `audits`
    SCHEDULER           WAKE                      generation, seen, moves; the lease: holder, until
    SCHEDULER           <task>                    when a periodic task is due next
    SCHEDULER           RESTORED                  the last restore of this table from a copy:
                                                  `copiedAt` and `restoredAt`, as ISO 8601
    NOTICE#PENDING      <moment>#<id>             a message that is to be sent, at that moment
    NOTICE#DIGESTS      <day>#<notification>      how often each event has happened on a day
    NOTICE#<id>         TOLD                      that message was made, and is not made again
    CALLBACKS           <job>                     who waits for the job's end: the newest token
    CALLBACKS           <job>#<hash>              a token that a newer one has replaced, and whose
                                                  bearer has not been told yet
    SEEN                <training job>            a running training job that no job expects
    POISON              <key>                     an unreadable item, unchanged

A job's copies depend on its JOB item: every change of a job writes the job and all of its copies in
one transaction, conditioned on the job's version. Therefore a decision reads only short, sorted
partitions, strongly consistent, and never an index.

The ledger. `free_<resource>` is capacity − foreign − used, kept beside `used_<resource>`. With the
condition `free_slots >= :n`, DynamoDB itself refuses what does not fit. A pool that is not
configured has no `free_*` and admits nothing. (These attributes are flat because not every
implementation understands a condition on a nested path.)

A Query does not see a transaction as one: it can return one item from before and the next from
after. Therefore the ledger's `holders` is a sum of marks of the jobs that hold and claim slots
there (`layout.items.mark`), changed in the same transactions as those jobs. A reader whose items do
not add up to `holders` and `used_*` reads again. Each transaction that changes an item of the
partition also sets the ledger's `activity` to a new value, or counts `facts` (for HEALTH): while
the ledger is unchanged, a cached reading of the partition is still valid (`pool_reading`). The
transaction that makes a job yield to a time slice is one of these, so YIELD items are as old as the
ledger or older.

Nodes. The transaction that starts a node takes its slot from the ledger, and puts the node, its
HELD item and its NAME. So an earlier version counts the slot as held for a job that it does not
know. Jobs on nodes hold nothing in the ledger. The transaction that admits one requires that the
node is ready, of this generation and tenant, and that each `gpu_<index>` (hundredths) and
`free_<resource>` covers the need; `job_<name>` is the number of the job's attempt until the
transaction that ends it. The pool's partition has the copies of these jobs, and `onNodes` in the
ledger is the sum of their marks. A load finds the HELD items there, and reads NODES only for pools
that have such an item. Orders, reports and leases change the NODES item alone.

Warm slots. The transaction that ends an attempt which keeps its instances puts a WARM item. Its
mark is part of `holders`, and each change of one raises the ledger's version; the ledger counts
nothing for it.

Jobs that come after others. The submission of such a job requires that each awaited job lives and
is `followed`, so an end comes either before the submission or after it. An end of a followed job
stays in DUE until the pass that reads it there has changed all jobs in AFTER.

A job after a group has its copy in AFTER under `JOB#group:<group>`, which no job has as its name.
Its submission requires the same of one living member. When that member has ended, the pass makes
the next living one `followed` before it forgets the end. If none lives, it changes all jobs in
AFTER.

Groups. The transaction that puts the GROUP item makes the group exist; a load leaves out all jobs
of groups without one. Where one transaction holds all members, it stores them too, and requires
that there is no OPENING. Else they are stored in their lines first, and it requires that OPENING
still has the same submission, and removes it. (Before version 0.3 the members had a copy in AFTER
under `JOB#entry:<group>` until the group was whole, and entered their lines then.)

A decision about a group (a start, a claim, an eviction …) is conditioned on `groupDecisions` in
REVISION, and raises it. A load reads that item before any pool, so two passes never decide about
one group without each other's knowledge, whatever pools they touch. One beyond a transaction's
limit puts PARTS and `inParts` in its first part. A load that finds `inParts` reads PARTS, and its
pass finishes the decision before it plans. Every further part requires PARTS; the last removes it.

A line's `bound` is a lower bound of its jobs' order keys, so that a pass need not read a blocked
line (`layout.lines`). In SCHEDULER, `audit` names the last line of the last audit.

The history. The transaction that ends a job marks its JOB item with `expiresAt` and writes a
HISTORY item; `expire` then marks REQUEST, ATTEMPTs and NAMEs, and removes the HISTORY item last.
Only items of ended jobs and attempts are ever marked. DynamoDB removes marked items in no
particular order, so a name may be used again while records of the earlier job remain: `entryTime`
on each record says which job it belongs to.

The record of use. The transaction that ends an attempt puts an ENDED item under a key of its own,
so that no two handlers collide there. ENDED items expire as records of ended jobs do, but not
within a week. Once a day is over, its ENDED items are added up: parts first, then the USAGE item
that names them, on the condition that no other handler was faster. USAGE items never expire.

Notifications. One transaction puts a message's TOLD item, on the condition that none exists, the
message itself in PENDING, and the count for the digest. A message leaves PENDING when its receiver
has taken it, so one whose sender dies is sent again. TOLD items expire after a month.

The version of what people see is `generation` with `moves`. A handler that has changed something
moves one of them by its next write of WAKE, or else by a write at its end. So one read says that
nothing has changed, unless a lease is held: its holder moves the version when it ends the lease.

Submissions write CALLERS and LINES, then JOB, REQUEST and WAITING. None of these is a ledger, so
submissions never collide with passes there. Only an audit subtracts the jobs that have left the
queue from a caller's counter, so no pass writes CALLERS. LIMITS and the pools are neighbours, so
one Query reads them, and only if REVISION has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slotq_core.model.jobs import Job
from slotq_core.model.users import Yielded
from slotq_core.policy.lines import line_of
from slotq_core.ports.callbacks import KeptCallback
from slotq_core.storage.order_keys import order_key
from slotq_core.timestamps import iso

Key = tuple[str, str]
"""(pk, sk)"""

BY_STATE = "by-state"
"""The index for people's listings. It lags behind, and no decision reads it."""

NODES_PREFIX = "NODES#"
LINES = "LINES"
HISTORY = "HISTORY"
USAGE = "USAGE"
DUE = "DUE"
CONFIG = "CONFIG"
CALLERS = "CALLERS"
OPENING = "OPENING"
GROUP_PREFIX = "GROUP#"
PARTS = "PARTS"
JOB = "JOB"
ATTEMPT_PREFIX = "ATTEMPT#"
AFTER_PREFIX = "AFTER#"
ACTIVE_PREFIX = "ACTIVE#"
CLAIM_PREFIX = "CLAIM#"
HELD_PREFIX = "HELD#"
ON_NODE_PREFIX = "ACTIVE-ON-NODE#"
WARM_PREFIX = "WARM#"
ANY_ACTIVE = "ACTIVE"
"""The beginning of both keys of active jobs in a pool."""
YIELD_PREFIX = "YIELD#"
POOL_PREFIX = "POOL#"
CHANGE_PREFIX = "CHANGE#"
SHARING_PREFIX = "SHARING#"
LEDGER = "LEDGER"
HEALTH = "HEALTH"
SCHEDULER = "SCHEDULER"
SEEN = "SEEN"
PENDING = "NOTICE#PENDING"
DIGESTS = "NOTICE#DIGESTS"
CALLBACKS = "CALLBACKS"
POISON = "POISON"

EXPIRES_AT = "expiresAt"
"""Attribute: when DynamoDB may remove an item (seconds since the epoch). Set only on items of an
ended job or attempt."""

MAX_SORT_KEY = 1024
"""Maximum size (bytes) of a sort key in DynamoDB. A line's name must not exceed this limit."""


def table_definition(name: str) -> dict[str, Any]:
    """Return the arguments of CreateTable; `template.yaml` declares the same."""
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [
            {"AttributeName": attribute, "AttributeType": "S"}
            for attribute in ("pk", "sk", "jobState", "entryTime")
        ],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": BY_STATE,
                "KeySchema": [
                    {"AttributeName": "jobState", "KeyType": "HASH"},
                    {"AttributeName": "entryTime", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
    }


def time_to_live(name: str) -> dict[str, Any]:
    """Return the arguments of UpdateTimeToLive; `template.yaml` declares the same."""
    specification = {"AttributeName": EXPIRES_AT, "Enabled": True}
    return {"TableName": name, "TimeToLiveSpecification": specification}


def job_key(name: str) -> Key:
    return job_partition(name), JOB


def job_partition(name: str) -> str:
    return f"JOB#{name}"


def request_key(name: str) -> Key:
    return job_partition(name), "REQUEST"


def attempt_key(name: str, number: int) -> Key:
    return job_partition(name), f"{ATTEMPT_PREFIX}{number:04d}"


def after_key(awaited: str, job: str) -> Key:
    return job_partition(awaited), f"{AFTER_PREFIX}{job}"


def group_key(group: str) -> Key:
    return f"{GROUP_PREFIX}{group}", "GROUP"


def opening_key(group: str) -> Key:
    return OPENING, group


def parts_key() -> Key:
    return PARTS, PARTS


def name_key(training_job: str) -> Key:
    return f"NAME#{training_job}", "NAME"


def waiting_partition(line: str) -> str:
    return f"WAITING#{line}"


def waiting_key(job: Job) -> Key:
    return waiting_partition(line_of(job)), order_key(job)


def line_key(line: str) -> Key:
    return LINES, line


def pool_partition(pool: str) -> str:
    return f"{POOL_PREFIX}{pool}"


def ledger_key(pool: str) -> Key:
    return pool_partition(pool), LEDGER


def pools_of_ledgers(keys: Iterable[Key]) -> frozenset[str]:
    """The pools whose ledgers are among these keys."""
    return frozenset(pk.removeprefix(POOL_PREFIX) for pk, sk in keys if sk == LEDGER)


def active_key(pool: str, job: str) -> Key:
    return pool_partition(pool), f"{ACTIVE_PREFIX}{job}"


def claim_key(pool: str, job: str) -> Key:
    return pool_partition(pool), f"{CLAIM_PREFIX}{job}"


def due_key(moment: int, job: str) -> Key:
    return DUE, f"{iso(moment)}#{job}"


def held_key(pool: str, job: str) -> Key:
    return pool_partition(pool), f"{HELD_PREFIX}{job}"


def nodes_partition(pool: str) -> str:
    return f"{NODES_PREFIX}{pool}"


def node_key(pool: str, node: str) -> Key:
    return nodes_partition(pool), node


def node_slot_key(pool: str, node: str) -> Key:
    """The key of the item that holds a node's slot: no job has such a name."""
    return held_key(pool, f"node:{node}")


def on_node_key(pool: str, job: str) -> Key:
    return pool_partition(pool), f"{ON_NODE_PREFIX}{job}"


def warm_key(pool: str, training_job: str) -> Key:
    return pool_partition(pool), f"{WARM_PREFIX}{training_job}"


def yield_key(pool: str, this: Yielded) -> Key:
    rank = f"{this.workload.value}#{this.priority}"
    whose = this.user if this.project is None else f"{this.project}#{this.user}"
    return pool_partition(pool), f"{YIELD_PREFIX}{rank}#{whose}"


def poison_key(text: str) -> Key:
    return POISON, text


def history_key(moment: int, job: str) -> Key:
    return HISTORY, f"{iso(moment)}#{job}"


def ended_partition(day: str) -> str:
    return f"ENDED#{day}"


def usage_key(day: str) -> Key:
    return USAGE, day


def usage_part_key(part: str) -> Key:
    """The key of a part of a day's sums. `part` begins with the day."""
    day, _, rest = part.partition("#")
    return f"{USAGE}#{day}", rest


def pending_key(moment: int, message: str) -> Key:
    return PENDING, f"{iso(moment)}#{message}"


def digest_key(day: str, notification: str) -> Key:
    return DIGESTS, f"{day}#{notification}"


def made_key(message: str) -> Key:
    return f"NOTICE#{message}", "TOLD"


def callback_key(kept: KeptCallback) -> Key:
    """The key of a job's callback, or of one that a newer token has replaced: `#` is in no name."""
    return CALLBACKS, f"{kept.job}#{kept.token_id}" if kept.superseded else kept.job


def health_key(pool: str) -> Key:
    return pool_partition(pool), HEALTH


def wake_key() -> Key:
    return SCHEDULER, "WAKE"


def restored_key() -> Key:
    return SCHEDULER, "RESTORED"


def task_key(task: str) -> Key:
    return SCHEDULER, task


def sighting_key(training_job: str) -> Key:
    return SEEN, training_job


def pool_key(pool: str) -> Key:
    return CONFIG, f"{POOL_PREFIX}{pool}"


def limits_key() -> Key:
    return CONFIG, "LIMITS"


def caller_key(caller: str) -> Key:
    return CALLERS, caller


def revision_key() -> Key:
    return CONFIG, "REVISION"


def change_key(moment: int, revision: int) -> Key:
    return CONFIG, f"CHANGE#{iso(moment)}#{revision:06d}"


def sharing_key(document: str, part: int) -> Key:
    return CONFIG, f"{SHARING_PREFIX}{document}#{part:02d}"

"""The one DynamoDB table: its layout, its keys and its definition.

    pk                  sk                        holds
    JOB#<job>           JOB                       the whole job; the only item that is in `by-state`
    JOB#<job>           REQUEST                   the request as submitted: JSON, zlib, binary
    JOB#<job>           ATTEMPT#<0001>            one attempt, as it began and then as it ended
    NAME#<training job> NAME                      the job that a training job belongs to
    HISTORY             <moment>#<job>            an ended job whose records are still to be marked
    WAITING#<line>      <order key>               a copy of one waiting job; sorted, it is the order
    LINES               <line>                    a line that may have jobs; `touched` by each
    POOL#<pool>         LEDGER                    version, used_*, foreign_*, free_*, holders
    POOL#<pool>         HEALTH                    what was learned of SageMaker's answers there
    POOL#<pool>         ACTIVE#<job>              a copy of a job that holds slots of the pool
    POOL#<pool>         CLAIM#<job>               a copy of a waiting job that has a claim there
    POOL#<pool>         HELD#<job>                slots kept for a job that cannot be understood
    DUE                 <moment>#<job>            a copy of a job in back-off
    CONFIG              POOL#<pool>               a pool's definition and its position
    CONFIG              REVISION                  raised with each change of the configuration
    CONFIG              LIMITS                    the limits of callers and of the queue
    CONFIG              LOAD                      what all callers used of them at the last audit
    CONFIG              CHANGE#<moment>#<number>  who changed what, when: before and after
    CALLERS             <caller>                  what one used: waiting, m<minute>; `audits`
    SCHEDULER           WAKE                      generation, seen; the lease: holder, until
    SCHEDULER           <task>                    when a task done now and then is due next
    SEEN                <training job>            one that runs and that nobody expects
    POISON              <key>                     an item that could not be understood, as it was

A job's copies hang on its JOB item: whatever changes a job writes it and all of its copies in one
transaction, conditioned on the job's version. So a decision reads only short, sorted partitions,
strongly consistent, and never an index.

The ledger. `free_<resource>` is capacity − foreign − used, kept beside `used_<resource>`, so that
the condition `free_slots >= :n` makes DynamoDB itself refuse what does not fit; a pool that is not
configured has no `free_*` and admits nothing. (They are flat attributes because a condition on a
nested path is not understood everywhere.)

A Query does not see a transaction as one: it can read one item as it was before and the next as it
is after. So the ledger's `holders` is a sum of marks of who holds and claims slots there
(`dynamodb_items.mark`), moved in the very transactions that change these; a reader whose items do
not add up to `holders` and `used_*` reads again.

The history. The transaction that ends a job marks its JOB item with `expiresAt` and leaves a
HISTORY item behind; `expire` then marks REQUEST, ATTEMPTs and NAMEs, and removes the HISTORY item
last. No item of a job that lives is ever marked, nor anything else. DynamoDB removes what is marked
in no particular order, so a name may come again while records of its last bearer are still there:
`entryTime` on each of them says whose they are.

Submissions write JOB, REQUEST and WAITING, and before these CALLERS and LINES: nothing that a pass
writes. An audit alone takes off a caller's counter what has left the queue, so that neither does a
pass write what a submission does. LIMITS, LOAD, the pools and REVISION stand one after the other,
for one Query.
"""

from __future__ import annotations

from typing import Any

from slotq_core.model.jobs import Job
from slotq_core.policy.lines import line_of
from slotq_core.policy.order import order_key
from slotq_core.timestamps import iso

Key = tuple[str, str]
"""(pk, sk)"""

BY_STATE = "by-state"
"""The index for people's listings. It lags behind: no decision reads it."""

LINES = "LINES"
HISTORY = "HISTORY"
DUE = "DUE"
CONFIG = "CONFIG"
CALLERS = "CALLERS"
JOB = "JOB"
ATTEMPT_PREFIX = "ATTEMPT#"
ACTIVE_PREFIX = "ACTIVE#"
CLAIM_PREFIX = "CLAIM#"
HELD_PREFIX = "HELD#"
POOL_PREFIX = "POOL#"
CHANGE_PREFIX = "CHANGE#"
LEDGER = "LEDGER"
HEALTH = "HEALTH"
SCHEDULER = "SCHEDULER"
SEEN = "SEEN"
POISON = "POISON"

EXPIRES_AT = "expiresAt"
"""When DynamoDB may remove an item: seconds since the epoch. Only what belongs to an ended job."""

MAX_SORT_KEY = 1024
"""Bytes; DynamoDB's limit, which the name of a line has to keep."""


def table_definition(name: str) -> dict[str, Any]:
    """The arguments of CreateTable; `template.yaml` declares the same."""
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
    """The arguments of UpdateTimeToLive; `template.yaml` declares the same."""
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


def active_key(pool: str, job: str) -> Key:
    return pool_partition(pool), f"{ACTIVE_PREFIX}{job}"


def claim_key(pool: str, job: str) -> Key:
    return pool_partition(pool), f"{CLAIM_PREFIX}{job}"


def due_key(moment: int, job: str) -> Key:
    return DUE, f"{iso(moment)}#{job}"


def held_key(pool: str, job: str) -> Key:
    return pool_partition(pool), f"{HELD_PREFIX}{job}"


def poison_key(text: str) -> Key:
    return POISON, text


def history_key(moment: int, job: str) -> Key:
    return HISTORY, f"{iso(moment)}#{job}"


def health_key(pool: str) -> Key:
    return pool_partition(pool), HEALTH


def wake_key() -> Key:
    return SCHEDULER, "WAKE"


def task_key(task: str) -> Key:
    return SCHEDULER, task


def sighting_key(training_job: str) -> Key:
    return SEEN, training_job


def pool_key(pool: str) -> Key:
    return CONFIG, f"{POOL_PREFIX}{pool}"


def limits_key() -> Key:
    return CONFIG, "LIMITS"


def use_key() -> Key:
    return CONFIG, "LOAD"


def caller_key(caller: str) -> Key:
    return CALLERS, caller


def revision_key() -> Key:
    return CONFIG, "REVISION"


def change_key(moment: int, revision: int) -> Key:
    return CONFIG, f"CHANGE#{iso(moment)}#{revision:06d}"

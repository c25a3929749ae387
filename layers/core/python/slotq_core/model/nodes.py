"""Nodes: instances that the queue keeps and on which an agent runs jobs as processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from slotq_core.model.attempts import StopOrder
from slotq_core.model.demand import Demand
from slotq_core.timestamps import Moment

MOST_JOBS = 32
"""The most jobs that one node runs at once."""
MOST_PROBLEMS = 5
"""The most problems of a node to keep."""
LONGEST_PROBLEM = 200
"""The most characters of each."""


_OWNER = "node:"


class NodeState(StrEnum):
    """A node's state. A node takes a slot of its pool from its first state to the terminal status
    of its training job."""

    STARTING = "starting"
    """SageMaker provisions the instance, or the agent has not reported yet."""
    READY = "ready"
    DRAINING = "draining"
    """No job starts there any more. The node stops when its last job has ended."""
    STOPPING = "stopping"
    """The queue has ordered the agent to leave, or SageMaker to stop the training job."""


OF_PROJECT = "-"
"""What stands before the project in a tenant, unless jobs of all projects are of the tenant."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One instance of a pool that stays when a job ends: a training job of the queue's own."""

    name: str
    pool: str
    generation: int
    """Rises with each training job of nodes of this name: the version of the pool's ledger when the
    node got its slot. Orders and reports name it."""
    state: NodeState
    tenant: str
    """The key of what all jobs of the node have in common (`Job.tenant`)."""
    project: str = ""
    """The tenant's project; empty: the one implicit project, or every project of the pool."""
    demand: Demand = field(default_factory=lambda: Demand(slots=1))
    """What the node takes of its pool: a slot, and its contents where the pool counts them."""
    contents: Demand = field(default_factory=Demand)
    """What the instance has: `gpus`, and CPUs and memory where known. Changes only while no job is
    on the node."""
    instance_type: str = ""
    """Its pool's when it started; empty: that was not recorded."""
    training_job: str
    token: str
    """A token in the training job's tags. It shows that a repeated create is this queue's own."""
    started_for: str = ""
    """The job that the node was started for."""
    started_at: Moment
    """When the node got its slot (ms). The intent is durable from then on."""
    created: bool = False
    """True once SageMaker has accepted the create."""
    pending_since: Moment | None = None
    running_since: Moment | None = None
    """When the training job got its instance (ms); None while starting."""
    idle_since: Moment | None = None
    """When the node's last job ended (ms); None while jobs are on the node."""
    leaves_at: Moment | None = None
    """When the training job reaches SageMaker's longest runtime, with room for the end (ms). A node
    starts no job that it would cut short before that."""
    one_person: bool = False
    """Whether its jobs share a user id, so that they must all be one person's."""
    reports: int = 0
    """The number of the last report taken in."""
    reported_at: Moment | None = None
    """When the agent wrote that report, by its own clock's count since its start (ms)."""
    problems: tuple[str, ...] = ()
    """What the agent said in that report of its troubles, at most `MOST_PROBLEMS`. No job is named.
    """
    lease_until: Moment | None = None
    """Until when the node may run jobs without another report (ms)."""
    stop: StopOrder | None = None
    version: int = 0
    """Rises by one with each committed change of the node itself: not with its jobs and reports."""


def owner_of_node(pool: str, node: str) -> str:
    """Return the owner of a node's training job. No job has such a name."""
    return f"{_OWNER}{pool}/{node}"


def node_of_owner(owner: str) -> tuple[str, str] | None:
    """Return the pool and the name of the node that owns a training job; None: a job owns it."""
    if not owner.startswith(_OWNER):
        return None
    pool, _, node = owner.removeprefix(_OWNER).rpartition("/")
    return pool, node

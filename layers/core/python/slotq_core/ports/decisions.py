"""The input of decisions, and changes of jobs and nodes in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.model.pools import Pool
from slotq_core.ports.stored import (
    Change,
    InParts,
    Ledger,
    NodeChange,
    Part,
    WarmChange,
    World,
)


class Worlds(Protocol):
    """The input of decisions. Strongly consistent. Methods may raise Unavailable."""

    def load(self, now: int) -> World:
        """Load the input of a pass at `now` (ms): active jobs, claimants, due back-offs, and of
        each line the first jobs or, where a lower bound is known, a stand-in (`Snapshot.unread`).

        The cost does not depend on the number of waiting jobs.
        """

    def pools(self, now: int) -> Sequence[tuple[Pool, Ledger]]:
        """Return the pools in order, with their health, foreign use and ledgers, at `now` (ms).
        Reads nothing of what waits."""

    def nodes(self, now: int) -> Sequence[Node]:
        """Return the nodes as a load at `now` (ms) shows them. Reads nothing of what waits, and
        asks only for the nodes of pools that have any."""

    def load_all(self, now: int) -> World:
        """Load the same with every waiting job: for explanations, never for a pass."""


class Decisions(Protocol):
    """Conditional changes of stored jobs and nodes. Methods may raise Unavailable."""

    def commit(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int] | None = None,
        nodes: Sequence[NodeChange] = (),
        warm: Sequence[WarmChange] = (),
        group_decisions: int | None = None,
        part: Part | None = None,
        opens_line: bool = True,
        opener: str = "",
    ) -> tuple[Job, ...]:
        """Commit every change or none, in one transaction. Returns the committed jobs.

        The conditions: each job still has `before.version`; each pool in `seen` still has that
        ledger version; every pool has room for the newly held amounts; no decision about a group
        has been committed after the first `group_decisions`; the decision of this `part` is
        unfinished. Raises Conflict if a condition fails. Raises NoSuchLine if `opens_line` is false
        and a change puts a job into a line that does not exist: a user's change asks for a new line
        first. A pass's change never does. `opener`: who pays for the new line, already counted.

        `nodes`: nodes that start, change and end with it. A node starts if no node of its name
        exists, if the pool has room for it, and if its generation is the version that the pool's
        ledger gets by the transaction. It changes if nobody has changed it since it was read
        (`version`), and if no job is on it where the change says so (`empty`); only the fields that
        differ are written, so that reports and jobs meanwhile stay. It ends if no job is on
        it but those that leave by these changes, and gives its slot back.

        A job whose attempt begins on a node comes to it: the node must be of that generation,
        ready, of the job's tenant, and have room for one more job, for its GPUs and for its share.
        Such a job holds nothing of the pool's ledger. It leaves with its attempt, and the time of
        that is the node's `idle_since` until another job comes. If it is no longer there, or the
        node is gone, the change is committed all the same.

        `warm`: warm slots that change or are over with it, each if nobody has changed it since it
        was read. The end of an attempt that keeps its instances also makes the slot which it
        leaves. The version of a pool rises with each such change.

        A change that ends an attempt also makes the record of what the attempt used (`usage`). A
        change that takes an attempt back, without an end, removes all records of the attempt.

        A job holds its slots from the change into an active state until the change out of it. The
        version of each pool in `seen`, and of each pool whose use changes, rises by one; so does
        the number of decisions about groups, if it is given.
        """

    def in_a_row(self) -> AbstractContextManager[None]:
        """Count the jobs that the commits of this block bring into lines or take out once, at the
        block's end. Counts are for people and for limits: an audit corrects them."""

    def fitting(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int] | None = None,
        nodes: Sequence[NodeChange] = (),
        warm: Sequence[WarmChange] = (),
        part: Part | None = None,
    ) -> int:
        """Return how many of the first of these changes certainly fit into one transaction; at
        least one. The other arguments: as of the commit."""

    def in_parts(self) -> InParts | None:
        """Return the current state of the decision that is to be finished. Raises NotUnderstood."""

    def turn_back(self, decision: InParts) -> InParts:
        """Turn a decision to START into one to UNDO. Raises Conflict if it is no longer a START."""


class Nodes(Protocol):
    """The nodes besides a pass: one by one. Strongly consistent. Methods may raise Unavailable."""

    def get(self, pool: str, name: str) -> Node | None:
        """Return the node; None if it does not exist. Raises NotUnderstood if its record cannot be
        read."""

    def jobs(self, node: Node) -> Mapping[str, int]:
        """Return the jobs on the node with the numbers of their attempts; none if another
        generation has taken its place."""

    def note_report(
        self, node: Node, number: int, *, at: int, lease_until: int, problems: Sequence[str] = ()
    ) -> None:
        """Record that this report of the node was taken in, when its agent wrote it, until when the
        node may run jobs (ms), and the agent's problems. Raises Conflict if a later report or the
        same one is recorded, or if this generation of the node has ended."""

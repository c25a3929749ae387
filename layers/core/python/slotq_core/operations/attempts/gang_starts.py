"""Environment variables that a gang's members get at their start: the other members and the
rendezvous."""

from __future__ import annotations

from contextlib import suppress

from slotq_core.errors import NotUnderstood
from slotq_core.model.attempts import Attempt
from slotq_core.model.groups import StoredGroup
from slotq_core.model.jobs import Job, JobState
from slotq_core.ports.store import Store
from slotq_core.ports.training import Request
from slotq_core.wire.groups.member_environment import as_member

_KEPT = 31
"""Groups that a process remembers besides the latest."""


class GangStarts:
    """Completes the requests of members. A group's record never changes, and the members that are
    admitted together share the moment of their admission: both are read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._groups: dict[str, StoredGroup | None] = {}
        """None: the job's group is no gang."""
        self._started: dict[str, tuple[int, tuple[str, ...]]] = {}
        """By group a moment of admission (ms), and the members that held slots after it."""

    def as_member(self, request: Request, job: Job, attempt: Attempt) -> Request:
        """The request with the variables of a member. A job in no gang, or one whose group cannot
        be read, starts as it is. Raises Unavailable."""
        stored = self._gang(job.group)
        if stored is None:
            return request
        started = {job.name, *self._with(stored, attempt.admitted_at)}
        return as_member(request, job, stored.group, rendezvous=stored.rendezvous, started=started)

    def _gang(self, name: str) -> StoredGroup | None:
        if name not in self._groups:
            stored = None
            with suppress(NotUnderstood):
                stored = self._store.groups.get(name)
            if stored is not None and stored.group.max_parallel is not None:
                stored = None
            self._groups = {**dict([*self._groups.items()][-_KEPT:]), name: stored}
        return self._groups[name]

    def _with(self, stored: StoredGroup, admitted_at: int) -> tuple[str, ...]:
        """The members that hold slots, read after this admission."""
        name = stored.group.name
        known = self._started.get(name)
        if known is None or known[0] != admitted_at:
            jobs = self._store.jobs.several(stored.group.members).values()
            known = admitted_at, tuple(job.name for job in jobs if _holds(job))
            self._started = {**dict([*self._started.items()][-_KEPT:]), name: known}
        return known[1]


def _holds(job: Job) -> bool:
    """Whether the job has slots and keeps them."""
    return job.state in {JobState.STARTING, JobState.RUNNING}

"""Look groups up: one with its members, or all of them, as a caller may see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from slotq_core import names
from slotq_core.errors import NoSuchGroup, NotUnderstood
from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.jobs import TERMINAL_STATES, Job, JobState
from slotq_core.model.reasons import Reason
from slotq_core.operations.authorize import Authorizer
from slotq_core.operations.jobs.explanation import explained_list
from slotq_core.operations.jobs.group_summary import GroupSummary, summary_of
from slotq_core.operations.jobs.listing import fitting
from slotq_core.operations.jobs.sweeps import latest_jobs, latest_retry
from slotq_core.operations.status import MOST_LOOKED_AT, Status, why
from slotq_core.policy.order import position
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Ahead
from slotq_core.ports.surroundings import Clock

MOST_GROUPS = 200
"""The most groups in one answer: those with the latest members."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupStatus:
    """A group and its members as the caller may see them."""

    stored: StoredGroup
    members: Mapping[str, Status]
    """By member's name, in the order of the submission, without place and reason. Members whose
    records have expired are left out. A sweep's member is replaced by its latest retry."""
    summary: GroupSummary
    own: bool = True
    """Whether the caller is the person who submitted the group."""
    result: str = ""
    """S3 URI of the model of the member that ends the gang, once that member has completed."""
    reason: Reason | None = None
    """Why a gang waits, or its first member that waits. None unless requested for this one
    group."""

    def page(self, start: int = 0) -> tuple[dict[str, Status], int | None]:
        """The members that fit into one answer, from this place in the submission on, and the place
        where the next page starts (None: this is the last page). Places stay the same when records
        expire, and reveal nothing about members that the caller may not see."""
        left = [
            (place, name)
            for place, name in enumerate(self.stored.group.members)
            if place >= start and name in self.members
        ]
        first = fitting([self.members[name] for _, name in left], len(left))
        shown = {name: status for (_, name), status in zip(left, first, strict=False)}
        return shown, left[len(first)][0] if len(first) < len(left) else None


class GroupLookup:
    """The groups, as callers see them."""

    def __init__(self, store: Store, clock: Clock, authorizer: Authorizer) -> None:
        self._store, self._clock, self._authorizer = store, clock, authorizer

    def status(
        self, name: str, *, to: str | None = None, with_attempts: bool = False
    ) -> GroupStatus:
        """The group, as caller `to` may see it (None: the queue's owner). Raises NoSuchGroup, also
        where the caller may see none of its members."""
        stored = self._store.groups.get(name) if names.is_legal(name) else None
        found = self.shown(stored, to, with_attempts=with_attempts) if stored else None
        if found is None or not (found.members or found.own):
            raise NoSuchGroup(f"there is no group '{name[: names.LONGEST]}'", field="name")
        return replace(found, reason=self._reason(found))

    def shown(
        self, stored: StoredGroup, to: str | None, *, with_attempts: bool = False
    ) -> GroupStatus:
        """The group without the reason why it waits, which costs more."""
        every = self._members(stored.group, with_attempts=with_attempts)
        jobs = [status.job for status in every.values()]
        sees = self._authorizer.sight(jobs, by=to)
        members = {
            name: status for name, status in every.items() if sees is None or sees(status.job)
        }
        return GroupStatus(
            stored=stored,
            members=members,
            summary=summary_of(stored.group, jobs, goal_met=stored.goal_met(jobs)),
            own=to is None or self.is_person(to, stored.submitter),
            result=self._result(stored.group, members),
        )

    def all(self, *, to: str | None = None, ended: bool = False) -> tuple[list[GroupStatus], int]:
        """The groups with members that caller `to` may see and that have not ended, with `ended`
        also the others, by name; and how many jobs were examined. Members without an entry among
        the latest MOST_LOOKED_AT jobs are left out."""
        found = self._store.jobs.in_states(JobState, limit=MOST_LOOKED_AT)
        sees = self._authorizer.sight(found, by=to)
        members: dict[str, list[Job]] = defaultdict(list)
        for job in found:
            if job.group and (sees is None or sees(job)):
                members[job.group].append(job)
        wanted = [
            name
            for name, jobs in members.items()
            if ended or any(job.state not in TERMINAL_STATES for job in jobs)
        ]
        wanted.sort(key=lambda name: -max(job.entry_time for job in members[name]))
        read = readable_groups(self._store, wanted[:MOST_GROUPS])
        return [_listed(stored, members[stored.group.name]) for stored in read], len(found)

    def _members(self, group: Group, *, with_attempts: bool) -> dict[str, Status]:
        """The members that have readable records (`latest_jobs`)."""
        jobs = latest_jobs(group, self._store)

        def status(job: Job) -> Status:
            found = self._store.jobs.with_attempts(job.name) if with_attempts else None
            job, attempts = found or (job, ())
            return Status(job=job, attempts=attempts)

        return dict(zip(jobs, self._store.at_once(status, [*jobs.values()]), strict=True))

    def is_person(self, caller: str, submitter: str) -> bool:
        """Whether the two ARNs are one person. Reads nothing where they are equal."""
        if caller == submitter:
            return True
        people = self._store.configuration.read().people
        return people.person(caller) == people.person(submitter)

    def _result(self, group: Group, members: Mapping[str, Status]) -> str:
        """The model of the member that ends the gang; empty: it has no model yet, or the caller may
        not see it."""
        found = members.get(group.ends_with)
        if found is None or found.job.state is not JobState.COMPLETED:
            return ""
        attempts = found.attempts
        if not attempts and (read := self._store.jobs.with_attempts(group.ends_with)) is not None:
            attempts = read[1]
        return attempts[-1].artifact if attempts else ""

    def _reason(self, found: GroupStatus) -> Reason | None:
        """The reason of the first waiting member, in the order of the queue."""
        waiting = sorted(
            (member.job for member in found.members.values() if member.job.waits), key=position
        )
        if not waiting or found.stored.group.max_parallel is not None:
            return None
        now = self._clock.now()
        planned = explained_list(self._store.worlds.load(now), now, waiting, None)
        explained = [job for job in waiting if job.name in planned.reasons] or waiting
        return why(explained[0], planned, Ahead(jobs=0, or_more=True))


def readable_groups(store: Store, names: Iterable[str]) -> list[StoredGroup]:
    """Those of these groups that exist and are readable, by name. Without the parameters of sweeps,
    which would take hundreds of megabytes for many groups."""

    def read(name: str) -> StoredGroup | None:
        with suppress(NotUnderstood):
            stored = store.groups.get(name)
            if stored and stored.sweep:
                stored = replace(stored, sweep=replace(stored.sweep, parameters=()))
            return stored
        return None

    return [stored for stored in store.at_once(read, sorted(names)) if stored]


def _listed(stored: StoredGroup, jobs: Sequence[Job]) -> GroupStatus:
    known = {job.name: job for job in jobs}
    members = {
        name: Status(job=latest_retry(known[name], stored.group, known.get))
        for name in stored.group.members
        if name in known
    }
    own = [status.job for status in members.values()]
    return GroupStatus(
        stored=stored,
        members=members,
        summary=summary_of(stored.group, own, goal_met=stored.goal_met(own)),
    )

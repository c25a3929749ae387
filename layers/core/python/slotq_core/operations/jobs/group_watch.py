"""The end of a group, for the jobs after it.

No counter exists of a group's members. While a job waits for a group, one living member of the
group is `followed`: the watch. The watch's end stays in the store as a task, like that of any
followed job, until another living member is followed. When every member has ended, the task
notifies the group's dependents. So ends of other members cost nothing, and a group without
dependents costs nothing at all.

The watch is the first member, in the group's order, that has not ended. All watches of a group
together read each member about once. The last one reads all other members once more, so its
verdict depends on no other handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from slotq_core.admission.dependencies import GroupProgress, progress_of
from slotq_core.errors import NoSuchGroup, Unavailable
from slotq_core.model.groups import Group, StoredGroup, end_of
from slotq_core.model.jobs import GROUP_END, Job
from slotq_core.names import is_legal
from slotq_core.operations.jobs.sweeps import latest_retry
from slotq_core.ports.store import Store

_TRIES = 20
"""How often the next watch is looked for while the one found ends."""

_REMEMBERED = 8
"""Groups whose ended members are remembered."""

NONE: Mapping[str, Job | None] = MappingProxyType({})


class GroupWatch:
    """`follow` makes sure that a member's end will notify its dependents, and returns whether the
    member lives."""

    def __init__(self, store: Store, follow: Callable[[Job], bool]) -> None:
        self._store, self._follow = store, follow
        self._ended: dict[str, Mapping[str, Job | None]] = {}
        """The members of groups that have ended, by group and name, as submissions have read them.
        An end is final; only a retry may take the place of a sweep's member."""

    def progress(
        self, names: Iterable[str], *, sees: Callable[[Job], bool], by: str
    ) -> Mapping[str, GroupProgress]:
        """How far the groups of these names have come, by `group:NAME`; without those that do not
        exist, or that caller `by` may not see: others submitted them, and no member that was looked
        at may be seen."""
        found = {}
        for name in dict.fromkeys(name.removeprefix(GROUP_END) for name in names):
            stored = self._store.groups.get(name) if is_legal(name) else None
            if stored is None:
                continue
            members = self._members(stored.group)
            if stored.submitter == by or any(job and sees(job) for _, job in members):
                found[end_of(name)] = _progress(stored, members)
        return found

    def watched(self, ended: Job) -> GroupProgress:
        """How far the group of this job, the watch, has come after its end. A member that has not
        ended is followed from now on. Raises NoSuchGroup, and Unavailable after `_TRIES` ends.

        The task of its end may be read before the job's own item shows it: both are written in one
        transaction, but a query may see it half done."""
        stored = self._store.groups.get(ended.group)
        if stored is None:
            raise NoSuchGroup(f"there is no group '{ended.group}'", field="name")
        begin, known = _behind(stored, ended.name), {ended.name: ended}
        for _ in range(_TRIES):
            progress = _progress(stored, self._until_living(stored.group, begin, known=known))
            if progress.living is not None and self._follow(progress.living):
                return progress
            if progress.living is None and begin == 0:
                return progress
            if progress.living is None:
                begin = 0  # The verdict is about all members.
        raise Unavailable(f"members of group {ended.group} keep ending; a later pass goes on")

    def _members(self, group: Group) -> list[tuple[str, Job | None]]:
        """The members to the first that has not ended. Reads those that have ended only once."""
        known = self._ended.get(group.name, {})
        found = [*self._until_living(group, known=known)]
        ended = {name: job for name, job in found if job is None or job.terminal}
        self._ended.pop(group.name, None)  # So that the groups asked for last stay.
        self._ended[group.name] = {**known, **ended}
        for name in [*self._ended][:-_REMEMBERED]:
            self._ended.pop(name, None)
        return found

    def _until_living(
        self, group: Group, begin: int = 0, *, known: Mapping[str, Job | None] = NONE
    ) -> Iterator[tuple[str, Job | None]]:
        """The members from this one on, to the first that has not ended. A retry replaces a sweep's
        member. `known`: members that have ended, as last read."""
        for name in group.members[begin:]:
            job = known[name] if name in known else self._own(name, group)
            if job is not None:
                job = latest_retry(job, group, self._store.jobs.get)
            yield name, job
            if job is not None and not job.terminal:
                return

    def _own(self, member: str, group: Group) -> Job | None:
        """The member's own job. Its record may have expired, and its name be in use again."""
        job = self._store.jobs.get(member)
        return job if job is not None and job.group == group.name else None


def _progress(stored: StoredGroup, members: Iterable[tuple[str, Job | None]]) -> GroupProgress:
    return progress_of(stored.group, members, goal_met=stored.goal_met)


def _behind(stored: StoredGroup, member: str) -> int:
    members = stored.group.members
    return members.index(member) + 1 if member in members else 0

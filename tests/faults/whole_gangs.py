"""A gang starts whole, is evicted whole (an elastic one down to its core) and ends whole with its
server, over however many transactions.

Judged after each write: a decision is over when it has left no record of itself. From the outside,
too: no training job is created while the record is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slotq_core.model.attempts import StopCause
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, JobState
from slotq_core.policy.state.groups.gangs import LiveGang
from tests.faults.fake_dynamodb import Change

GANG = "a gang starts and is evicted whole"


@dataclass
class WholeGangs:
    jobs: Mapping[str, Job]
    """Every job, as it now stands."""
    in_parts: bool = False
    """Whether a decision is unfinished."""
    most_parts: int = 0
    """The most transactions that a decision has taken."""
    _parts: int = 0
    _started: set[str] = field(default_factory=set)
    """Members that got slots in the decision that is being made."""
    _stopped: set[str] = field(default_factory=set)
    """Members that this decision has evicted, or ended with their gang."""

    def wrote(
        self, before: Mapping[str, Job], changes: Sequence[Change], gangs: Iterable[Group]
    ) -> list[str]:
        """Take in one write. `before`: the jobs that it has changed, as they were. Returns what is
        wrong."""
        kept = [after for (pk, _), _, after in changes if pk == "PARTS"]
        if kept or self.in_parts:
            self._parts = self._parts + 1 if self.in_parts else 1
            self.most_parts = max(self.most_parts, self._parts)
        for after in kept:
            self.in_parts = after is not None
        for name, was in before.items():
            now = self.jobs[name]
            if now.attempts > was.attempts:
                self._started.add(name)
            elif now.attempts < was.attempts:
                self._started.discard(name)
            if _stopped(now) and not _stopped(was):
                self._stopped.add(name)
        if self.in_parts:
            return []
        wrong = [text for group in gangs for text in self._judged(group)]
        self._started.clear()
        self._stopped.clear()
        return wrong

    def _judged(self, group: Group) -> Iterable[str]:
        started, stopped = self._started & {*group.members}, self._stopped & {*group.members}
        members = [self.jobs[name] for name in group.members if name in self.jobs]
        ended = {job.name: job.state for job in members if job.terminal}
        there = LiveGang(group=_with_ends(group, ended), waiting=(), active=())
        if started and not there.enough(job.name for job in members if job.attempt):
            yield f"{sorted(started)} of {group.name} have slots, which are not enough"
        running = [job.name for job in members if job.attempt and not job.attempt.stop]
        if stopped and running and not (group.elastic and there.enough(running)):
            yield f"{sorted(stopped)} of {group.name} are stopped, {running} are not"


def _stopped(job: Job) -> bool:
    stop = job.attempt.stop if job.attempt else None
    return stop is not None and stop.cause in {StopCause.EVICTED, StopCause.GROUP_ENDED}


def _with_ends(group: Group, ended: Mapping[str, JobState]) -> Group:
    return Group(
        name=group.name,
        members=group.members,
        min_members=group.min_members,
        mandatory=group.mandatory,
        elastic=group.elastic,
        ended=ended,
    )

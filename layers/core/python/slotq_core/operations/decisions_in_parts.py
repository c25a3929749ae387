"""Decisions about groups that one transaction cannot hold.

A gang's members are admitted together over all their pools, or none: 200 members work. Evicting
one evicts the gang.

The first part keeps a record of the whole decision, and every load meets the record and finishes
the decision before it plans. The last part removes the record. No effect of the decision is carried
out before: a crash never leaves half a gang at SageMaker.

See docs/protocol.md#gangs-of-any-size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotq_core.errors import Conflict, NotUnderstood, Unavailable
from slotq_core.model.jobs import Job
from slotq_core.policy.lifecycle.apply import has_started, not_started, stopped_as
from slotq_core.ports.decisions import Decisions
from slotq_core.ports.jobs import StoredJobs
from slotq_core.ports.stored import Change, Finding, InParts, Part, PartsKind
from slotq_core.timestamps import iso

MOST_SEEN = 50
"""Maximum number of ledgers that the first part of a decision is conditioned on: they take half of
its actions. For a job in any further pool, the free amount alone is the condition."""

LONG = 180_000
"""Age (ms) at which an unfinished decision is reported as obstructed: each pass, and so each tick,
tries to finish it."""

_TRIES = 20
"""How often a decision is retried while others change its jobs."""

_START_TRIES = 3
"""The same, before a start is undone: others may have used a ledger at that moment, or the slots
may be gone."""


class Unfinished(Unavailable):
    """A decision in parts was tried `_TRIES` times without being finished. A later pass tries
    again."""


class _CannotStart(Conflict):
    """A member of a gang that was to start has changed."""


def examine(decisions: Decisions, now: int) -> list[Finding]:
    """Find a decision that has been unfinished for `LONG`. Raises Unavailable."""
    decision = decisions.in_parts()
    if decision is None or now - decision.at < LONG:
        return []
    groups = sorted({before.group for before, _ in decision.steps if before.group})
    text = (
        f"the {_WHAT[decision.kind]} of {len(decision.jobs)} jobs, decided at {iso(decision.at)}, "
        "is not finished, and nothing else is decided before it is. Each pass tries again: look in "
        "its log for what is in the way"
    )
    return [Finding(kind="unfinished_decision", subject=", ".join(groups), text=text)]


_WHAT = {
    PartsKind.START: "start",
    PartsKind.FINISH: "eviction or stop",
    PartsKind.UNDO: "undoing of a start",
}


class DecisionsInParts:
    def __init__(self, decisions: Decisions, jobs: StoredJobs) -> None:
        self._decisions, self._jobs = decisions, jobs

    def fits(self, changes: Sequence[Change], seen: Mapping[str, int]) -> bool:
        """Whether one transaction holds the decision."""
        return self._decisions.fitting(changes, seen=seen) == len(changes)

    def commit(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int],
        group_decisions: int,
        starts: bool,
    ) -> tuple[Job, ...]:
        """Commit a decision in several parts. Returns the jobs that may have effects to carry out;
        none if it had to be undone. Raises Conflict if nothing was committed, and Unavailable.

        `starts`: whether the jobs start, all or none. `seen` and `group_decisions`: as of the load.
        """
        decision = InParts(
            number=group_decisions,
            kind=PartsKind.START if starts else PartsKind.FINISH,
            steps=tuple((change.before, change.after) for change in changes),
        )
        first, few = Part(of=decision, opens=True), dict([*seen.items()][:MOST_SEEN])
        count = self._decisions.fitting(changes, seen=few, part=first)
        jobs = self._decisions.commit(
            changes[:count], seen=few, group_decisions=group_decisions, part=first
        )
        try:
            return jobs + self._commit_rest(decision, changes[count:])
        except Conflict:
            return self.finish(decision)

    def finish(self, decision: InParts) -> tuple[Job, ...]:
        """Finish a decision that another handler may have begun. Returns as `commit`. Raises
        Unavailable: the decision stays to be finished."""
        for number in range(_TRIES):
            try:
                return self._finish(decision)
            except Conflict as error:
                now = self._decisions.in_parts()
                if now is None or now.number != decision.number:
                    return ()  # Another handler has finished it, and sees to the effects.
                hopeless = isinstance(error, _CannotStart) or number >= _START_TRIES
                decision = self._turned_back(now) if hopeless else now
        raise Unfinished("the jobs of a decision about a group keep changing")

    def _turned_back(self, decision: InParts) -> InParts:
        """The decision to continue: undone if a member can no longer start."""
        if decision.kind is not PartsKind.START:
            return decision
        try:
            return self._decisions.turn_back(decision)
        except Conflict:
            return decision  # The next try finds out why.

    def _finish(self, decision: InParts) -> tuple[Job, ...]:
        found = [(self._job(before.name), before, after) for before, after in decision.steps]
        match decision.kind:
            case PartsKind.START:
                left = [change for change in map(_start, *zip(*found, strict=True)) if change]
            case PartsKind.FINISH:
                left = [change for change in map(_finished, *zip(*found, strict=True)) if change]
            case PartsKind.UNDO:
                left = [change for change in map(_undone, *zip(*found, strict=True)) if change]
        done = self._commit_rest(decision, left)
        if decision.kind is PartsKind.UNDO:
            return ()
        names = {job.name for job in done}
        others = (job for job, _, _ in found if job is not None and job.name not in names)
        return (*others, *done)

    def _job(self, name: str) -> Job | None:
        try:
            return self._jobs.get(name)
        except NotUnderstood:
            return None  # It was put aside. It holds slots, if any, and people see to it.

    def _commit_rest(self, decision: InParts, changes: Sequence[Change]) -> tuple[Job, ...]:
        """Commit the other parts. The last one may have no changes."""
        jobs: tuple[Job, ...] = ()
        while True:
            part = Part(of=decision, closes=True)
            count = self._decisions.fitting(changes, part=part) if changes else 0
            if count < len(changes):
                part = Part(of=decision)
            jobs += self._decisions.commit(changes[:count], part=part)
            changes = changes[count:]
            if part.closes:
                return jobs


def _start(job: Job | None, before: Job, after: Job) -> Change | None:
    """The start of a member; None if it has started. Raises Conflict if it can no longer start."""
    if job is not None and has_started(job, after):
        return None
    if job is None or job.version != before.version:
        raise _CannotStart(f"{before.name} has changed since its gang was to start")
    return Change(before=job, after=after)


def _finished(job: Job | None, before: Job, after: Job) -> Change | None:
    """The decided change of the job; None if it has already been made."""
    if job is None:
        return None
    decided = after if job.version == before.version else stopped_as(after, job)
    return Change(before=job, after=decided) if decided else None


def _undone(job: Job | None, before: Job, after: Job) -> Change | None:
    """The change that restores a member's place. A job that its user has cancelled meanwhile is
    stopped instead."""
    restored = not_started(job, before, after) if job is not None else None
    return Change(before=job, after=restored) if job is not None and restored else None

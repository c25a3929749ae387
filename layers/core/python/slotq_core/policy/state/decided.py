"""The decisions and reasons of a plan so far."""

from __future__ import annotations

from collections.abc import Iterable
from operator import delitem

from slotq_core.model.jobs import Job
from slotq_core.model.reasons import Reason
from slotq_core.policy.order import Rank, rank
from slotq_core.policy.plan import Decision, DropClaim
from slotq_core.policy.state.journal import Journal


class Decided:
    """The decisions and reasons of one plan in progress."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.decisions: dict[str, Decision] = {}
        """By the name of the job that each concerns."""
        self._taken_at: dict[str, int] = {}
        """The checkpoint at which each decision was taken."""
        self.reasons: dict[str, Reason] = {}
        self.dropped: dict[str, DropClaim] = {}
        """Abandoned claims, by job. If there are any, the plan decides nothing else."""
        self.yielded: set[tuple[str, str, Rank]] = set()
        """Projects, users and ranks of which a job has yielded its slots in this plan."""
        self.wake_at: int | None = None

    def decide(self, name: str, decision: Decision) -> None:
        """Take a decision about a job, in place of an earlier one."""
        self.undecide(name)
        at = self._journal.checkpoint()
        self._journal.record(delitem, self.decisions, name)
        self.decisions[name], self._taken_at[name] = decision, at

    def undecide(self, name: str) -> None:
        if name in self.decisions:
            decision = self.decisions.pop(name)
            self._journal.record(self._take_again, name, decision, self._taken_at[name])

    def _take_again(self, name: str, decision: Decision, at: int) -> None:
        self.decisions[name], self._taken_at[name] = decision, at

    def in_order(self) -> list[Decision]:
        """The decisions in the order in which they were taken."""
        return [
            self.decisions[name] for name in sorted(self.decisions, key=self._taken_at.__getitem__)
        ]

    def has_yielded(self, victims: Iterable[Job]) -> None:
        for victim in victims:
            self._journal.add(self.yielded, _turns_of(victim))

    def moves_place_of(self, job: Job) -> bool:
        """Whether a yield in this plan moves the place of the job's user at that rank."""
        return bool(self.yielded) and _turns_of(job) in self.yielded

    def drop(self, waiting: Job) -> None:
        """Give up the claim of a waiting job."""
        self._journal.put(self.dropped, waiting.name, DropClaim(job=waiting))

    def say(self, job: Job, why: Reason) -> None:
        """Keep the reason why the job waits."""
        self._journal.put(self.reasons, job.name, why)

    def unsay(self, job: Job) -> None:
        """Forget the reason of a blocked job: it is made from the state at the end of the plan."""
        if job.name in self.reasons:
            self._journal.remove(self.reasons, job.name)

    def wake(self, moments: Iterable[int | None], now: int) -> None:
        """Bring `wake_at` forward to the earliest of these times that is still to come."""
        earliest = self.wake_at
        for at in moments:
            if at is not None and at > now and (earliest is None or at < earliest):
                earliest = at
        if earliest != self.wake_at:
            self._journal.set(self, "wake_at", earliest)


def _turns_of(job: Job) -> tuple[str, str, Rank]:
    """The project, user and rank whose turns the job takes."""
    return (job.project, job.person, rank(job))

"""The users' verbs as methods: on jobs by name (`queue.jobs`), on a job as an object, and on many.

What each verb changes stands in the core's table (`slotq_core.wire.verbs`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from slotq.errors import SlotQError
from slotq.jobs.submission import settings_tags
from slotq_core.wire.verbs import BY_NAME, Takes, Verb
from slotq_core.wire.views.jobs import JobView

Value = str | int | Iterable[str] | None
"""What a verb takes: a priority, pools, a project or a text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The result for one job: the changed job, or the error that left it unchanged."""

    name: str
    job: JobView | None = None
    error: SlotQError | None = None


def change_of(verb: Verb, value: Value, *, attempt: int = 0) -> dict[str, Any]:
    """The change of a job, as the queue takes it. `attempt`: the number of the job's attempt, which
    a change of it carries: repeated, it does not change the next attempt too."""
    if verb.of_attempt:
        return {verb.key: attempt}
    if verb.value is not None:
        return {verb.key: verb.value}
    match verb.takes:
        case Takes.PRIORITY:
            assert isinstance(value, str | int)
            return {verb.key: settings_tags(priority=value)}
        case Takes.POOLS:
            assert not isinstance(value, int)
            return {verb.key: settings_tags(pools=value)}
        case Takes.PROJECT:
            return {verb.key: settings_tags(project=str(value))}
    return {verb.key: value}


class VerbsByName:
    def do(self, name: str, verb: Verb, value: Value = None) -> JobView:
        """Any verb of the table."""
        raise NotImplementedError

    def cancel(self, name: str) -> JobView:
        """Cancel a job, whether it waits or runs. Raises NoSuchJob, TooLate (it has ended).

        Cancelling a cancelled job is no error: the first answer may have been lost.
        """
        return self.do(name, BY_NAME["cancel"])

    def hold(self, name: str) -> JobView:
        """The job shall not start until it is released. Raises NoSuchJob; TooLate where it holds
        slots or has ended. Holding a held job is no error."""
        return self.do(name, BY_NAME["hold"])

    def release(self, name: str) -> JobView:
        """A held job waits again, at its old entry time. Raises NoSuchJob, TooLate (it has ended).
        Releasing a job that is not held is no error."""
        return self.do(name, BY_NAME["release"])

    def requeue(self, name: str) -> JobView:
        """Stop the running attempt; the job goes back into the line, at its old entry time and with
        its checkpoints. No error where it waits: then there is nothing to give up. Raises
        NoSuchJob; TooLate where it is being cancelled or has ended."""
        return self.do(name, BY_NAME["requeue"])

    def set_priority(self, name: str, priority: int | str) -> JobView:
        """High first. A running job's counts too: it says whom it is evicted for. Raises NoSuchJob,
        TooLate (it has ended), InvalidRequest."""
        return self.do(name, BY_NAME["priority"], priority)

    def move(self, name: str, pools: str | Iterable[str]) -> JobView:
        """It accepts these pools from now on, the most welcome first; a running attempt stays where
        it is. Raises NoSuchJob, TooLate (it has ended), InvalidRequest, NeverFits."""
        return self.do(name, BY_NAME["move"], pools)

    def transfer(self, name: str, project: str) -> JobView:
        """It belongs to this project from now on, with the project's pools where it names none. For
        jobs that hold no slots. Raises NoSuchJob, NotPermitted, ProjectNotAllowed; TooLate (it
        holds slots, or has ended); and what a submission to the project raises."""
        return self.do(name, BY_NAME["transfer"], project)


class VerbsOfJob:
    def do(self, verb: Verb, value: Value = None) -> Self:
        """Any verb of the table."""
        raise NotImplementedError

    def cancel(self) -> Self:
        """Whether it waits or runs; a running attempt is stopped first. Raises TooLate (it has
        ended otherwise)."""
        return self.do(BY_NAME["cancel"])

    def hold(self) -> Self:
        """It shall not start until it is released. Raises TooLate: it holds slots, or has ended."""
        return self.do(BY_NAME["hold"])

    def release(self) -> Self:
        """It waits again, at its old entry time. Raises TooLate (it has ended)."""
        return self.do(BY_NAME["release"])

    def requeue(self) -> Self:
        """It gives its running attempt up and waits again, at its old entry time and with its
        checkpoints. Raises TooLate (it is being cancelled, or has ended)."""
        return self.do(BY_NAME["requeue"])

    def set_priority(self, priority: int | str) -> Self:
        """High first. Raises TooLate (it has ended), InvalidRequest."""
        return self.do(BY_NAME["priority"], priority)

    def move(self, pools: str | Iterable[str]) -> Self:
        """It accepts these pools from its next start on, the most welcome first. Raises TooLate (it
        has ended), InvalidRequest, NeverFits."""
        return self.do(BY_NAME["move"], pools)

    def transfer(self, project: str) -> Self:
        """It belongs to this project from now on. Raises ProjectNotAllowed, TooLate (it holds
        slots, or has ended), and what a submission to the project raises."""
        return self.do(BY_NAME["transfer"], project)


class VerbsOfMany:
    def do(self, verb: Verb, value: Value = None) -> list[Outcome]:
        """Any verb of the table."""
        raise NotImplementedError

    def cancel(self) -> list[Outcome]:
        return self.do(BY_NAME["cancel"])

    def hold(self) -> list[Outcome]:
        return self.do(BY_NAME["hold"])

    def release(self) -> list[Outcome]:
        return self.do(BY_NAME["release"])

    def requeue(self) -> list[Outcome]:
        """Give up the current attempt of each job."""
        return self.do(BY_NAME["requeue"])

    def set_priority(self, priority: int | str) -> list[Outcome]:
        return self.do(BY_NAME["priority"], priority)

    def move(self, pools: str | Iterable[str]) -> list[Outcome]:
        return self.do(BY_NAME["move"], pools)

    def transfer(self, project: str) -> list[Outcome]:
        return self.do(BY_NAME["transfer"], project)

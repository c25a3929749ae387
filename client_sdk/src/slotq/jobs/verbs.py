"""The users' verbs as methods: on jobs by name (`queue.jobs`), on a job as an object, and on many.

The core's table (`slotq_core.wire.verbs`) says what each verb changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from slotq.jobs.submission import settings_tags
from slotq_core.wire.verbs import BY_NAME, Takes, Verb

if TYPE_CHECKING:
    from slotq.errors import SlotQError
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
    """The change of a job in the queue's form. `attempt`: the number of the attempt to change, so
    that a repeated change does not affect the next attempt."""
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
        """Keep the job from starting until it is released. Raises NoSuchJob; TooLate if it holds
        slots or has ended. Holding a held job is no error."""
        return self.do(name, BY_NAME["hold"])

    def release(self, name: str) -> JobView:
        """Let a held job wait again, at its old entry time. Raises NoSuchJob, TooLate (it has
        ended). Releasing a job that is not held is no error."""
        return self.do(name, BY_NAME["release"])

    def requeue(self, name: str) -> JobView:
        """Stop the running attempt; the job goes back into the line, at its old entry time and with
        its checkpoints. No error for a waiting job, which is left unchanged. Raises NoSuchJob;
        TooLate if it is being cancelled or has ended."""
        return self.do(name, BY_NAME["requeue"])

    def set_priority(self, name: str, priority: int | str) -> JobView:
        """Set the priority; the highest comes first. For a running job it decides which jobs may
        evict it. Raises NoSuchJob, TooLate (it has ended), InvalidRequest."""
        return self.do(name, BY_NAME["priority"], priority)

    def move(self, name: str, pools: str | Iterable[str]) -> JobView:
        """Set the pools that the job accepts, in order of preference; a running attempt stays in
        its pool. Raises NoSuchJob, TooLate (it has ended), InvalidRequest, NeverFits."""
        return self.do(name, BY_NAME["move"], pools)

    def transfer(self, name: str, project: str) -> JobView:
        """Move the job to this project, with the project's pools if it names none. For jobs that
        hold no slots. Raises NoSuchJob, NotPermitted, ProjectNotAllowed; TooLate (it holds slots,
        or has ended); and what a submission to the project raises."""
        return self.do(name, BY_NAME["transfer"], project)


class VerbsOfJob:
    def do(self, verb: Verb, value: Value = None) -> Self:
        """Any verb of the table."""
        raise NotImplementedError

    def cancel(self) -> Self:
        """Cancel the job, whether it waits or runs; a running attempt is stopped first. Raises
        TooLate (it has ended in another way)."""
        return self.do(BY_NAME["cancel"])

    def hold(self) -> Self:
        """Keep the job from starting until it is released. Raises TooLate (it holds slots, or has
        ended)."""
        return self.do(BY_NAME["hold"])

    def release(self) -> Self:
        """Let the held job wait again, at its old entry time. Raises TooLate (it has ended)."""
        return self.do(BY_NAME["release"])

    def requeue(self) -> Self:
        """Stop the running attempt; the job waits again, at its old entry time and with its
        checkpoints. Raises TooLate (it is being cancelled, or has ended)."""
        return self.do(BY_NAME["requeue"])

    def set_priority(self, priority: int | str) -> Self:
        """Set the priority; the highest comes first. Raises TooLate (it has ended),
        InvalidRequest."""
        return self.do(BY_NAME["priority"], priority)

    def move(self, pools: str | Iterable[str]) -> Self:
        """Set the pools for the next start, in order of preference. Raises TooLate (it has ended),
        InvalidRequest, NeverFits."""
        return self.do(BY_NAME["move"], pools)

    def transfer(self, project: str) -> Self:
        """Move the job to this project. Raises ProjectNotAllowed, TooLate (it holds slots, or has
        ended), and what a submission to the project raises."""
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

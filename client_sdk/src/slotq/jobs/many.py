"""Verbs for many jobs at once: one request per hundred jobs, one outcome per job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slotq.errors import (
    NotAllowed,
    Refused,
    SlotQError,
    TooLate,
    TooManySubmissions,
    Unavailable,
    UnexpectedAnswer,
)
from slotq.jobs.job_calls import JobCalls
from slotq.jobs.submission import settings_tags
from slotq.transport.refusals import NOT_REACHED, of_one
from slotq_core import names
from slotq_core.model.jobs import ACTIVE_STATES
from slotq_core.wire.job_changes import MOST_AT_ONCE
from slotq_core.wire.views.jobs import JobView


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The result for one job: the changed job, or the error that left it unchanged."""

    name: str
    job: JobView | None = None
    error: SlotQError | None = None


Change = Mapping[str, Any]
Verb = Callable[[str], JobView]
Refusals = tuple[type[SlotQError], ...]
"""Errors that concern one job alone."""


class Many:
    """Jobs by name. Each verb returns one outcome per job, in the order of the names.

    A refusal for one job does not affect the others. Any other error raises if no job was changed
    yet; afterwards it becomes the error of each job that was not reached.
    """

    def __init__(
        self, jobs: JobCalls, names: Iterable[str], *, states: Iterable[str] | None = None
    ) -> None:
        """`states`: change only jobs that are still in one of these; others get TooLate."""
        self._jobs = jobs
        self.names = list(dict.fromkeys(names))
        self._states = None if states is None else sorted(states)

    def cancel(self) -> list[Outcome]:
        return self._change({"cancel": True}, self._jobs.cancel)

    def hold(self) -> list[Outcome]:
        return self._change({"held": True}, self._jobs.hold)

    def release(self) -> list[Outcome]:
        return self._change({"held": False}, self._jobs.release)

    def set_priority(self, priority: int | str) -> list[Outcome]:
        tags = settings_tags(priority=priority)
        return self._change({"tags": tags}, lambda name: self._jobs.set_priority(name, priority))

    def move(self, pools: str | Iterable[str]) -> list[Outcome]:
        wanted = pools if isinstance(pools, str) else [*pools]
        tags = settings_tags(pools=wanted)
        return self._change({"tags": tags}, lambda name: self._jobs.move(name, wanted))

    def transfer(self, project: str) -> list[Outcome]:
        tags = settings_tags(project=project)
        return self._change({"tags": tags}, lambda name: self._jobs.transfer(name, project))

    def requeue(self) -> list[Outcome]:
        """Give up the current attempt of each job.

        Each change carries the number of its attempt, so that repeating the request does not give
        up the next attempt too.
        """
        if len(self.names) == 1 and self._states is None:
            return self._singly(self.names, self._jobs.requeue)
        begun = {job.name: job.attempts_begun for job in self._jobs(sorted(ACTIVE_STATES))}
        changes = [{"name": name, "give_up": begun[name]} for name in self.names if name in begun]
        return self._together(changes, self._jobs.requeue)

    def retry(
        self,
        *,
        new_name: str | None = None,
        priority: int | str | None = None,
        project: str | None = None,
    ) -> list[Outcome]:
        """Retry the jobs, each under its next free name, or one job as `new_name`. Each outcome has
        the new job, under the old job's name. A job whose whole request the caller may not see gets
        NotAllowed. Waits as `submit` does where the caller has submitted as much as one may in a
        minute."""
        change: dict[str, Any] = {
            "retry": True,
            "tags": settings_tags(priority=priority, project=project),
        }
        if new_name is not None:
            change["new_name"] = new_name
        return self._change(
            change,
            lambda name: self._jobs.retry(name, new_name, priority=priority, project=project),
            refusals=(Refused, NotAllowed),
        )

    def _change(
        self, change: Mapping[str, Any], alone: Verb, *, refusals: Refusals = (Refused,)
    ) -> list[Outcome]:
        if len(self.names) == 1 and self._states is None:
            return self._singly(self.names, alone, refusals=refusals)
        legal = [name for name in self.names if names.is_legal(name)]
        changes = [{"name": name, **change} for name in legal]
        return self._together(changes, alone, refusals=refusals)

    def _together(
        self, changes: Sequence[Change], alone: Verb, *, refusals: Refusals = (Refused,)
    ) -> list[Outcome]:
        """Apply the changes by the hundred, then treat the remaining names one by one.

        All names are treated one by one if the caller may not change jobs in bulk, or the queue is
        of a release without bulk changes.
        """
        done: dict[str, Outcome] = {}
        only = {} if self._states is None else {"states": self._states}
        left = [{**change, **only} for change in changes]
        try:
            while left:
                answered = self._answered(left[:MOST_AT_ONCE])
                over = [it for it in answered if isinstance(it.error, TooManySubmissions)]
                done |= {it.name: it for it in answered if it not in over}
                done |= {it.name: it for it in self._next_minute(over, alone)}
                left = [change for change in left if change["name"] not in done]
        except (NotAllowed, UnexpectedAnswer):
            pass
        except SlotQError as error:
            if not done:
                raise
            done |= {name: Outcome(name=name, error=error) for name in self._not_in(done)}
        rest = self._singly(self._not_in(done), self._if_still(alone), refusals=refusals)
        done |= {it.name: it for it in rest}
        return [done[name] for name in self.names]

    def _next_minute(self, over: list[Outcome], alone: Verb) -> list[Outcome]:
        """Submit the first of the jobs beyond this minute's submissions alone, which waits for the
        next minute; the others are left for the next request. All are refused if it waits in vain.
        """
        first = self._singly([it.name for it in over[:1]], alone)
        in_vain = any(isinstance(it.error, TooManySubmissions) for it in first)
        return over if in_vain else first

    def _if_still(self, alone: Verb) -> Verb:
        """The verb for one job, which first checks that the job is still in a wanted state."""
        states = self._states
        if states is None:
            return alone

        def verb(name: str) -> JobView:
            job = self._jobs.view(name)
            if job.state not in states:
                wanted = " or ".join(states)
                raise TooLate(f"job {name} is now {job.state}, not {wanted}", field="states")
            return alone(name)

        return verb

    def _not_in(self, done: Mapping[str, Outcome]) -> list[str]:
        return [name for name in self.names if name not in done]

    def _answered(self, changes: Sequence[Change]) -> list[Outcome]:
        """The outcomes of the changes that the queue had time for. Raises Unavailable if none."""
        views = self._jobs.change(changes)
        reached = [it for it in views if it.error is None or it.error.code != NOT_REACHED]
        if not reached:
            raise Unavailable("the queue had no time for the changes; try again later")
        return [
            Outcome(name=it.name, job=it.job, error=of_one(it.error) if it.error else None)
            for it in reached
        ]

    def _singly(
        self,
        names: Sequence[str],
        verb: Verb,
        *,
        refusals: Refusals = (Refused,),
    ) -> list[Outcome]:
        done: list[Outcome] = []
        for name in names:
            try:
                done.append(Outcome(name=name, job=verb(name)))
            except refusals as error:
                done.append(Outcome(name=name, error=error))
            except SlotQError as error:
                if not done:
                    raise
                return done + [Outcome(name=left, error=error) for left in names[len(done) :]]
        return done

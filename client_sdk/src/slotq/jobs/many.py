"""Verbs for many jobs at once: one request per hundred jobs, one outcome per job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from slotq.jobs.verbs import Outcome, Value, VerbsOfMany, change_of
from slotq.transport.answers import NOT_REACHED, error_of_one
from slotq_core import names
from slotq_core.wire.job_changes import MOST_AT_ONCE
from slotq_core.wire.verbs import Verb
from slotq_core.wire.views.jobs import JobView

Change = Mapping[str, Any]
Alone = Callable[[str], JobView]
Refusals = tuple[type[SlotQError], ...]
"""Errors that concern one job alone."""


class Many(VerbsOfMany):
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

    def do(self, verb: Verb, value: Value = None) -> list[Outcome]:
        if not isinstance(value, str | int | None):
            value = [*value]  # It is read for each request.

        def alone(name: str) -> JobView:
            return self._jobs.do(name, verb, value)

        if not verb.of_attempt:
            return self._change(change_of(verb, value), alone)
        if len(self.names) == 1 and self._states is None:
            return self._singly(self.names, alone)
        begun = {job.name: job.attempts_begun for job in self._jobs(sorted(verb.states))}
        changes = [
            {"name": name, **change_of(verb, value, attempt=begun[name])}
            for name in self.names
            if name in begun
        ]
        return self._together(changes, alone)

    def retry(
        self,
        *,
        new_name: str | None = None,
        priority: int | str | None = None,
        project: str | None = None,
    ) -> list[Outcome]:
        """Retry the jobs, each under its next free name, or one job as `new_name`. Each outcome has
        the new job, under the old job's name. A job gets NotAllowed if the caller may not see its
        whole request. Waits as `submit` does at the limit of submissions per minute."""
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
        self, change: Mapping[str, Any], alone: Alone, *, refusals: Refusals = (Refused,)
    ) -> list[Outcome]:
        if len(self.names) == 1 and self._states is None:
            return self._singly(self.names, alone, refusals=refusals)
        legal = [name for name in self.names if names.is_job(name)]
        changes = [{"name": name, **change} for name in legal]
        return self._together(changes, alone, refusals=refusals)

    def _together(
        self, changes: Sequence[Change], alone: Alone, *, refusals: Refusals = (Refused,)
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
                over = [
                    outcome for outcome in answered if isinstance(outcome.error, TooManySubmissions)
                ]
                done |= {outcome.name: outcome for outcome in answered if outcome not in over}
                done |= {outcome.name: outcome for outcome in self._next_minute(over, alone)}
                left = [change for change in left if change["name"] not in done]
        except (NotAllowed, UnexpectedAnswer):
            pass
        except SlotQError as error:
            if not done:
                raise
            done |= {name: Outcome(name=name, error=error) for name in self._not_in(done)}
        rest = self._singly(self._not_in(done), self._if_still(alone), refusals=refusals)
        done |= {outcome.name: outcome for outcome in rest}
        return [done[name] for name in self.names]

    def _next_minute(self, over: list[Outcome], alone: Alone) -> list[Outcome]:
        """Submit the first job beyond this minute's limit alone, which waits for the next minute;
        the others stay for the next request. All are refused if the wait fails.
        """
        first = self._singly([outcome.name for outcome in over[:1]], alone)
        in_vain = any(isinstance(outcome.error, TooManySubmissions) for outcome in first)
        return over if in_vain else first

    def _if_still(self, alone: Alone) -> Alone:
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
        reached = [view for view in views if view.error is None or view.error.code != NOT_REACHED]
        if not reached:
            raise Unavailable("the queue had no time for the changes; try again later")
        return [
            Outcome(
                name=view.name,
                job=view.job,
                error=error_of_one(view.error) if view.error else None,
            )
            for view in reached
        ]

    def _singly(
        self,
        names: Sequence[str],
        verb: Alone,
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

"""A job of the queue as an object: what it is, what can be done with it, how it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self

from slotq.configuration.bounds import SHORTEST_POLL, seconds
from slotq.errors import NotCompleted
from slotq.jobs import progress
from slotq.jobs.follow import ended, follow
from slotq.jobs.foreign_names import QUICK
from slotq.jobs.job_calls import JobCalls
from slotq.jobs.job_logs import failure_log
from slotq.jobs.notebook import live
from slotq.jobs.notebook.card import card
from slotq.jobs.notices import logged
from slotq.jobs.rendering import JOB, AttemptList, Bundle, Column, Listed
from slotq.jobs.verbs import Value, VerbsOfJob
from slotq.transport.connection import Connection
from slotq_core.model.jobs import JobState
from slotq_core.wire.verbs import Verb
from slotq_core.wire.views.jobs import AttemptView, JobView


def _of_view(column: Column) -> Column:
    name, value = column
    return name, lambda job: value(job.view)


class ObservedJob:
    """A job as it was last seen."""

    def __init__(self, view: JobView) -> None:
        self._view = view

    @property
    def view(self) -> JobView:
        """Everything that the queue shows of the job: moments are ISO 8601 in UTC, durations
        seconds."""
        return self._view

    @view.setter
    def view(self, view: JobView) -> None:
        self._view = view
        live.seen(view)

    def __repr__(self) -> str:
        return f"<job {self.name}: {self.state}>"

    def _repr_mimebundle_(self, **_: object) -> Bundle:
        return card(self.view)

    @property
    def name(self) -> str:
        return self.view.name

    @property
    def state(self) -> JobState:
        return JobState(self.view.state)

    @property
    def priority(self) -> int:
        return self.view.priority

    @property
    def place(self) -> int | None:
        """The place in the line; 1 is next. None while the job does not wait, and after a verb
        until `refresh`. A lower bound if not all jobs ahead were counted
        (`view.place_is_lower_bound`)."""
        return self.view.place

    @property
    def reason(self) -> str:
        """Why the job waits, in a sentence; empty while it does not wait, and after a verb until
        `refresh`."""
        return self.view.reason.text if self.view.reason else ""

    @property
    def ended(self) -> bool:
        return ended(self.view)


class QueuedJob(ObservedJob, VerbsOfJob):
    """A job as it was last seen; each method looks again, and returns the job itself.

    Every method may raise what QueueClient does, and NoSuchJob. A verb acts on the job's present
    state; if that state does not allow it, it raises TooLate with the state, and changes nothing.
    """

    def __init__(self, queue: Connection, view: JobView) -> None:
        super().__init__(view)
        self._queue = queue

    @property
    def _jobs(self) -> JobCalls:
        return JobCalls(self._queue)

    def _ipython_display_(self) -> None:
        """Show a card that follows the job. Anywhere but in a notebook's kernel, IPython goes on to
        the other forms."""
        if not live.show(self.view, self._jobs):
            raise NotImplementedError

    def refresh(self) -> Self:
        self.view = self._jobs.view(self.name)
        return self

    def history(self) -> list[AttemptView]:
        """The attempts, in order: where and when each ran, how it ended and for whom, where its
        model, checkpoints and logs are."""
        return AttemptList(self.refresh().view.attempts)

    def do(self, verb: Verb, value: Value = None) -> Self:
        self.view = self._jobs.do(self.name, verb, value)
        return self

    def clone(self, new_name: str, *, priority: int | str | None = None) -> QueuedJob:
        """Submit the same request once more, under another name. Raises what a submission does."""
        return QueuedJob(self._queue, self._jobs.clone(self.name, new_name, priority=priority))

    def retry(self, new_name: str | None = None, *, priority: int | str | None = None) -> QueuedJob:
        """Submit the request of a job that ended without completing once more, as another job:
        `new_name`, else `…-r2` or the next free name. Raises InvalidRequest (it has not ended, or
        has completed), and what a submission does."""
        return QueuedJob(self._queue, self._jobs.retry(self.name, new_name, priority=priority))

    def wait(
        self,
        timeout: float | None = None,
        *,
        poll: float = 5.0,
        say: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Self:
        """Wait until the job has ended, in whatever way. Shows its status; `say` receives the lines
        instead.

        `timeout` and `poll` in seconds. Raises TimeoutError, which leaves the job as it is, and
        InvalidRequest for an invalid number.
        """
        seconds("poll", poll, least=SHORTEST_POLL)
        if timeout is not None:
            seconds("timeout", timeout)
        shown = progress.here() if say is None else progress.Plain(logged(say))
        until = None if timeout is None else clock() + timeout

        def rest(pause: float) -> None:
            if until is not None and clock() >= until:
                raise TimeoutError(f"job {self.name} has not ended within {timeout:g} s")
            sleep(pause if until is None else min(pause, max(0.0, until - clock())))

        self.view = follow(
            lambda: self._jobs.view(self.name),
            say=shown.say,
            clock=clock,
            sleep=rest,
            poll=poll,
            on_view=shown.seen,
            waiting=shown.waiting,
            running=shown.running,
            log_of=lambda job: failure_log(self._logs, job),
        )
        return self

    def _logs(self) -> Any:
        """boto3's client for logs, in the queue's region."""
        aws = self._queue.transport.aws
        region = self._queue.config.signing_region() or aws.region_name
        return aws.client("logs", region_name=region, config=QUICK)

    def result(self, timeout: float | None = None, **how: Any) -> str:
        """Wait for the job, and return the S3 URI of its model; further arguments are those of
        `wait`.

        Raises TimeoutError, and NotCompleted if the job ended in another way.
        """
        self.wait(timeout, **how)
        if self.state is not JobState.COMPLETED:
            raise NotCompleted(
                f"job {self.name} is {self.state}: {self.view.message or 'no reason was given'}"
            )
        return self.history()[-1].artifact


class QueuedJobList(Listed[QueuedJob]):
    columns = tuple(_of_view(column) for column in JOB)

"""Waits for a job's start, then enters the job."""

from __future__ import annotations

from collections.abc import Callable

from slotq.errors import NoShell
from slotq.jobs.follow import follow, status_line
from slotq.remote_shell.ssm_session import NotYet, runs
from slotq_core.wire.views.jobs import JobView


class AtStart:
    """Enters a job as soon as it runs and its container answers."""

    def __init__(
        self,
        enter: Callable[[JobView], int],
        *,
        say: Callable[[str], None],
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        poll: float = 5.0,
    ) -> None:
        """`enter` returns an exit code, and raises NotYet while the container starts. `poll` in
        seconds."""
        self._enter, self._say = enter, say
        self._clock, self._sleep, self._poll = clock, sleep, poll
        self._code: int | None = None
        self._attempt, self._since = 0, 0.0
        """The attempt that is being entered, and since when."""

    def follow(self, fetch: Callable[[], JobView]) -> int:
        """Report the job's status until it can be entered; returns the result of `enter`.

        Raises NoShell if the job ends first, and what `fetch` and `enter` raise.
        """
        job = follow(
            fetch,
            say=self._say,
            clock=self._clock,
            sleep=self._sleep,
            poll=self._poll,
            until=self._entered,
        )
        if self._code is None:
            raise NoShell(f"job {job.name} ended before a shell could open: {status_line(job)}")
        return self._code

    def _entered(self, job: JobView) -> bool:
        if not runs(job):
            return False
        first = job.attempts_begun != self._attempt
        if first:
            self._attempt, self._since = job.attempts_begun, self._clock()
        try:
            self._code = self._enter(job)
        except NotYet as error:
            if self._clock() - self._since >= error.patience:
                raise
            if first:
                self._say(f"{job.name}: its container starts")
        return self._code is not None

"""Follow one job: report each change, and wait until the job has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from slotq.errors import CannotReach, Unavailable
from slotq.jobs.notices import Output, Trouble, Warned, one_line
from slotq.jobs.progress_bar import in_words
from slotq_core.model.attempts import AttemptOutcome
from slotq_core.model.jobs import TERMINAL_STATES, JobState

if TYPE_CHECKING:
    from slotq_core.wire.views.jobs import AttemptView, JobView, ProgressView

if TYPE_CHECKING:
    from slotq.jobs.rendering import JobList

HEARTBEAT = 60.0
"""Seconds after which a waiting job is reported again, even without a change."""
RUNNING_HEARTBEAT = 600.0
"""The same for a running job, whose logs show its progress."""
PROGRESS_HEARTBEAT = 300.0
"""The same for a running job whose progress has changed. A log gets few such lines."""
PATIENCE = 900.0
"""Seconds to keep asking a queue that does not answer. The job goes on meanwhile."""

SLOWER, SLOWEST = 1.5, 15.0
"""By how much each unchanged answer lengthens the pause, and up to how many seconds."""
MANY = 50
"""An answer that took more jobs than this costs the queue much."""
AFTER_MANY, JOBS_A_SECOND, LONGEST = 10.0, 25, 60.0
"""Seconds to wait after such an answer, how many jobs add another one, and the most: about 250 read
units a minute. The page of `slotq ui` does the same (live.ts)."""
EXAMINED = 4
"""How many jobs that are only looked at cost the queue as much as one that is shown."""
MOST_AHEAD = 400
"""How many jobs ahead of one the queue counts, about."""

S = JobState

_TIME_BOX = AttemptOutcome.MAX_RUNTIME.value

_EVICTED = {
    "evicted": "evicted for",
    "yielded": "set aside for",
    "closed": "suspended because of the times of pool",
    "requeued": "given up by",
}
"""Wording for the end of an attempt whose job waits again, by the cause of the stop."""


def pause_after(jobs: int, every: float, unchanged: int = 0) -> float:
    """Seconds until the next question, at least `every`. `jobs`: how many the queue read for the
    answer; `unchanged`: how many answers in a row brought nothing new."""
    long = min(LONGEST, AFTER_MANY + jobs / JOBS_A_SECOND) if jobs > MANY else 0.0
    least = max(every, long)
    return max(least, min(SLOWEST, least * SLOWER**unchanged))


class Pace:
    """How often to ask for a list: more seldom while it does not change, and where it is long."""

    def __init__(self, every: float) -> None:
        """`every`: the shortest pause (s)."""
        self._every, self._unchanged = every, 0
        self._last: object = None

    def after(self, jobs: JobList, beside: object = None) -> float:
        """Seconds until the next question. `beside`: what is asked for together with the jobs."""
        answer = jobs, beside
        self._unchanged = self._unchanged + 1 if answer == self._last else 0
        self._last = answer
        read = max(len(jobs), jobs.examined // EXAMINED)
        return pause_after(read, self._every, self._unchanged)


def follow(
    fetch: Callable[[], JobView],
    *,
    say: Callable[[str], None],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    poll: float = 5.0,
    on_view: Callable[[JobView], None] = lambda _: None,
    waiting: Callable[[JobView], bool] = lambda _: False,
    running: Callable[[JobView], bool] = lambda _: False,
    until: Callable[[JobView], bool] = lambda _: False,
    warned: Warned | None = None,
    log_of: Callable[[JobView], Iterable[str]] = lambda _: (),
) -> JobView:
    """Ask for the job every `poll` seconds until it has ended, or `until` holds; returns the job.
    One that waits behind many is asked for more seldom.

    Says one line for each change, and a heartbeat in between. `on_view` receives every answer. A
    waiting job goes to `waiting` first; if that returns True, no line is said, except for a new
    eviction. A running job that reports progress likewise goes to `running`, except at its start.
    `warned` reports the job's warnings; `log_of` returns the last lines of a failed job's log.
    Raises what `fetch` raises; CannotReach and Unavailable only after PATIENCE.
    """
    before: JobView | None = None
    reported: ProgressView | None = None
    said_at = clock()
    warned = warned or Warned(say)
    while True:
        job = patiently(fetch, say=say, clock=clock, sleep=sleep, poll=poll)
        on_view(job)
        line = news(before, job)
        if _waits(job) and not _newly_evicted(before, job) and waiting(job):
            line = None
        elif line is None and not (_reports(job) and running(job)):
            line, reported = _heartbeat(job, reported, clock() - said_at)
        if line is not None:
            line = f"{job.name}: {line}"
            say(Trouble(line) if job.state == S.FAILED and not ended_by_time_box(job) else line)
            said_at = clock()
        warned.report(job)
        if ended(job) or until(job):
            for entry in log_of(job):
                say(Output(entry))
            return job
        before = job
        sleep(pause_after(min(job.place or 0, MOST_AHEAD), poll))


def _waits(job: JobView) -> bool:
    return job.state in {S.PENDING, S.PREEMPTED, S.BACKOFF, S.HELD}


def _reports(job: JobView) -> bool:
    return job.state == S.RUNNING and job.progress is not None


def _newly_evicted(before: JobView | None, now: JobView) -> bool:
    return before is not None and now.evictions > before.evictions


def ended(job: JobView) -> bool:
    return job.state in TERMINAL_STATES


def ended_by_time_box(job: JobView) -> bool:
    """Whether SageMaker ended the job at its maximum runtime, or at its maximum wait for spot
    instances. The queue counts it as failed; SageMaker says Stopped, and keeps the model."""
    return job.state == JobState.FAILED and job.cause == _TIME_BOX


def news(before: JobView | None, now: JobView) -> str | None:
    """The change since `before` (None: report everything) in words; None without a change."""
    if before is not None and status_line(before) == status_line(now):
        return None
    return news_since(now.evictions if before is None else before.evictions, now)


def news_since(evictions: int, now: JobView) -> str:
    """The job's status line, with its last eviction if it has had more than `evictions`."""
    if now.evictions > evictions and now.state != S.STOPPING:
        return f"was {ending(_last_evicted(now))}; now {status_line(now)}"
    return status_line(now)


def status_line(job: JobView) -> str:
    """The job's state, place and reason in one line for people, without its name."""
    return one_line(_status_line(job))


def _status_line(job: JobView) -> str:
    match job.state:
        case S.PENDING | S.PREEMPTED:
            return f"waiting, {_place(job)}{_why(job)}"
        case S.HELD:
            return f"held since {since(job)}: it does not start until it is released"
        case S.BACKOFF:
            return f"backing off before its next attempt{_bracketed(_earliest(job))}{_why(job)}"
        case S.STARTING:
            return f"starting in pool {job.pool} (attempt {job.attempts_begun})"
        case S.RUNNING:
            return f"running in pool {job.pool} (attempt {job.attempts_begun}: {job.training_job})"
        case S.STOPPING:
            return _stopping(job)
        case _:
            return _end(job)


def _stopping(job: JobView) -> str:
    last = job.attempts[-1] if job.attempts else None
    if last is None or last.stop_cause not in _EVICTED:
        return f"stopping: {job.message}" if job.message else "stopping"
    then = "starts again"
    if last.running_since is not None:
        lacks = "from its beginning: it has no CheckpointConfig"
        then += f" {'from its last checkpoint, if it has saved one' if last.checkpoints else lacks}"
    return f"{ending(last)}: it is stopping, keeps its place, and {then}"


def _end(job: JobView) -> str:
    runs = f"{job.attempts_begun} attempt{'' if job.attempts_begun == 1 else 's'}"
    line = f"{job.state} after {runs}" if job.attempts_begun else job.state
    if job.evictions:
        line += f", evicted {job.evictions} time{'' if job.evictions == 1 else 's'}"
    return f"{line}: {job.message}" if job.message else line


def since(job: JobView) -> str:
    """When the job entered its state, to the minute."""
    return f"{job.changed_at[:16].replace('T', ' ')} UTC"


def earliest(job: JobView) -> str:
    """The earliest known time at which the job's outlook may change by itself, to the minute.

    Omits the date if it is the day on which the job entered its state. Empty if no time is known:
    the job then depends on what others do.
    """
    moment = job.outlook.earliest if job.outlook else None
    if moment is None:
        return ""
    day, time = moment[:10], moment[11:16]
    return f"{time} UTC" if day == job.changed_at[:10] else f"{day} {time} UTC"


def left(name: str, or_else: str) -> str:
    """The message to a user who stops watching a job. `or_else`: how to cancel in Python."""
    return (
        f"{name}: no longer watched, but still in the queue. To cancel it: `slotq cancel {name}` "
        f"or {or_else}; to watch it again: `slotq watch {name}`"
    )


def _earliest(job: JobView) -> str:
    moment = earliest(job)
    return f"earliest change {moment}" if moment else ""


def _bracketed(text: str) -> str:
    return f" ({text})" if text else ""


def _place(job: JobView) -> str:
    if job.place is None:
        return f"in the line since {since(job)}{_bracketed(_earliest(job))}"
    times = f"since {since(job)}", _earliest(job)
    if job.place_is_lower_bound:
        return f"{_more_ahead(job.place)} in the line{_bracketed(', '.join(filter(None, times)))}"
    facts = (f"{job.place - 1} ahead", *times)
    return f"place {job.place} in the line{_bracketed(', '.join(filter(None, facts)))}"


def _more_ahead(place: int) -> str:
    """The number of jobs ahead, at least, if not all were counted."""
    return f"more than {place - 2:,} ahead" if place > 2 else "others ahead"


def place_text(job: JobView) -> str:
    """The job's place for a table: `5`; `>1001` for a later place; empty without a place."""
    if job.place is None:
        return ""
    return f">{job.place - 1}" if job.place_is_lower_bound else str(job.place)


def _why(job: JobView) -> str:
    return f": {job.reason.text}" if job.reason else ""


def ending(attempt: AttemptView | None) -> str:
    """How the attempt of a job that waits again was stopped, and for or by whom."""
    if attempt is None or not attempt.stopped_for:
        return "evicted"
    return f"{_EVICTED.get(attempt.stop_cause or '', 'evicted for')} {attempt.stopped_for}"


def _last_evicted(job: JobView) -> AttemptView | None:
    return next((a for a in reversed(job.attempts) if a.outcome == "evicted"), None)


def _heartbeat(
    job: JobView, reported: ProgressView | None, ago: float
) -> tuple[str | None, ProgressView | None]:
    """The line for a job whose state is unchanged (None: not yet), and the progress reported so
    far. `reported`: the progress last reported; `ago`: seconds since the last line."""
    now = job.progress if _reports(job) else None
    if now and (reported is None or (ago >= PROGRESS_HEARTBEAT and _further(reported, now))):
        return in_words(now), now
    pause = RUNNING_HEARTBEAT if job.state == S.RUNNING else HEARTBEAT
    return (status_line(job) if ago >= pause else None), now and reported


def _further(before: ProgressView, now: ProgressView) -> bool:
    return (before.step, before.saved) != (now.step, now.saved)


def patiently(
    fetch: Callable[[], JobView],
    *,
    say: Callable[[str], object],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    poll: float,
) -> JobView:
    """Fetch the job, and retry for at most PATIENCE seconds while the queue does not answer."""
    since: float | None = None
    while True:
        try:
            return fetch()
        except (CannotReach, Unavailable) as error:
            if since is None:
                since = clock()
                said = f"the queue does not answer; asking again (the job goes on): {error}"
                say(Trouble(said))
            if clock() - since >= PATIENCE:
                raise
            sleep(poll)

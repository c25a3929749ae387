"""Count submissions and moves against the limits before they are stored, and audit the counters.

`admission.caller_limits` decides; the store counts. A submission costs one conditional update, two
if its project has limits, and no extra read. A refusal may cost more: the queue counts the waiting
jobs again first, so that no caller is refused for jobs that have left the queue.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from slotq_core.admission import caller_limits
from slotq_core.errors import (
    Conflict,
    LimitReached,
    NameTaken,
    QueueFull,
    Refused,
)
from slotq_core.model.callers import (
    NO_LIMIT,
    NOTHING_USED,
    CallerLimits,
    CallerUse,
    QueueUse,
)
from slotq_core.model.jobs import QUEUED_STATES, Job
from slotq_core.model.projects import Project
from slotq_core.policy.lines import line_of
from slotq_core.ports.counters import Counter
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, Configuration, NoSuchLine, StoredAlready
from slotq_core.ports.surroundings import Clock

RECOUNT = "recount"
"""Name of the task that counts the waiting jobs again after a refusal."""
RECOUNT_EVERY = 10_000
"""Minimum time (ms) between two recounts. Without this bound, a caller who is refused again and
again would make the queue read all waiting jobs each time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LineRights:
    """What a submission may do about lines."""

    opens_line: bool = True
    opener: str = ""
    """The counted name of the caller who opens a new line; empty: new lines are not counted."""


ANY_LINE = LineRights()


class Admitter:
    """The counters of submissions, over the ports."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    @contextmanager
    def counted(self, jobs: Sequence[Job], configuration: Configuration) -> Iterator[LineRights]:
        """Count new jobs of one caller and one project while the caller stores them together; yield
        what they may do about lines. A refusal or a conflict inside the block takes the count back;
        NoSuchLine becomes a refusal.

        A name that another job has is a refusal that the caller could have known: it stays counted
        in its minute, or guessing names would have no limit. Repeating a submission is free.
        Raises PriorityTooHigh and LimitReached.
        """
        for job in jobs:
            _check_rights(job, configuration)
        if not _counts(configuration):
            yield ANY_LINE
            return
        taken: list[_Taken] = []
        use, number = CallerUse(), len(jobs)
        caller, lines = jobs[0].submitter, len({*map(line_of, jobs)})
        try:
            self._take(lambda now: self._try(jobs, now, taken), configuration)
            use = next((counter.use for counter in taken if counter.of_caller), use)
            yield self._line_rights(caller, configuration, use, lines)
        except (Refused, Conflict) as error:
            guessed = isinstance(error, NameTaken) and not isinstance(error, StoredAlready)
            for counter in taken:
                minute = None if guessed and counter.of_caller else counter.minute
                self._store.counters.give_back(counter.name, minute=minute, number=number)
            if isinstance(error, NoSuchLine):
                raise self._line_refusal(caller, configuration, use) from None
            raise

    def _line_rights(
        self, caller: str, configuration: Configuration, use: CallerUse, lines: int = 1
    ) -> LineRights:
        """What new jobs for so many lines may do about them."""
        limits = configuration.limits
        if not limits.lines:
            return ANY_LINE
        opens = caller_limits.opens_lines(limits, configuration.use)
        if not (opens and use.lines + lines <= caller_limits.lines_of_one(limits)):
            return LineRights(opens_line=False)
        return LineRights(opener=caller_limits.counted_as(limits, caller, configuration.people))

    def _line_refusal(self, by: str, configuration: Configuration, use: CallerUse) -> LimitReached:
        if not caller_limits.opens_lines(configuration.limits, configuration.use):
            return caller_limits.lines_refusal(configuration.limits)
        own = caller_limits.of_caller(configuration.limits, by)
        name = caller_limits.counted_as(configuration.limits, by, configuration.people)
        return caller_limits.line_refusal(
            configuration.limits, own, use, caller=name, now=self._clock.now()
        )

    def entering(self, change: Change, *, by: str) -> Sequence[Job]:
        """Commit a user's change of a stored job, which may put the job into a line.

        A line that does not exist yet is counted first, for the caller and as a submission: no way
        around a submission gets around its limits. It costs two or three calls more, an existing
        line none. Raises TooManyLines, TooManySubmissions and Conflict.
        """
        try:
            return self._store.decisions.commit([change], opens_line=False)
        except NoSuchLine:
            opener = self._opened(by, self._store.configuration.read())
        return self._store.decisions.commit([change], opener=opener)

    def _opened(self, by: str, configuration: Configuration) -> str:
        """Count a line that the caller opens by a change. Return the name that the caller is
        counted under."""
        name, minute = (
            caller_limits.counted_as(configuration.limits, by, configuration.people),
            self._minute(),
        )
        counters, own = self._store.counters, caller_limits.of_caller(configuration.limits, by)
        if not (configuration.limits.lines or own.submissions):
            return ""
        if not caller_limits.opens_lines(
            configuration.limits, configuration.use
        ) or not counters.open_line(
            name,
            minute=minute,
            lines=caller_limits.lines_of_one(configuration.limits),
            submissions=own.submissions,
        ):
            raise self._line_refusal(by, configuration, counters.use(name, minute=minute))
        return name

    def check_room(self, caller: str) -> None:
        """Raises LimitReached if the caller could submit no job now. Counts nothing; costs one read
        besides that of the configuration."""
        look = self._looking(1)
        self._take(lambda now: self._of_caller(caller, now, look), self._store.configuration.read())

    def check(self, jobs: Sequence[Job], configuration: Configuration) -> None:
        """Raises what `counted` would raise if one caller submitted these jobs of one project now.
        Counts nothing; costs a read for each counter that bounds them, and where the queue's lines
        are bounded, for each line."""
        for job in jobs:
            _check_rights(job, configuration)
        if not jobs or not _counts(configuration):
            return
        caller, project = jobs[0].submitter, jobs[0].project
        look = self._looking(len(jobs))
        self._take(
            lambda now: (
                self._of_caller(caller, now, look)
                or self._of_project(now.sharing.project(project), look)
            ),
            configuration,
        )
        use = self.use(caller, configuration) if configuration.limits.lines else CallerUse()
        if not self._line_rights(caller, configuration, use).opens_line and not all(
            self._store.counters.has_line_of(job) for job in jobs
        ):
            raise self._line_refusal(caller, configuration, use)

    @contextmanager
    def moving(self, change: Change) -> Iterator[None]:
        """Count a queued job that changes its project while the caller commits the change. In the
        new project the move counts as a submission: the way through another project shall not get
        around a limit. A refusal or a conflict inside the block takes the count back. Raises
        LimitReached."""
        origin, job = change.before.project, change.after
        if job.project == origin or job.state not in QUEUED_STATES:
            yield
            return
        configuration, taken = self._store.configuration.read(), list[_Taken]()
        count = self._counting(taken, 1)
        self._take(
            lambda now: self._of_project(now.sharing.project(job.project), count), configuration
        )
        try:
            yield
        except (Refused, Conflict):
            for counter in taken:
                self._store.counters.give_back(counter.name, minute=counter.minute)
            raise
        if _is_counted(configuration.sharing.project(origin)):
            name = caller_limits.project_counter(origin)
            self._store.counters.give_back(name, minute=None)

    def have_moved(self, jobs: Iterable[Job], to: str) -> None:
        """Count jobs that an operator has moved to a project, whatever its limits, and not as
        submissions."""
        if _is_counted(self._store.configuration.read().sharing.project(to)):
            name = caller_limits.project_counter(to)
            for job in jobs:
                if job.state in QUEUED_STATES:
                    self._store.counters.take(name, minute=None, limits=NO_LIMIT)

    def use(self, caller: str, configuration: Configuration) -> CallerUse:
        """Return what is counted for this caller."""
        name = caller_limits.counted_as(configuration.limits, caller, configuration.people)
        return self._store.counters.use(name, minute=self._minute())

    def audit(self, configuration: Configuration | None = None) -> None:
        """Count the waiting jobs and correct the counters. Reads all waiting jobs, unless no
        counter is stored and the last recorded use was zero. `configuration`: read just before;
        None: read it."""
        configuration, counters = (
            configuration or self._store.configuration.read(),
            self._store.counters,
        )
        if not _counts(configuration):
            return
        kept = counters.all()  # Read first: later submissions stay counted.
        if not kept and configuration.use == NOTHING_USED:
            return
        census = counters.census()
        waiting = Tally[str]()
        for submitter, number in census.waiting.items():
            waiting[
                caller_limits.counted_as(configuration.limits, submitter, configuration.people)
            ] += number
        together = waiting.total()
        for project, number in census.projects.items():
            if _is_counted(configuration.sharing.project(project)):
                waiting[caller_limits.project_counter(project)] += number
        minute = self._minute()
        known = {*kept, *waiting}
        lines = caller_limits.payers(
            configuration.limits, configuration.people, census.open_lines, known
        )
        for caller in sorted({*known, *lines}):
            seen = kept.get(caller, Counter())
            counters.correct(
                caller, seen, waiting=waiting[caller], minute=minute, lines=lines[caller]
            )
        use = QueueUse(waiting=together, lines=census.lines)
        if use != configuration.use:
            counters.set_queue_use(use)

    def _take(
        self, count: Callable[[Configuration], LimitReached | None], configuration: Configuration
    ) -> None:
        """Count by `count`, which returns the limit that is reached, if any; once more after a
        recount. Raises LimitReached."""
        refused = count(configuration)
        if refused is not None and self._may_recount(refused):
            self.audit()
            refused = count(self._store.configuration.read())
        if refused is not None:
            raise refused

    def _try(
        self, jobs: Sequence[Job], configuration: Configuration, taken: list[_Taken]
    ) -> LimitReached | None:
        """Count submissions of the caller and the project; note in `taken` what is counted."""
        count, job = self._counting(taken, len(jobs)), jobs[0]
        by_caller = configuration.limits.count_anything and not any(
            counter.of_caller for counter in taken
        )
        if by_caller and (refused := self._of_caller(job.submitter, configuration, count)):
            return refused
        return self._of_project(configuration.sharing.project(job.project), count)

    def _of_caller(
        self, caller: str, configuration: Configuration, ask: _Ask
    ) -> LimitReached | None:
        """The limit of the queue or the caller that leaves no room, if any."""
        try:
            caller_limits.check_queue(configuration.limits, configuration.use)
        except QueueFull as full:
            return full
        own = caller_limits.of_caller(configuration.limits, caller)
        name = caller_limits.counted_as(configuration.limits, caller, configuration.people)
        use = ask(_Taken(name=name, minute=self._minute(), of_caller=True), own)
        if use is None:
            return None
        return caller_limits.caller_refusal(own, use, caller=name, now=self._clock.now())

    def _of_project(self, project: Project | None, ask: _Ask) -> LimitReached | None:
        """The limit of the project that leaves no room, if any."""
        if project is None or not _is_counted(project):
            return None
        own = caller_limits.of_project(project)
        name = caller_limits.project_counter(project.name)
        use = ask(_Taken(name=name, minute=self._minute()), own)
        if use is None:
            return None
        return caller_limits.project_refusal(own, use, project=project.name, now=self._clock.now())

    def _looking(self, jobs: int) -> _Ask:
        """Asks without counting whether so many new jobs have room."""

        def look(counter: _Taken, own: CallerLimits) -> CallerUse | None:
            """The use when one of them is refused; None: all have room, as far as waiting jobs go.
            A limit of a minute refuses only what it would refuse now."""
            if not (own.waiting or own.submissions):
                return None
            use = self._store.counters.use(counter.name, minute=counter.minute)
            if own.waiting:
                most = max(use.waiting, own.waiting)
                use = replace(use, waiting=min(use.waiting + jobs - 1, most))
            return use if caller_limits.is_reached(own, use) else None

        return look

    def _counting(self, taken: list[_Taken], number: int) -> _Ask:
        """Counts so many submissions, unless a limit leaves too little room; notes in `taken` what
        is counted."""

        def count(counter: _Taken, own: CallerLimits) -> CallerUse | None:
            counters = self._store.counters
            found = counters.count(counter.name, minute=counter.minute, limits=own, number=number)
            if found is not None:
                taken.append(replace(counter, use=found))
                return None
            return counters.use(counter.name, minute=counter.minute)

        return count

    def _may_recount(self, refused: LimitReached) -> bool:
        """Return whether a recount is due and can help. A recount does not change the number of
        submissions in this minute."""
        if not caller_limits.counts_waiting_jobs(refused):
            return False
        now = self._clock.now()
        return self._store.scheduler.take_turn(RECOUNT, now=now, next_at=now + RECOUNT_EVERY)

    def _minute(self) -> int:
        return caller_limits.minute_of(self._clock.now())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Taken:
    """A counter that has counted the submission."""

    name: str
    minute: int
    of_caller: bool = False
    use: CallerUse = field(default_factory=CallerUse)
    """With the submission."""


_Ask = Callable[[_Taken, CallerLimits], CallerUse | None]
"""Returns the use of a counter whose limit is reached; None: there is room."""


def _check_rights(job: Job, configuration: Configuration) -> None:
    """Raises PriorityTooHigh."""
    caller_limits.check_priority(configuration.limits, job.priority, caller=job.submitter)
    caller_limits.check_class(configuration.limits, job, caller=job.submitter)


def _counts(configuration: Configuration) -> bool:
    """Whether any limit needs counting."""
    return configuration.limits.count_anything or any(
        map(_is_counted, configuration.sharing.projects)
    )


def _is_counted(project: Project | None) -> bool:
    limits = caller_limits.of_project(project)
    return bool(limits.waiting or limits.submissions)

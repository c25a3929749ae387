"""Checks of a submission against the limits: the limits that apply, the refusal, and when to retry.

Pure: the store counts (`ports.counters.Counters`), and `operations.admit` combines both.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from dataclasses import replace

from slotq_core.errors import (
    LimitReached,
    PriorityTooHigh,
    QueueFull,
    TooManyLines,
    TooManySubmissions,
    TooManyWaiting,
)
from slotq_core.model.callers import (
    CallerLimits,
    CallerRule,
    CallerUse,
    Limits,
    OpenLine,
    QueueUse,
    fits,
    opener_mark,
)
from slotq_core.model.jobs import Job, Workload
from slotq_core.model.projects import NO_PRESCRIPTION, Project
from slotq_core.model.reasons import units
from slotq_core.privacy.identity import People

MINUTE = 60_000
RETRY_WAITING = 60
"""Seconds. The queue recounts waiting jobs and lines at each tick."""
LEAST_LINES = 10
"""The smallest bound of one caller's lines, if a tenth of `lines` would be less."""
_USE_KNOWN = "give the job the pools, instances and settings of jobs that already wait"


def of_caller(limits: Limits, caller: str) -> CallerLimits:
    """The limits of this caller."""
    rule = _rule(limits, caller)
    if rule is None:
        return limits.default

    def own(mine: int | None, everyones: int) -> int:
        return everyones if mine is None else mine

    return CallerLimits(
        waiting=own(rule.waiting, limits.default.waiting),
        submissions=own(rule.submissions, limits.default.submissions),
        priority=own(rule.priority, limits.default.priority),
    )


def counted_as(limits: Limits, caller: str, people: People) -> str:
    """The name that the caller is counted under: the rule's pattern if a rule counts its callers
    together, else the person, who may open many sessions."""
    rule = _rule(limits, caller)
    return rule.callers if rule and rule.together else people.person(caller)


def of_project(project: Project | None) -> CallerLimits:
    """The limits of a project's jobs together."""
    rules = NO_PRESCRIPTION if project is None else project.requests
    return CallerLimits(waiting=rules.waiting, submissions=rules.submissions)


def project_counter(project: str) -> str:
    """The name that a project's jobs are counted under. No caller's ARN looks like it, nor does a
    pattern that matches one."""
    return f"project/{project}"


def check_priority(
    limits: Limits, priority: int, *, caller: str, before: int | None = None
) -> None:
    """Check the priority against the caller's limit.

    Raises PriorityTooHigh, unless the priority is at most `before`: a job may keep or lower its
    priority.
    """
    largest = of_caller(limits, caller).priority
    if not largest or priority <= largest or (before is not None and priority <= before):
        return
    raise PriorityTooHigh(
        f"priority {priority:,} is above {largest:,}, the largest that {caller} may give; use "
        f"{largest:,} or less, or ask an operator",
        field="Tags",
    )


def check_class(limits: Limits, job: Job, *, caller: str) -> None:
    """Check the class of a job without a project. Interactive and inference jobs go before every
    priority and are never evicted, and no quota bounds them: the tag would circumvent the limit on
    priorities.

    Raises PriorityTooHigh if the caller's priority is limited.
    """
    largest = of_caller(limits, caller).priority
    if largest and not job.project and job.workload is not Workload.TRAINING:
        raise PriorityTooHigh(
            f"{job.workload} jobs go before every priority, and {caller} may give {largest:,} at "
            "most: submit it as training, or ask an operator for a project with a quota or for "
            "a rule without a largest priority (slotq limits rule … --priority 0)",
            field="Tags",
        )


def minute_of(now: int) -> int:
    """The minute (since the epoch) in which a submission at `now` counts."""
    return now // MINUTE


def check_queue(limits: Limits, use: QueueUse) -> None:
    """Raises QueueFull if too many jobs of all callers wait."""
    most = limits.waiting_in_all
    if most and use.waiting >= most:
        raise QueueFull(
            f"the queue is full: {units(use.waiting, 'jobs')} of all callers wait, and the "
            f"limit is {most:,} (waiting_in_all); submit again in a minute, when some have "
            "started",
            retry_after=RETRY_WAITING,
        )


def lines_of_one(limits: Limits) -> int:
    """The most lines that one caller may have opened; 0: no limit. Empty ones count too, until they
    are removed."""
    return max(limits.lines // 10, min(limits.lines, LEAST_LINES))


def opens_lines(limits: Limits, use: QueueUse) -> bool:
    """Whether the queue may have another line. Empty lines count only for the callers who opened
    them."""
    return not limits.lines or use.lines < limits.lines


def lines_refusal(limits: Limits) -> TooManyLines:
    """The refusal for a line that the queue may not have."""
    return TooManyLines(
        f"this would open another line, and the limit is {limits.lines:,} (lines); {_USE_KNOWN}, "
        "or try again in a minute, when some have emptied",
        retry_after=RETRY_WAITING,
    )


def line_refusal(
    limits: Limits, own: CallerLimits, use: CallerUse, *, caller: str, now: int
) -> LimitReached:
    """The refusal for a line that the caller's counter did not take."""
    most = lines_of_one(limits)
    if not most or use.lines < most:
        return _refusal(replace(own, waiting=0), use, who=caller, one="one caller", now=now)
    return TooManyLines(
        f"this would open another line, {caller} has opened {units(use.lines, 'lines')}, and the "
        f"limit for one caller is {most:,}, a tenth of {limits.lines:,} (lines) or {LEAST_LINES}; "
        f"{_USE_KNOWN}, or try again later: an empty line counts for an hour",
        retry_after=RETRY_WAITING,
    )


def payers(
    limits: Limits, people: People, lines: Iterable[OpenLine], known: Iterable[str]
) -> Tally[str]:
    """How many lines each caller pays for, by the name that the caller is counted under.

    The opener pays for a line while it is empty or one of the opener's jobs waits in it. If only
    others use the line, the first of them pays. `known`: the names of all counters. No caller pays
    for an empty line without a known opener.
    """
    openers = {opener_mark(name): name for name in known}
    paid = Tally[str]()
    for line in lines:
        inside = [counted_as(limits, submitter, people) for submitter in line.submitters]
        opener = openers.get(line.opener)
        if opener is not None and (not inside or opener in inside):
            paid[opener] += 1
        elif inside:
            paid[inside[0]] += 1
    return paid


def is_reached(limits: CallerLimits, use: CallerUse) -> bool:
    """Whether this use leaves no room for another submission."""
    return bool(
        (limits.waiting and use.waiting >= limits.waiting)
        or (limits.submissions and use.submissions >= limits.submissions)
    )


def project_refusal(
    limits: CallerLimits, use: CallerUse, *, project: str, now: int
) -> LimitReached:
    """The refusal for a submission that the project's counter did not take."""
    return _refusal(limits, use, who=f"project '{project}'", one="this project", now=now)


def caller_refusal(limits: CallerLimits, use: CallerUse, *, caller: str, now: int) -> LimitReached:
    """The refusal for a submission that the caller's counter did not take."""
    return _refusal(limits, use, who=caller, one="one caller", now=now)


def _refusal(limits: CallerLimits, use: CallerUse, *, who: str, one: str, now: int) -> LimitReached:
    if limits.waiting and use.waiting >= limits.waiting:
        return TooManyWaiting(
            f"{who} has {units(use.waiting, 'jobs')} waiting, and the limit for {one} "
            f"is {limits.waiting:,} (waiting); cancel some, or submit again when some have "
            "started: the queue recounts every minute",
            retry_after=RETRY_WAITING,
        )
    left = -(-(MINUTE - now % MINUTE) // 1000)
    again = units(left, "seconds")
    return TooManySubmissions(
        f"{who} has submitted {units(use.submissions, 'jobs')} in this minute, and the "
        f"limit is {limits.submissions:,} (submissions); submit again in {again}",
        retry_after=left,
    )


def counts_waiting_jobs(refused: LimitReached) -> bool:
    """Whether the refusal depends on the number of waiting jobs. That count may be too high until
    the next audit."""
    return isinstance(refused, TooManyWaiting | QueueFull)


def _rule(limits: Limits, caller: str) -> CallerRule | None:
    return next((rule for rule in limits.rules if fits(rule.callers, caller)), None)

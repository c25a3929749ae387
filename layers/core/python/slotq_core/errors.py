"""The one error tree. Every error that SlotQ raises on purpose is a `SlotQError`.

SlotQError
├── Refused               the caller's request cannot be taken: say what to change
│   ├── InvalidRequest    a field is malformed, unknown or out of range (HTTP 400)
│   ├── NeverFits         no acceptable pool could hold the job even if it were empty (400)
│   ├── CheckpointsRequired  a pool takes preemptible jobs only with checkpoints (400)
│   ├── ClassNotAllowed   its user may hold no slots in that priority class (400)
│   ├── RoleNotAllowed    its user may not run training jobs under that role (400)
│   ├── PlanNotAllowed    the queue may not use that training plan (400)
│   ├── ProjectNotAllowed the caller may not submit to that project, or has none by default (403)
│   ├── NotPermitted      the caller's role does not allow this (403)
│   ├── ForbiddenByProject  the job's project forbids a value, or an action (403)
│   ├── NameTaken         another job or training job has that name (409)
│   ├── TooLate           the job has ended, or moved on while we looked (409)
│   ├── PoolInUse         jobs run in the pool, or wait for it alone (409)
│   ├── ProjectInUse      the project has jobs (409)
│   ├── Oversubscribed    quotas that their department, pools or running jobs contradict (409)
│   ├── Outdated          the configuration has changed since the caller looked (409)
│   ├── RequestWithheld   only the person who submitted the job may submit the request again (403)
│   ├── PriorityTooHigh   above the largest priority that the caller may give (403)
│   ├── LimitReached      as much as one may have, for now: `retry_after` says when again (429)
│   │   ├── TooManySubmissions  the caller's, in this minute
│   │   ├── TooManyWaiting      jobs of the caller wait
│   │   ├── QueueFull           jobs of all callers wait
│   │   ├── TooManyLines        kinds of jobs wait
│   │   ├── ExaminedLately      the queue examines itself once a minute
│   │   └── GroupUnfinished     the time of one request is over; the same request goes on
│   ├── NoSuchPool        (404)
│   ├── NoSuchProject     (404)
│   ├── NoSuchGroup       (404)
│   ├── NoSuchNode        (404)
│   └── NoSuchJob         (404)
├── Conflict              someone else changed what this commit was conditioned on: load again
│   └── ConditionFalse    the same, with what was not as it was read
├── Unavailable           AWS did not answer or throttles: the next trigger tries again
│   ├── ConfigurationLost a part that the configuration names is missing or unreadable
│   ├── Malformed         a stored item cannot take the change before it is mended
│   ├── NotListed         SageMaker does not list its training jobs now: ask more rarely
│   └── RightMissing      the queue lacks a right: nothing ends for it, and it is tried again
├── NotDelivered          a message did not reach its receiver: it is sent again later
├── NotUnderstood         an event or something kept cannot be read: poison
├── Misconfigured         a setting or the table is not what it must be
└── IllegalTransition     a bug: a state change that `lifecycle` does not allow
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class SlotQError(Exception):
    """Base of all errors that SlotQ raises on purpose."""


class Refused(SlotQError):
    """The request cannot be accepted; the message says what would be right.

    `field` is the path of the faulty field in the request ("ResourceConfig.InstanceType"), empty if
    no single field is at fault. `faults`: where more than one may be at fault, each field's path
    and what would be right. `code` is stable and meant for programs; `status` is the HTTP status of
    the answer.
    """

    code = "refused"
    status = 400

    def __init__(
        self, message: str, *, field: str = "", faults: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.faults = faults

    def within(self, place: str) -> None:
        """Say that what was refused is this part of the request."""
        self.field = f"{place}.{self.field}" if self.field else place
        self.faults = tuple((f"{place}.{path}", text) for path, text in self.faults)
        self.message = f"{place}: {self.message}"
        self.args = (self.message,)


class InvalidRequest(Refused):
    """A field is malformed, unknown or out of range."""

    code = "invalid_request"


class NeverFits(Refused):
    code = "never_fits"


class CheckpointsRequired(Refused):
    """A preemptible job without checkpoints in a pool that requires them. The message says what to
    do."""

    code = "checkpoints_required"


class ClassNotAllowed(Refused):
    code = "class_not_allowed"


class RoleNotAllowed(Refused):
    code = "role_not_allowed"


class PlanNotAllowed(Refused):
    code = "plan_not_allowed"


class ProjectNotAllowed(Refused):
    code = "project_not_allowed"
    status = 403


class NotPermitted(Refused):
    code = "not_permitted"
    status = 403


class ForbiddenByProject(Refused):
    """The job's project forbids something. The message and `faults` say what it allows."""

    code = "forbidden_by_project"
    status = 403


class NameTaken(Refused):
    code = "name_taken"
    status = 409


class TooLate(Refused):
    code = "too_late"
    status = 409


class PoolInUse(Refused):
    code = "pool_in_use"
    status = 409


class ProjectInUse(Refused):
    code = "project_in_use"
    status = 409


class Oversubscribed(Refused):
    """Quotas that their department, pools or running jobs contradict, with all numbers."""

    code = "oversubscribed"
    status = 409


class Outdated(Refused):
    code = "outdated"
    status = 409


class RequestWithheld(Refused):
    code = "request_withheld"
    status = 403


class PriorityTooHigh(Refused):
    code = "priority_too_high"
    status = 403


class LimitReached(Refused):
    """A limit is reached. `retry_after` is in seconds."""

    code = "limit_reached"
    status = 429

    def __init__(self, message: str, *, field: str = "", retry_after: int = 60) -> None:
        super().__init__(message, field=field)
        self.retry_after = retry_after


class TooManySubmissions(LimitReached):
    code = "too_many_submissions"


class TooManyWaiting(LimitReached):
    code = "too_many_waiting"


class QueueFull(LimitReached):
    code = "queue_full"


class TooManyLines(LimitReached):
    code = "too_many_lines"


class ExaminedLately(LimitReached):
    code = "examined_lately"


class GroupUnfinished(LimitReached):
    """The time of one request is over; the same request again goes on."""

    code = "group_unfinished"


class NoSuchPool(Refused):
    code = "no_such_pool"
    status = 404


class NoSuchProject(Refused):
    code = "no_such_project"
    status = 404


class NoSuchGroup(Refused):
    code = "no_such_group"
    status = 404


class NoSuchNode(Refused):
    code = "no_such_node"
    status = 404


class NoSuchJob(Refused):
    code = "no_such_job"
    status = 404


def _kinds(kind: type[Refused]) -> Iterator[type[Refused]]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)


REFUSALS: Mapping[str, type[Refused]] = {kind.code: kind for kind in _kinds(Refused)}
"""All refusals, by code."""


class Conflict(SlotQError):
    """A condition of the commit failed; nothing was written."""


class ConditionFalse(Conflict):
    """What a commit was conditioned on is not as it was read. To load again helps, unless the
    stored items can never be what the conditions ask.

    `pools`: those whose ledgers were not as read.
    """

    def __init__(self, message: str, *, pools: frozenset[str] = frozenset()) -> None:
        super().__init__(message)
        self.pools = pools


class Unavailable(SlotQError):
    """A service did not answer, or throttles. The call may have taken effect."""


class ConfigurationLost(Unavailable):
    """A part that the configuration names is missing or unreadable: nothing starts before it is
    restored."""


class Malformed(Unavailable):
    """A stored item is malformed: until it is mended, nothing can be added to its numbers."""


class NotListed(Unavailable):
    """SageMaker throttles ListTrainingJobs, of which the whole account has few calls a second."""


class RightMissing(Unavailable):
    """AWS denies the queue a right. An administrator must grant it; the message names the right."""


class NotDelivered(SlotQError):
    """A message did not reach its receiver. The text says why, and quotes no secret and no URL."""


class NotUnderstood(SlotQError):
    """An event or a stored item has an unknown form.

    No retry helps, so it goes to the dead letters. The message quotes none of the contents.
    """


class Misconfigured(SlotQError):
    """A setting is missing or contradicts another."""


class IllegalTransition(SlotQError):
    """A state change that the lifecycle does not allow."""

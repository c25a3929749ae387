"""What can go wrong on the user's side. The queue's own refusals are `slotq_core.errors.Refused`.

SlotQError
├── Refused …         the queue says no to the request itself (slotq_core.errors)
├── NotConfigured     a setting is missing or malformed: names the setting and where to put it
├── NotAllowed        the API did not let the caller in: says which permission or setting to check
├── CannotReach       no connection to the endpoint, after several tries
├── DocumentError     a file cannot be taken: says where, and what would be right
│   └── ScenarioError     a scenario or trace file
├── Unavailable       the queue answers, but not for now, after several tries (slotq_core.errors)
├── DeploymentFailed  CloudFormation has not carried out a deployment: says the first reason
├── NoShell           a session in a job cannot be opened: says what is missing
├── EndlessDecisions  a simulation whose policy repeats itself at one moment: a fault of SlotQ
├── NotCompleted      a job whose result was asked for has ended otherwise
└── UnexpectedAnswer  something answers at the endpoint that does not speak as the queue does
    └── NoDryRuns         the queue cannot say what would come of a submission; nothing was sent
"""

from __future__ import annotations

from slotq_core.errors import (
    CheckpointsRequired,
    ClassNotAllowed,
    ExaminedLately,
    ForbiddenByProject,
    GroupUnfinished,
    InvalidRequest,
    LimitReached,
    NameTaken,
    NeverFits,
    NoSuchGroup,
    NoSuchJob,
    NoSuchNode,
    NoSuchPool,
    NoSuchProject,
    NotPermitted,
    Outdated,
    Oversubscribed,
    PlanNotAllowed,
    PoolInUse,
    PriorityTooHigh,
    ProjectInUse,
    ProjectNotAllowed,
    QueueFull,
    Refused,
    RequestWithheld,
    RoleNotAllowed,
    SlotQError,
    TooLate,
    TooManyLines,
    TooManySubmissions,
    TooManyWaiting,
    Unavailable,
)

__all__ = [
    "CannotReach",
    "CheckpointsRequired",
    "ClassNotAllowed",
    "DeploymentFailed",
    "DocumentError",
    "EndlessDecisions",
    "ExaminedLately",
    "ForbiddenByProject",
    "GroupUnfinished",
    "InvalidRequest",
    "LimitReached",
    "NameTaken",
    "NeverFits",
    "NoDryRuns",
    "NoShell",
    "NoSuchGroup",
    "NoSuchJob",
    "NoSuchNode",
    "NoSuchPool",
    "NoSuchProject",
    "NotAllowed",
    "NotCompleted",
    "NotConfigured",
    "NotPermitted",
    "Outdated",
    "Oversubscribed",
    "PlanNotAllowed",
    "PoolInUse",
    "PriorityTooHigh",
    "ProjectInUse",
    "ProjectNotAllowed",
    "QueueFull",
    "Refused",
    "RequestWithheld",
    "RoleNotAllowed",
    "ScenarioError",
    "SlotQError",
    "TooLate",
    "TooManyLines",
    "TooManySubmissions",
    "TooManyWaiting",
    "Unavailable",
    "UnexpectedAnswer",
]


class NotConfigured(SlotQError):
    """A setting is missing or malformed; the message names it and where it can be put."""


class NotAllowed(SlotQError):
    """The API answered 401 or 403; the message says which permission or setting to check."""


class CannotReach(SlotQError):
    """No connection to the endpoint; the message names the endpoint and what to check."""


class DocumentError(SlotQError):
    """A file cannot be taken; the message names file, line and key of each fault and what would be
    right."""


class ScenarioError(DocumentError):
    """A scenario or trace file cannot be taken."""


class DeploymentFailed(SlotQError):
    """CloudFormation has not carried out a deployment; the message says the first reason."""


class EndlessDecisions(SlotQError):
    """A simulation whose policy undoes and repeats its decisions at one moment; the message names
    that moment and the jobs."""


class UnexpectedAnswer(SlotQError):
    """Something answers at the endpoint, but it is not (this version of) the queue."""


class NoDryRuns(UnexpectedAnswer):
    """The queue has no dry submissions (an earlier release, or one that the caller may not read).
    Nothing was sent that an earlier release would store."""


class NoShell(SlotQError):
    """A session in a running job cannot be opened; the message says what is missing."""


class NotCompleted(SlotQError):
    """A job whose result was asked for has failed, was cancelled or was stopped; the message has
    the reason."""

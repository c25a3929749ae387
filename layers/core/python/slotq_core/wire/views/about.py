"""Answers about the queue and its caller."""

from __future__ import annotations

from pydantic import Field

from slotq_core.wire import VERSION
from slotq_core.wire.base import BaseModel


class FindingView(BaseModel):
    """One disagreement in the queue's records, or between them and SageMaker."""

    kind: str
    """For programs: `ended_unseen`, `orphan`, `ledger` …"""
    subject: str
    """The job, training job or pool."""
    text: str
    mended: bool


class DoctorView(BaseModel):
    version: int = VERSION
    findings: list[FindingView]


class NodeReportView(BaseModel):
    """What the queue has read of a node."""

    version: int = VERSION
    number: int
    """Of the report; 0: there is none, or it lacks the node's proof."""


class AboutView(BaseModel):
    """The deployed release, and who the caller is."""

    version: int = VERSION
    """The version of the JSON."""
    slotq: str
    """The deployed release."""
    caller: str
    """The ARN of who signed the request."""
    dry_runs: bool = False
    """Whether a submission may be a dry run (`dry_run=true`). An earlier release would store the
    job."""


class MembershipView(BaseModel):
    """The caller's role in one project."""

    name: str
    role: str
    """`viewer`, `member`, `admin` or `operator`."""
    default: bool
    """Whether the caller's jobs belong to this project if they name none."""


class MeView(BaseModel):
    """The caller, as the queue sees them."""

    version: int = VERSION
    caller: str
    """The ARN of who signed the request."""
    person: str
    """The person behind the caller, as an ARN: what counts for limits and for one's own jobs."""
    why: str
    """How the person was decided, as a sentence."""
    projects: list[MembershipView] = Field(default=[])
    """The projects in which the caller has a role."""
    shared: bool = True
    """Whether the queue is shared between projects, so that roles decide beside IAM."""
    operates: bool = True
    """Whether the queue lets the caller change its configuration. IAM must too."""

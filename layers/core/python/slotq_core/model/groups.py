"""Jobs submitted together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slotq_core.gpu_amounts import Gpus
from slotq_core.model.jobs import GROUP_END, GROUP_ENTRY, Job, JobState, Workload
from slotq_core.timestamps import Duration, Moment

SERVER = "server"
"""The site of the member that a gang ends with."""

LEFT_OUT = "left_out"
"""The cause of a member that ended because it found no room while its gang ran."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Jobs submitted together. The jobs of a gang start together, over all their pools, or not at
    all, and share one project. The jobs of a sweep are independent."""

    name: str
    members: tuple[str, ...]
    """Names of all member jobs, including those not submitted yet."""
    min_members: int | None = None
    """How many members must run at once, completed ones included; None: all that are not
    cancelled."""
    mandatory: tuple[str, ...] = ()
    """Members without which the gang does not start."""
    same_pool: bool = False
    """Whether all members run in one pool."""
    elastic: bool = False
    """Whether members beyond the core are evicted singly and join again (`policy.state.groups
    .elastic`). Such a gang has `min_members` and runs in one pool."""
    ends_with: str = ""
    """The member with which the gang ends: then the others end too, as they do when too few of them
    can still complete. The gang does not start without it. Empty: each member has its own end."""
    sites: Mapping[str, str] = field(default_factory=dict)
    """Names by which members address each other, if not the job's name."""
    heartbeat: Duration | None = None
    """How long a running member that reports may be silent (ms); None: as its pool says."""
    max_parallel: int | None = None
    """For a sweep, the most members that hold slots at once; None: the group is a gang."""
    ended: Mapping[str, JobState] = field(default_factory=dict)
    """The terminal state of each member that has ended."""

    def site(self, member: str) -> str:
        """The name by which other members address this one."""
        return SERVER if member == self.ends_with else self.sites.get(member, member)


def elastic_fault(min_members: int | None, ends_with: str | None) -> tuple[str, str] | None:
    """The rule that keeps a gang with these rules from being elastic, as a field and a sentence."""
    if min_members is None:
        return "min_members", "an elastic gang says how many jobs must run at once"
    if ends_with:
        return "ends_with", "a gang that ends with one of its jobs is not elastic"
    return None


def member_fault(gpus: Gpus, workload: Workload) -> str:
    """Why an elastic gang may not have such a member, as a sentence; empty: it may."""
    if gpus:
        return "a job of an elastic gang takes whole instances, not GPUs of a node"
    if workload is not Workload.TRAINING:
        return f"a job of an elastic gang is training, not {workload}"
    return ""


Parameter = str | bool | int | float
"""A value that a sweep tries."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """The trials and the goal of a sweep."""

    parameters: tuple[Mapping[str, Parameter], ...] = ()
    """The values that each member tries, in the order of the members; empty: not declared."""
    metric: str = ""
    """The metric by which members are compared; empty: none."""
    maximize: bool = False
    """Whether more is better."""
    goal: float | None = None
    """A value of the metric that is good enough: a member that ends with it ends the sweep."""

    def reached(self, metrics: Mapping[str, float]) -> bool:
        """Whether a member that ended with these metrics is good enough."""
        value = metrics.get(self.metric)
        if self.goal is None or value is None:
            return False
        return value >= self.goal if self.maximize else value <= self.goal


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredGroup:
    """A group as the queue keeps it. Only `met_by` is ever set later."""

    group: Group
    submitter: str
    digest: str
    """Hash of the submitted body. An equal hash means the same submission."""
    project: str = ""
    at: Moment = 0
    """When the group was stored whole (ms)."""
    rendezvous: str = ""
    """For a gang: the S3 prefix below which its members meet; empty: no prefix."""
    sweep: Sweep | None = None
    met_by: str = ""
    """The job that reached the sweep's goal; empty: none yet, or not recorded yet."""

    @property
    def has_goal(self) -> bool:
        return self.sweep is not None and self.sweep.goal is not None

    def goal_met(self, jobs: Iterable[Job]) -> bool:
        """Whether one of these jobs, or `met_by`, has reached the sweep's goal."""
        return bool(self.met_by) or any(map(self.reaches_goal, jobs))

    def reaches_goal(self, job: Job) -> bool:
        """Whether the job has ended with a result that is good enough for the sweep."""
        if self.sweep is None or job.state is not JobState.COMPLETED:
            return False
        return self.sweep.reached(dict(job.metrics))


@dataclass(frozen=True, kw_only=True, slots=True)
class Opening:
    """A submission of a group that has begun. Its members wait for the rest."""

    name: str
    digest: str
    at: Moment
    """When it was last begun (ms)."""
    members: tuple[str, ...] = ()
    """Empty: a version before 0.3 has begun it, and its members wait for the group's entry."""
    withdrawn: bool = False
    """Whether its members are being cancelled, because the submission was not finished."""


def entry_of(group: str) -> str:
    """The name that the group's members wait for until the group is stored whole."""
    return f"{GROUP_ENTRY}{group}"


def end_of(group: str) -> str:
    """The name that jobs after the group wait for."""
    return f"{GROUP_END}{group}"

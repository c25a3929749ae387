"""Jobs submitted together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotq_core.model.jobs import GROUP_ENTRY, JobState

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
    max_parallel: int | None = None
    """For a sweep, the most members that hold slots at once; None: the group is a gang."""
    ended: Mapping[str, JobState] = field(default_factory=dict)
    """The terminal state of each member that has ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredGroup:
    """A group as the queue keeps it. It never changes."""

    group: Group
    submitter: str
    digest: str
    """Hash of the submitted body. An equal hash means the same submission."""
    project: str = ""
    at: int = 0
    """When the group was stored whole (ms)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Opening:
    """A submission of a group that has begun. Its members wait for the rest."""

    name: str
    digest: str
    at: int
    """When it was last begun (ms)."""
    withdrawn: bool = False
    """Whether its members are being cancelled: nobody has finished it."""


def entry_of(group: str) -> str:
    """What the group's members wait for until the group is stored whole."""
    return f"{GROUP_ENTRY}{group}"

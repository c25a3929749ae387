"""Jobs submitted together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotq_core.model.jobs import JobState

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

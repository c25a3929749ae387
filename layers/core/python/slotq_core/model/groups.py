"""Jobs submitted together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotq_core.model.jobs import JobState

LEFT_OUT = "left_out"
"""The cause with which a member ends that found no room while its gang ran."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Jobs submitted together: a gang, whose jobs start together, over all their pools, or not at
    all, and are of one project; or a sweep, whose jobs are independent."""

    name: str
    members: tuple[str, ...]
    """The names of all its jobs, submitted yet or not."""
    min_members: int | None = None
    """How many must run at once, those that have completed counted; None: all that have not been
    cancelled."""
    mandatory: tuple[str, ...] = ()
    """Members without which it does not start."""
    same_pool: bool = False
    """All of it in one pool."""
    max_parallel: int | None = None
    """It is a sweep, and at most so many of its members hold slots at once; None: it is a gang."""
    ended: Mapping[str, JobState] = field(default_factory=dict)
    """How those of its members ended that have."""

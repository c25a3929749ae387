"""What a project prescribes for the requests of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Prescription:
    """What a project prescribes for the requests of its jobs. Patterns are texts in which `*`
    matches any text; an empty list of patterns allows everything."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Fields of CreateTrainingJob for requests that do not have them."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Fields of CreateTrainingJob that every request of the project has; another value is
    refused."""
    roles: tuple[str, ...] = ()
    """Patterns of execution roles."""
    images: tuple[str, ...] = ()
    """Patterns of training images."""
    outputs: tuple[str, ...] = ()
    """Prefixes of S3 locations that jobs may write to."""
    pools: tuple[str, ...] = ()
    """The pools that jobs may run in; empty: all."""
    instance_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Patterns of instance types, by workload class. A class that is not named is not limited."""
    max_priority: int | None = None
    """The largest priority that a member may give; None: no limit."""
    waiting: int = 0
    """The most jobs that wait, back off or are held; 0: no limit."""
    submissions: int = 0
    """The most new jobs in a minute; 0: no limit."""
    approval: bool = False
    """Whether a submission is held until an admin releases it."""


APPROVAL = "approval"
"""The cause of a held job that waits for an admin's approval."""
FORBIDDEN = "forbidden_by_project"
"""The cause of a held job whose start its project forbids."""

NO_PRESCRIPTION = Prescription()

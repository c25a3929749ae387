"""Who shares the pools by quota and weight: projects, and the departments that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from slotq_core.model.demand import Demand

EVERYWHERE = ""
"""The scope of an amount that counts over all pools together; else a scope is a pool's name."""

Amounts = Mapping[str, Demand]
"""Amounts by scope. Either everything counts over all pools together, or pool by pool."""

Limits = Mapping[str, Mapping[str, int]]
"""Limits by scope, then by resource: what is not named has none, and 0 is one."""


class Fairness(StrEnum):
    """What a department may reclaim from another."""

    PROTECT_QUOTA = "protect_quota"
    """Nothing that a project runs within its own quota."""
    FULL = "full"
    """That too, from a department above its share by one below its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Department:
    """Projects that share a quota."""

    name: str
    quota: Amounts | None = None
    """What it deserves; None: the sum of its projects' quotas."""
    weight: int | None = None
    """Its part of the surplus; None: its quota."""
    limit: Limits = field(default_factory=dict)
    """What it may never exceed."""
    priority: int = 0
    over_quota: bool = True
    """False: its quota is its limit."""
    fairness: Fairness = Fairness.PROTECT_QUOTA
    """What this department may take from others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """Whose jobs share the slots with other projects' by quota and weight."""

    name: str
    department: str = ""
    """Its department's name; empty: none."""
    quota: Amounts = field(default_factory=dict)
    weight: int | None = None
    limit: Limits = field(default_factory=dict)
    priority: int = 0
    over_quota: bool = True
    min_runtime: int = 0
    """How long an attempt of this project is safe from eviction, from its start on (ms)."""

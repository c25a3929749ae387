"""The base of all reasons, and the helpers for their sentences."""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import ModuleType
from typing import ClassVar

from slotq_core.gpu_amounts import gpus_number

WITHIN_SHARES_START = "other projects still start jobs there within their fair shares"
"""The starts that a drain for a job beyond its project's fair share allows, in words."""

Number = str | bool | int | float | tuple[str, ...] | dict[str, int] | None
"""The value of a reason's field."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """Base of all reasons. `code` is stable and meant for programs."""

    code: ClassVar[str]
    also: Reason | None = None
    """A second cause, which would keep the job back without this one; None: none is known."""

    def sentence(self) -> str:
        """One sentence for people, including the numbers."""
        raise NotImplementedError

    def text(self) -> str:
        """The sentence, and that of the second cause."""
        return f"{self.sentence()}. Also: {self.also.text()}" if self.also else self.sentence()

    def numbers(self) -> dict[str, Number]:
        """The fields by name, for JSON, without the second cause. Amounts of GPUs are numbers of
        GPUs."""
        values = ((f, getattr(self, f.name)) for f in fields(self) if f.name != "also")
        return {f.name: gpus_number(value) if f.type == "Gpus" else value for f, value in values}


def kept_free(pool: str, project: str) -> str:
    """The effect of a drain for a gang, in words. `project`: as in `Reserved`."""
    if not project:
        return f"pool {pool} is kept free for it"
    return f"pool {pool} starts nothing of project {project} behind it; {WITHIN_SHARES_START}"


NO_SHARE = "a quota or a weight gives it one; until then it starts where others leave slots idle"
"""Advice to a project without a share."""


def share_used(
    project: str, used: float, share: float, resource: str, *, has_share: bool = False
) -> str:
    """How much a project uses of its fair share, in words. `has_share`: it has a share even while
    that is 0."""
    if not share and not has_share:
        return f"project {project} has no share here: {NO_SHARE}"
    return f"project {project} uses {units(used, resource)} of its fair share {share}"


def in_slots(n: float) -> str:
    return units(n, "slots")


def in_jobs(n: int) -> str:
    return units(n, "jobs")


def units(n: float, resource: str) -> str:
    """`1 slot`, `2 slots`."""
    return f"{n} {resource.removesuffix('s') if n == 1 else resource}"


def codes(module: ModuleType, base: type[Reason]) -> tuple[str, ...]:
    """The sorted codes of all reasons in a module that derive from `base`."""
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type)]
    found = {kind.code for kind in kinds if issubclass(kind, base) and hasattr(kind, "code")}
    return tuple(sorted(found))

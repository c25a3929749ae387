"""Reasons of a job without room: its demand and the amounts of its pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotq_core.gpu_amounts import WHOLE, Gpus, gpus_text, in_gpus
from slotq_core.model.reasons.gang_incomplete import Lacks
from slotq_core.model.reasons.reason import (
    WITHIN_SHARES_START,
    Number,
    Reason,
    in_slots,
    kept_free,
    share_used,
    units,
)
from slotq_core.timestamps import iso


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeComing(Reason):
    """A node has GPUs for this job once it is ready, or once stopping jobs there have ended."""

    code: ClassVar[str] = "node_coming"
    pool: str
    node: str
    needed: Gpus
    free: Gpus
    coming: Gpus
    ready: bool

    def sentence(self) -> str:
        needs = f"needs {in_gpus(self.needed)}"
        if not self.ready:
            return f"starts on node {self.node} of pool {self.pool} when it is ready; {needs}"
        return (
            f"starts on node {self.node} of pool {self.pool} when the stopping jobs there have "
            f"ended; {needs}: {gpus_text(self.free)} free now, {gpus_text(self.coming)} coming free"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class NoGpusFree(Reason):
    """No node of the job's tenant has room for it, and the pool has no free instance for one."""

    code: ClassVar[str] = "no_gpus_free"
    pool: str
    needed: Gpus
    free: Gpus
    """The GPUs that are free on nodes of the tenant, together."""
    largest: Gpus
    """The most that is free of one GPU."""
    nodes: int
    """How many of these nodes have free GPUs."""
    instances: int
    """The free instances of the pool."""
    others: Gpus = 0
    """The GPUs that are free on nodes with jobs of another person. Such a node takes the jobs of
    one person at a time, because its agent does not run as root."""

    def sentence(self) -> str:
        instances = "no free instance"
        if self.instances:
            instances = f"{units(self.instances, 'instances')} that others hold"
        return f"{self._lacking()}{self._of_others()}; pool {self.pool} has {instances}"

    def _of_others(self) -> str:
        if not self.others:
            return ""
        return (
            f"; {in_gpus(self.others)} more, where another person's jobs run: nodes of this pool "
            "take one person's jobs at a time"
        )

    def _lacking(self) -> str:
        verb = "is" if self.free <= WHOLE else "are"
        free, pieces = f"{gpus_text(self.free)} {verb} free", ""
        if 0 < self.largest < WHOLE:
            pieces = f" in pieces of up to {gpus_text(self.largest)}"
        if self.needed < WHOLE:
            lacking, where = f"no GPU has {gpus_text(self.needed)} left", pieces
        else:
            lacking = f"no node has {in_gpus(self.needed)} free for it"
            where = f" on {units(self.nodes, 'nodes')}{pieces and f',{pieces}'}"
        return f"{lacking}; {free}{where}" if self.free else lacking


@dataclass(frozen=True, kw_only=True, slots=True)
class NoFreeSlots(Reason):
    """The pool has too few free slots, and evictions cannot make enough room."""

    code: ClassVar[str] = "no_free_slots"
    pool: str
    needed: int
    free: int
    capacity: int
    lower_ranked: int
    """Slots in the pool held by lower-ranked jobs, evictable or not."""
    resource: str = "slots"
    """The resource that the numbers count."""

    def sentence(self) -> str:
        lead = (
            f"needs {units(self.needed, self.resource)}; pool {self.pool} has {self.free} free of "
            f"{self.capacity}"
        )
        if not self.lower_ranked:
            return f"{lead}, and no job there has a lower priority"
        return f"{lead}, and evicting the jobs of lower priority there would not free enough"


@dataclass(frozen=True, kw_only=True, slots=True)
class LowerRankedProtected(Reason):
    """Lower-ranked jobs hold enough slots, but may not be evicted yet, or at all."""

    code: ClassVar[str] = "lower_ranked_protected"
    pool: str
    needed: int
    free: int
    until: int | None
    """When the first protection ends (ms); None: those jobs are not preemptible."""

    def sentence(self) -> str:
        lead = f"needs {in_slots(self.needed)}; pool {self.pool} has {self.free} free"
        if self.until is None:
            return f"{lead}, and the jobs of lower priority there are not preemptible"
        return (
            f"{lead}, and the jobs of lower priority there keep their slots until {iso(self.until)}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotsComing(Reason):
    """Slots are coming free for this job."""

    code: ClassVar[str] = "slots_coming"
    pool: str
    needed: int
    free: int
    coming: int
    releasing: int = 0
    """How many of those are warm instances that do not match the job and are released for it."""

    def sentence(self) -> str:
        stop = self.coming > self.releasing
        ends = [
            *(["the stopping jobs there have ended"] if stop or not self.releasing else ()),
            *(["warm instances that do not match it are gone"] if self.releasing else ()),
        ]
        return (
            f"starts in pool {self.pool} when {' and '.join(ends)}; needs "
            f"{in_slots(self.needed)}: {self.free} free now, {self.coming} coming free"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldForOthers(Reason):
    """The free slots are owed to another job, or held for one whose turn comes first."""

    code: ClassVar[str] = "held_for_others"
    pool: str
    needed: int
    free: int
    holder: str
    """The first job that the slots are held for."""
    holder_project: str = ""
    """The holder's project; empty: the same as the waiting job's, or there are no projects."""
    project: str = ""
    """The waiting job's project. It and its figures are set only with `holder_project`."""
    used: int | float = 0
    quota: int | float = 0

    def sentence(self) -> str:
        free = f"the {self.free} free in pool {self.pool}"
        if not self.holder_project:
            return f"needs {in_slots(self.needed)}; {free} are held for {self.holder}"
        return (
            f"needs {in_slots(self.needed)}; project {self.project} uses {in_slots(self.used)}, "
            f"quota {self.quota}; {free} belong to project {self.holder_project} ({self.holder})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Reserved(Reason):
    """The pool drains for this job, which has waited longer than `reserve_after`."""

    code: ClassVar[str] = "reserved"
    pool: str
    needed: int
    free: int
    project: str = ""
    """The job's project if the job brings it beyond its fair share: jobs of other projects within
    theirs then still start. Empty: behind the job only those start that cannot delay it."""
    at_latest: int | None = None
    """By when (ms) the job has its slots, if nothing ahead of it takes them; None: not known."""

    def sentence(self) -> str:
        of_project = f" of project {self.project}" if self.project else ""
        others = f"; {WITHIN_SHARES_START}" if self.project else ""
        when = ""
        if self.at_latest is not None:
            when = f"; at the latest {iso(self.at_latest)}, if nothing ahead of it enters"
        return (
            f"pool {self.pool} starts nothing{of_project} behind this job until the job has its "
            f"{in_slots(self.needed)}, except what cannot delay it; {self.free} free so far"
            f"{when}{others}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnComes(Reason):
    """The pool is full. A job of equal rank yields to this one when its time slice ends."""

    code: ClassVar[str] = "turn_comes"
    pool: str
    needed: int
    free: int
    until: int
    """When the first of these time slices ends (ms)."""

    def sentence(self) -> str:
        return (
            f"needs {in_slots(self.needed)}; pool {self.pool} has {self.free} free, and the "
            f"first time slice there ends at {iso(self.until)}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SameUser(Reason):
    """The pool is full. Jobs of the same project, user and rank hold enough slots that another
    user's job would get by a move or a time slice. They are not interrupted for each other."""

    code: ClassVar[str] = "same_user"
    pool: str
    needed: int
    free: int
    held: int
    """Slots in the pool that these jobs hold."""

    def sentence(self) -> str:
        return (
            f"needs {in_slots(self.needed)}; pool {self.pool} has {self.free} free, and jobs of "
            f"the same user and priority hold {self.held}: they are not interrupted for each other"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareUsed(Reason):
    """The pool is full, and the project may reclaim no more: it has its fair share."""

    code: ClassVar[str] = "share_used"
    pool: str
    needed: int | float
    project: str
    used: int | float
    share: int | float
    quota: int | float
    resource: str = "slots"
    """The resource that the numbers count."""
    past_use: float | None = None
    """The project's percentage of past use; None: past use does not count."""
    due: float | None = None
    """The percentage that its weight deserves."""

    def sentence(self) -> str:
        known = bool(self.quota or self.past_use)
        share = share_used(self.project, self.used, self.share, self.resource, has_share=known)
        of_quota = f" (quota {self.quota})" if self.share or known else ""
        needs = units(self.needed, self.resource)
        return f"needs {needs}; pool {self.pool} is full, and {share}{of_quota}{self._past()}"

    def _past(self) -> str:
        if not self.past_use or not self.due:
            return ""
        times = round(self.past_use / self.due, 1)
        return (
            f"; the project has {self.past_use:g} % of past use, {times:g} times the "
            f"{self.due:g} % that its weight deserves"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolsTooSmall(Reason):
    """None of the job's pools is large enough any more, or no pool is left."""

    code: ClassVar[str] = "pools_too_small"
    needed: int
    largest: int
    resource: str = "slots"
    """The resource that the numbers count."""

    def sentence(self) -> str:
        needs = f"needs {units(self.needed, self.resource)}"
        return f"{needs}, but the largest of its pools now has {self.largest} in all"


@dataclass(frozen=True, kw_only=True, slots=True)
class NeedsSeveralPools(Reason):
    """The job's pools have no room for all of its parts at once."""

    code: ClassVar[str] = "needs_several_pools"
    needed: tuple[tuple[str, int], ...]
    """Slots by pool."""
    drains: str
    """A pool that drains for the job; empty: none."""
    project: str = ""
    """As in `Reserved`, of that pool."""
    lacks: Lacks | None = None
    """The first part for which no room is left; None: limits alone keep the job back."""

    def sentence(self) -> str:
        parts = " and ".join(f"{in_slots(slots)} in pool {pool}" for pool, slots in self.needed)
        kept = f"; {kept_free(self.drains, self.project)}" if self.drains else ""
        text = f"needs {parts} at the same time{kept}"
        return f"{text}. {self.lacks.sentence()}" if self.lacks else text

    def numbers(self) -> dict[str, Number]:
        """`needed` as an object, and the numbers of `lacks`, if set."""
        said: dict[str, Number] = {
            "needed": dict(self.needed),
            "drains": self.drains,
            "project": self.project,
        }
        return said | (self.lacks.numbers() if self.lacks else {})

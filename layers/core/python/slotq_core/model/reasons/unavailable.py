"""The job's pools take nothing now, or AWS refuses to start the job because a right is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotq_core.model.reasons.reason import Reason, in_slots
from slotq_core.timestamps import iso


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolBacksOff(Reason):
    """The pool backs off after a capacity error. Nothing starts there for now."""

    code: ClassVar[str] = "pool_backs_off"
    pool: str
    until: int
    cause: str

    def sentence(self) -> str:
        return f"pool {self.pool} is tried again at {iso(self.until)}: {self.cause}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolIsProbed(Reason):
    """The pool takes one job at a time to probe whether SageMaker has capacity again."""

    code: ClassVar[str] = "pool_is_probed"
    pool: str
    needed: int
    probe: str
    """The job that probes the pool."""

    def sentence(self) -> str:
        return (
            f"needs {in_slots(self.needed)}; after a capacity error pool {self.pool} starts one "
            f"job at a time, and {self.probe} is starting"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaRefused(Reason):
    """A quota of the account that is not for the pool's instances refused the job's last start. The
    job takes free slots of the pool, but evicts no jobs there for now."""

    code: ClassVar[str] = "quota_refused"
    pool: str
    needed: int
    free: int
    until: int
    """When the job may evict others again (ms)."""
    cause: str

    def sentence(self) -> str:
        return (
            f"needs {in_slots(self.needed)}, and {self.free} are free in {self.pool}; SageMaker "
            f"refused its last start, so nothing is evicted for it until {iso(self.until)}: "
            f"{self.cause}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolClosed(Reason):
    """An operator has paused or drained the pool."""

    code: ClassVar[str] = "pool_closed"
    pool: str
    state: str
    """`paused` or `drained`."""

    def sentence(self) -> str:
        return f"pool {self.pool} is {self.state}: nothing starts there"


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolNotOpen(Reason):
    """The pool is only for projects with a quota there. The job's project has none."""

    code: ClassVar[str] = "pool_not_open"
    pool: str
    project: str

    def sentence(self) -> str:
        return (
            f"pool {self.pool} is open only to projects with a quota there, and project "
            f"{self.project} has none"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RightsMissing(Reason):
    """A right is missing that every job of the pool needs, or every job of one execution role."""

    code: ClassVar[str] = "rights_missing"
    pool: str
    role: str
    """The execution role's ARN; empty: every job of the pool needs it."""
    action: str
    """The missing action in IAM's notation."""
    until: int | None
    """When the start is tried again (ms); None: with the next free slots."""
    probe: str
    """The job that probes now; empty: none."""
    cause: str

    def sentence(self) -> str:
        principal = f"execution role {self.role}" if self.role else "the queue"
        return f"{principal} lacks {self.action} in pool {self.pool}; {self._next()}: {self.cause}"

    def _next(self) -> str:
        if self.until is not None:
            return f"tried again at {iso(self.until)}"
        if self.probe:
            return f"{self.probe} is trying it"
        return "tried again on the next free slots, and nothing is evicted for it until then"

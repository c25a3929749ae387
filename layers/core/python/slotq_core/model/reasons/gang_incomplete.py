"""Reasons that lie in the job's gang."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from slotq_core.model.reasons.reason import (
    Number,
    Reason,
    in_jobs,
    in_slots,
    kept_free,
    units,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lacks:
    """A member of a gang, or a part of a job, for which its pool has no room, and the holder."""

    member: str
    """The member; of a job in parts, the job."""
    pool: str
    """The member's first pool."""
    site: str = ""
    """The member's site; empty: it has no other name than the job's."""
    member_needs: int
    pool_free: int
    """The amount free there besides the other members."""
    resource: str = "slots"
    """The resource that the numbers count."""
    holder: str = ""
    """The job that holds most there, or that the pool drains for; empty: no job of the queue."""
    holder_project: str = ""
    other_holders: int = 0
    """How many more jobs hold slots there."""

    def sentence(self) -> str:
        where = f"Pool {self.pool} (site {self.site})" if self.site else f"Pool {self.pool}"
        needs = units(self.member_needs, self.resource)
        text = f"{where} has {self.pool_free} free for {self.member}, which needs {needs}"
        if not self.holder:
            return text
        of_project = f" of project {self.holder_project}" if self.holder_project else ""
        more = f" and {in_jobs(self.other_holders)} more hold" if self.other_holders else " holds"
        return f"{text}; {self.holder}{of_project}{more} slots there"

    def numbers(self) -> dict[str, Number]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, kw_only=True, slots=True)
class GangIncomplete(Reason):
    """Too few members of the gang wait: others are stopping, back off, or are not submitted yet."""

    code: ClassVar[str] = "gang_incomplete"
    group: str
    needed: int
    waiting: int
    missing: tuple[str, ...]
    """Mandatory members that do not wait."""

    def sentence(self) -> str:
        text = f"gang {self.group} must start {self.needed} jobs at once; {self.waiting} wait"
        return f"{text}, and these are missing: {', '.join(self.missing)}" if self.missing else text


@dataclass(frozen=True, kw_only=True, slots=True)
class GangBlocked(Reason):
    """The pools have no room for enough of the gang at once."""

    code: ClassVar[str] = "gang_blocked"
    group: str
    needed: int
    free: int
    """Free slots in all pools of the gang together."""
    drains: str
    """The pool that drains for this job; empty: none."""
    project: str = ""
    """As in `Reserved`, of that pool."""
    lacks: Lacks | None = None
    """The first of its jobs for which no room is left; None: limits alone keep the gang back."""

    def sentence(self) -> str:
        must = f"gang {self.group} needs room for {self.needed} of its jobs at once"
        text = f"{must}; its pools have {in_slots(self.free)} free"
        text = f"{text}, and {kept_free(self.drains, self.project)}" if self.drains else text
        return f"{text}. {self.lacks.sentence()}" if self.lacks else text

    def numbers(self) -> dict[str, Number]:
        """With those of `lacks`, if set."""
        said = Reason.numbers(self)
        del said["lacks"]
        return said | (self.lacks.numbers() if self.lacks else {})


@dataclass(frozen=True, kw_only=True, slots=True)
class NotYetIn(Reason):
    """The elastic gang runs without this job, which joins when there is room."""

    code: ClassVar[str] = "not_yet_in"
    group: str
    running: int
    """How many of its jobs hold slots."""
    members: int
    ending: bool = False
    """Whether a job of the gang has completed, so that no other joins."""

    def sentence(self) -> str:
        text = f"not yet in: gang {self.group} runs with {self.running} of its {self.members} jobs"
        if self.ending:
            return f"{text}, and is ending, so no other joins"
        return f"{text}; this one joins when there is room"


@dataclass(frozen=True, kw_only=True, slots=True)
class EndangersItsGang(Reason):
    """The gang runs without this job. With the job, the whole gang could be evicted or
    reclaimed."""

    code: ClassVar[str] = "endangers_its_gang"
    group: str
    pool: str
    needed: int
    free: int
    counts_as: str
    """The job's class, if lower than the gang's; empty: the job would take its project above its
    fair share."""

    def sentence(self) -> str:
        may = (
            f"needs {in_slots(self.needed)}, and pool {self.pool} has {self.free} free. Its "
            f"gang {self.group} runs without it; with it"
        )
        whole_gang = "the whole gang could be"
        if self.counts_as:
            return (
                f"{may} {whole_gang} evicted for more jobs, as it would count as {self.counts_as}"
            )
        return f"{may} {whole_gang} reclaimed, as its project would be above its fair share"

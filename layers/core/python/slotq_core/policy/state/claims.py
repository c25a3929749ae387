"""What is owed in a pool, and to whom: "everyone counts claims as held" (DESIGN 5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, ValuesView
from collections.abc import Set as AbstractSet
from typing import Protocol

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job

NOTHING = Demand()


class Entitled(Protocol):
    """Who may take whose claim (entitlement.py)."""

    def __call__(self, job: Job, holder: Job) -> bool: ...
    def projects(self, job: Job, pool: str) -> AbstractSet[str]: ...


class Claims:
    """The claimants of one pool that the walk has not reached, in the policy's order."""

    __slots__ = ("_by_name", "_by_project", "_in_all", "_pool")

    def __init__(self, pool: str, claimants: Iterable[Job]) -> None:
        self._pool = pool
        self._by_name = {job.name: job for job in claimants}
        self._by_project: dict[str, list[Job]] = {}
        self._in_all: Demand | None = None
        """What is owed to all of them; None where that, and `_by_project`, has to be made anew."""

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def values(self) -> ValuesView[Job]:
        return self._by_name.values()

    def add(self, job: Job) -> None:
        self._in_all = None
        self._by_name[job.name] = job

    def remove(self, job: Job) -> bool:
        """Whether it was among them."""
        self._in_all = None
        return self._by_name.pop(job.name, None) is not None

    def state(self) -> dict[str, Job]:
        """For `back_to`."""
        return dict(self._by_name)

    def back_to(self, state: dict[str, Job]) -> None:
        self._in_all = None
        self._by_name = dict(state)

    def owed(self) -> Demand:
        """To all of them together."""
        if self._in_all is None:
            self._by_project = {}
            for job in self._by_name.values():
                self._by_project.setdefault(job.project, []).append(job)
            self._in_all = sum(map(_owed, self._by_name.values()), NOTHING)
        return self._in_all

    def owed_to_others(self, job: Job, entitled: Entitled) -> Demand:
        """But to itself, and to those whose claims it may take over. Only those of projects that
        it may take anything from are looked at: in a pool full of claims all would be too many."""
        owed = self.owed()
        if job.name in self._by_name:
            owed = owed - _owed(self._by_name[job.name])
        for project in self._by_project.keys() & entitled.projects(job, self._pool):
            for other in self._by_project[project]:
                if other.name != job.name and entitled(job, other):
                    owed = owed - _owed(other)
        return owed


def kept(job: Job) -> Demand:
    """What is kept for a job that was moved here: nobody may take it over."""
    return job.claim.amount if job.claim and job.claim.moved else NOTHING


def _owed(job: Job) -> Demand:
    return job.claim.amount if job.claim and not job.claim.moved else NOTHING

"""The class in which each job of one user counts in one pool.

For limits a job counts whole in one class per pool: the lowest class with room among those that the
job has come through, from the present one up. Each plan decides this again, held jobs first in
order of entry, so that no user is stuck.

A job that has come through one class counts there. Demoted jobs have a choice: in order of entry,
each counts in the lowest class that leaves room for the others. The counts follow from the jobs
alone, in whatever order they were entered. So a class has room for one more job if the demoted jobs
can be counted so that all of them fit.

See docs/policy-decisions.md#classes-and-users.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

MOST_TRIES = 2_000
"""How often one search takes back a choice at most. Beyond that, a class counts as full."""

Left = dict[str, int]
"""The slots that are left, by class."""


class CountedJob(NamedTuple):
    """A job that holds slots of the pool. These sort in order of entry."""

    entry_time: int
    name: str
    slots: int
    classes: tuple[str, ...]
    """The classes that may count the job, the lowest first. Never empty."""


class ClassCounts:
    """The slots of one user in one pool, by class."""

    def __init__(self, limits: Mapping[str, int] | None) -> None:
        """`limits`: by class; a class without an entry may hold no slots. None: no limit."""
        self._limits = limits
        self._fixed: Counter[str] = Counter()
        """The slots of the jobs that have come through one class."""
        self._single: dict[str, CountedJob] = {}
        self._demoted: dict[str, CountedJob] = {}
        self._known: dict[str, str] | None = {}
        """The class of each demoted job; None: not known since a change."""
        self._rooms: dict[tuple[str, int], bool] = {}
        """The results of `has_room` since the last change."""

    def enter(self, job: CountedJob) -> None:
        if len(job.classes) > 1:
            self._demoted[job.name] = job
            self._has_changed()
            return
        (class_name,) = job.classes
        fits = self._limits is None or self._lacks(class_name, job.slots) <= 0
        self._single[job.name] = job
        self._fixed[class_name] += job.slots
        if fits:  # The demoted jobs stay where they are: with less room, none counts lower.
            self._rooms.clear()
        else:
            self._has_changed()

    def remove(self, name: str) -> None:
        single = self._single.pop(name, None)
        if single is None:
            del self._demoted[name]
        else:
            self._fixed[single.classes[0]] -= single.slots
        self._has_changed()

    def without(self, names: Collection[str]) -> ClassCounts:
        """The counts as they would be without these jobs."""
        rest = ClassCounts(self._limits)
        for job in (*self._single.values(), *self._demoted.values()):
            if job.name not in names:
                rest.enter(job)
        return rest

    def class_of(self, name: str) -> str:
        """The class that counts the job; empty: none of these jobs has the name."""
        single = self._single.get(name)
        return single.classes[0] if single else self._placed.get(name, "")

    def used(self, class_name: str) -> int:
        """The slots that count in the class."""
        there = (name for name, counted in self._placed.items() if counted == class_name)
        return self._fixed[class_name] + sum(self._demoted[name].slots for name in there)

    def has_room(self, class_name: str, slots: int) -> bool:
        """Whether the class has room for a further job of so many slots, perhaps after demoted jobs
        are counted in other classes."""
        if self._limits is None:
            return True
        if self._lacks(class_name, slots) <= 0:
            return True
        most = self._limits.get(class_name, 0)
        if self._fixed[class_name] + slots > most or class_name not in self._placed.values():
            return False
        if (class_name, slots) not in self._rooms:
            left = self._left()
            left[class_name] -= slots
            self._rooms[class_name, slots] = place(sorted(self._demoted.values()), left) is not None
        return self._rooms[class_name, slots]

    def left(self, class_name: str) -> int | None:
        """The most slots that a further job of the class may have; None: no limit."""
        if self._limits is None:
            return None
        sizes = range(1, self._limits.get(class_name, 0) + 1)
        return bisect_left(sizes, 1, key=lambda slots: int(not self.has_room(class_name, slots)))

    def over(self, class_name: str, slots: int) -> int:
        """The slots that the class lacks for a further job of so many slots, as all are counted."""
        return 0 if self._limits is None else max(0, self._lacks(class_name, slots))

    def _lacks(self, class_name: str, slots: int) -> int:
        assert self._limits is not None
        return self.used(class_name) + slots - self._limits.get(class_name, 0)

    @property
    def _placed(self) -> Mapping[str, str]:
        """The class of each demoted job. If they do not all fit (a limit was lowered), the first
        classes with room count them, and the rest is over the limit of its lowest class."""
        if self._known is None:
            jobs = sorted(self._demoted.values())
            if self._limits is None:
                self._known = {job.name: job.classes[0] for job in jobs}
            else:
                found = place(jobs, self._left()) or first_with_room(jobs, self._left())
                self._known = dict(zip((job.name for job in jobs), found, strict=True))
        return self._known

    def _left(self) -> Left:
        """The slots that the jobs with one class leave to the demoted ones."""
        assert self._limits is not None
        names = {name for job in self._demoted.values() for name in job.classes}
        return {name: max(0, self._limits.get(name, 0) - self._fixed[name]) for name in names}

    def _has_changed(self) -> None:
        self._known = None if self._demoted else {}
        self._rooms.clear()


def place(jobs: Sequence[CountedJob], left: Left) -> list[str] | None:
    """The class of each job: the first in its `classes` that leaves room for the jobs behind it.
    None: they do not all fit, or `MOST_TRIES` were not enough to find out."""
    if sum(job.slots for job in jobs) > sum(left.values()):
        return None
    left, names = dict(left), sorted(left)
    chosen: list[int] = []
    hopeless: set[tuple[int, ...]] = set()
    tries = choice = 0
    while len(chosen) < len(jobs):
        job = jobs[len(chosen)]
        state = (len(chosen), *(left[name] for name in names))
        fitting = range(choice, 0 if state in hopeless else len(job.classes))
        choice = next((i for i in fitting if job.slots <= left[job.classes[i]]), -1)
        if choice >= 0:
            left[job.classes[choice]] -= job.slots
            chosen.append(choice)
            choice = 0
            continue
        hopeless.add(state)
        tries += 1
        if not chosen or tries > MOST_TRIES:
            return None
        job, choice = jobs[len(chosen) - 1], chosen.pop()
        left[job.classes[choice]] += job.slots
        choice += 1
    return [job.classes[i] for job, i in zip(jobs, chosen, strict=True)]


def first_with_room(jobs: Sequence[CountedJob], left: Left) -> list[str]:
    """The first class of each job that still has room; without room, its lowest class."""
    left, found = dict(left), []
    for job in jobs:
        fitting = (name for name in job.classes if job.slots <= left[name])
        found.append(next(fitting, job.classes[0]))
        left[found[-1]] -= job.slots
    return found

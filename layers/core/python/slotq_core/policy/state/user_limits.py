"""The slots that each user holds and may hold, by class and pool.

Slots a user may hold per class and pool. Over what is left: waits, blocking none of the user's
smaller jobs. A class missing in a user's limits is 0 once the user has any limit for that pool,
else unlimited. A personal limit comes before those of the user's groups; of several groups the
largest limit holds. Stopping jobs and claims count. class_counts.py says which class counts a job.

In a pool with nodes the limits count in GPUs: a slot is as many as its instance has, and a job on
nodes counts its own.

See docs/policy-decisions.md#classes-and-users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import gpu_room
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import (
    PriorityClass,
    User,
    UserGroup,
    UserLimits,
    classes_of,
    names_by_value,
)
from slotq_core.policy.lifecycle.demotion import admitted_in
from slotq_core.policy.state.class_counts import ClassCounts, CountedJob
from slotq_core.policy.state.journal import Journal

_OPEN_CLASS = PriorityClass(name="", value=0)

Place = tuple[str, str]
"""A job's name and a pool. A moving job holds slots in one pool and a claim in another."""

NO_CLASS = ""
"""The class of a job that no user's limit keeps back."""


def limits_of(user: User, groups: Mapping[str, UserGroup]) -> UserLimits:
    """The user's limits merged with those of the groups, by pool and class."""
    if not user.groups:
        return user.limits
    found: dict[str, dict[str, int]] = {}
    for name in user.groups:
        for pool, limits in groups[name].limits.items() if name in groups else ():
            merged = found.setdefault(pool, {})
            for class_name, slots in limits.items():
                merged[class_name] = max(slots, merged.get(class_name, 0))
    for pool, limits in user.limits.items():
        found.setdefault(pool, {}).update(limits)
    return found


class Rights:
    """The limits of users, independent of their use."""

    def __init__(
        self,
        classes: Iterable[PriorityClass] = (),
        users: Iterable[User] = (),
        groups: Iterable[UserGroup] = (),
        *,
        contact: str = "",
    ) -> None:
        """`classes`: the configured classes; if there are none, HFAI's. `contact`: whom to ask for
        more."""
        configured, by_name = tuple(classes), {group.name: group for group in groups}
        users = tuple(users)
        self.contact = contact
        self._groups = {user.name: user.groups for user in users}
        self.classes = classes_of(configured)
        self._limits = {user.name: limits_of(user, by_name) for user in users}
        self.numbers_are_classes = bool(configured)
        """Whether a bare number takes the name of the class of that value."""

    @cached_property
    def _by_value(self) -> Mapping[int, str]:
        """Most plans ask for no class."""
        return names_by_value(self.classes)

    def limited(self, user: str, pool: str) -> bool:
        return pool in self._limits.get(user, ())

    def limits(self, user: str, pool: str) -> Mapping[str, int] | None:
        """The slots that the user may hold in the pool by class; None: no limit. A class without an
        entry may hold none."""
        return self._limits.get(user, {}).get(pool)

    def total(self, user: str, class_name: str, pool: str) -> int | None:
        """The slots that the user may hold in the class and pool; None: no limit."""
        limits = self.limits(user, pool)
        return None if limits is None else limits.get(class_name, 0)

    def limits_in_words(self, user: str, pools: Iterable[str]) -> str:
        """The user's limits in these pools, in words."""
        parts = (
            f"{slots} of {class_name} in pool {pool}"
            for pool in pools
            for class_name, slots in self._limits.get(user, {}).get(pool, {}).items()
            if slots
        )
        more = f"; {self.contact} can give more" if self.contact else ""
        return f"there are {', '.join(parts) or 'none at all'}{more}"

    def may_choose(self, job: Job) -> bool:
        """Whether the job's user may choose its class. A number between two classes is above the
        lower one, so it takes the right to choose that."""
        own = self.classes.get(self.class_of(job))
        below = (
            priority_class
            for priority_class in self.classes.values()
            if priority_class.value <= job.priority
        )
        chosen_by = (own or next(below, _OPEN_CLASS)).chosen_by
        user = (job.person, *self._groups.get(job.person, ()))
        return not chosen_by or any(name in chosen_by for name in user)

    def class_of(self, job: Job) -> str:
        """The class that the job was submitted with or, for AUTO, admitted in; empty: its number is
        no class's value."""
        named = job.admitted_class or job.priority_class
        return named or self._by_value.get(job.priority, "")

    def choices(self, job: Job) -> tuple[str, ...]:
        """The classes that may admit the job, the best first: for AUTO the highest class, for a
        demoted job the lowest."""
        if not job.auto or job.attempt is not None:
            return self.come_through(job)
        return (job.admitted_class,) if job.admitted_class else tuple(self.classes)

    def come_through(self, job: Job) -> tuple[str, ...]:
        """The classes that the job has come through, the lowest first, which is its present one.

        They follow from the name of its first class and from its priority, as its line does.
        """
        found = [self.class_of(job)]
        while (now := self.classes.get(found[-1])) and now.demote_to in self.classes:
            if self.classes[now.demote_to].value < job.priority:
                break
            found.append(now.demote_to)
        return tuple(reversed(found))


class UserBooks(Rights):
    """The slots that users hold during one plan."""

    def __init__(self, snapshot: Snapshot, journal: Journal) -> None:
        super().__init__(snapshot.classes, snapshot.users, snapshot.user_groups)
        self._journal = journal
        self._gpus = {
            pool.name: gpus
            for pool in snapshot.pools
            if pool.nodes is not None and (gpus := gpu_room(pool))
        }
        """By pool with nodes, the GPUs of a slot."""
        self._members = {job.name: job for job in snapshot.waiting if job.group}
        """Members of groups by name: a gang ranks as its lowest member, but each member counts in
        its own class."""
        self._counts: dict[tuple[str, str], ClassCounts] = {}
        """By user and pool."""
        self._counted: dict[Place, tuple[str, CountedJob]] = {}
        """The slots held and claimed, with the user."""
        self._stopping: dict[str, set[str]] = {}
        """By pool, the names of the jobs that were stopping when the plan began."""

    def begin(self, snapshot: Snapshot) -> None:
        """Enter the slots held and claimed when the plan begins."""
        if not self._limits:
            return
        for job in snapshot.active:
            assert job.attempt is not None
            pool, claimed = job.attempt.pool, job.claim.pool if job.claim else ""
            self.take(job, pool)
            if job.state is JobState.STOPPING and pool != claimed:
                self._stopping.setdefault(pool, set()).add(job.name)
            if claimed and pool != claimed:  # From node to node of one pool it counts once.
                self.take(job, claimed)
        for job in snapshot.waiting:
            if job.claim:
                self.take(job, job.claim.pool)

    def take(self, job: Job, pool: str) -> None:
        """Count the job's slots in the pool, held or claimed."""
        if self.limited(job.person, pool):
            own = self._members.get(job.name, job)
            slots = self._in_gpus(job, pool) if pool in self._gpus else job.demand.slots
            classes = self._once_admitted(job, pool)
            counted = CountedJob(own.entry_time, job.name, slots, classes)
            self._enter((job.name, pool), (job.person, counted))
            self._journal.record(self._remove, (job.name, pool))

    def give_back(self, job: Job, pool: str) -> None:
        place = (job.name, pool)
        if place in self._counted:
            self._journal.record(self._enter, place, self._counted[place])
            self._remove(place)

    def _enter(self, place: Place, counted: tuple[str, CountedJob]) -> None:
        self._counted[place] = user, job = counted
        self._of(user, place[1]).enter(job)

    def _remove(self, place: Place) -> None:
        user, job = self._counted.pop(place)
        self._of(user, place[1]).remove(job.name)

    def class_held(self, job: Job, pool: str) -> str:
        """The class that has admitted the job in the pool; empty: no limit counts the job."""
        place = (job.name, pool)
        return self._counted[place][1].classes[-1] if place in self._counted else ""

    def held(self, user: str, class_name: str, pool: str) -> int:
        """The slots that the user holds in the class and pool. A part of a slot counts as one."""
        return -(-self._of(user, pool).used(class_name) // self._gpus.get(pool, 1))

    def left(self, user: str, class_name: str, pool: str) -> int | None:
        """The slots still left to the user in the class and pool; None: no limit."""
        left = self._of(user, pool).left(class_name)
        return None if left is None else left // self._gpus.get(pool, 1)

    def choices(self, job: Job) -> tuple[str, ...]:
        return super().choices(self._members.get(job.name, job))

    def admits_in(self, job: Job, pool: str) -> str | None:
        """The class that admits the job in the pool, or None. AUTO takes, at each pass, the
        highest class in which the user has room.

        See docs/policy-decisions.md#classes-and-users.
        """
        counts = self._of(job.person, pool)
        slots = self._in_gpus(job, pool) if pool in self._gpus else job.demand.slots
        choices = self._choices_in(job, pool)
        return next((name for name in choices if counts.has_room(name, slots)), None)

    def will_admit(self, job: Job, pool: str) -> bool:
        """Whether a class will admit the job in the pool once stopping jobs have stopped."""
        if not self.limited(job.person, pool):
            return True
        counts = self._of(job.person, pool).without(self._stopping.get(pool, ()))
        slots = self._in_gpus(job, pool) if pool in self._gpus else job.demand.slots
        return any(counts.has_room(name, slots) for name in self._choices_in(job, pool))

    def common_class(self, parts: Sequence[Job]) -> str:
        """The highest class with room for each of these AUTO jobs, by itself, in its first pool; if
        no class has room, the highest class."""
        choices = list(self.choices(parts[0]))
        counts = [
            (
                self._of(part.person, part.pools[0]),
                part.demand.slots * self._gpus.get(part.pools[0], 1),
            )
            for part in parts
        ]
        with_room = (
            name
            for name in choices
            if all(class_counts.has_room(name, slots) for class_counts, slots in counts)
        )
        return next(with_room, choices[0])

    def missing(self, job: Job, pool: str) -> Mapping[str, Demand]:
        """By class, the slots that other jobs which count there would have to give for the job to
        fit; nothing in `NO_CLASS` if the job fits. No job gives for an AUTO job: it is below every
        class."""
        if job.auto or self.admits_in(job, pool) is not None:
            return {NO_CLASS: NOTHING}
        counts = self._of(job.person, pool)
        slots = self._in_gpus(job, pool) if pool in self._gpus else job.demand.slots
        return {
            name: Demand(slots=counts.over(name, slots)) for name in self._choices_in(job, pool)
        }

    def gives(self, others: Iterable[Job], class_name: str, user: str, pool: str) -> Demand:
        """The contribution of these jobs to the user's limit for the class in the pool."""
        counts, found = self._of(user, pool), 0
        for other in others:
            owner, counted = self._counted.get((other.name, pool), ("", None))
            if counted and owner == user and counts.class_of(other.name) == class_name:
                found += counted.slots
        return Demand(slots=found)

    def _of(self, user: str, pool: str) -> ClassCounts:
        if (user, pool) not in self._counts:
            limits = self.limits(user, pool)
            if limits is not None and pool in self._gpus:
                limits = {name: slots * self._gpus[pool] for name, slots in limits.items()}
            self._counts[user, pool] = ClassCounts(limits)
        return self._counts[user, pool]

    def _in_gpus(self, job: Job, pool: str) -> int:
        """The GPUs that the job counts in a pool with nodes."""
        whole = job.demand.slots * self._gpus[pool]
        on_nodes = job.gpus and (job.attempt is None or job.attempt.node)
        return min(job.gpus, whole) if on_nodes else whole

    def _choices_in(self, job: Job, pool: str) -> Sequence[str]:
        """The classes that may admit the job in the pool. A claim binds an AUTO job to one."""
        bound = job.claim.priority_class if job.claim and job.claim.pool == pool else ""
        open_still = job.auto and job.attempt is None and not job.admitted_class
        if open_still and bound in self.classes:
            return (bound,)
        return self.choices(job)

    def _once_admitted(self, job: Job, pool: str) -> tuple[str, ...]:
        """The classes that may count the job once it is admitted in the pool, the lowest first."""
        choices = self._choices_in(job, pool)
        if not job.auto or job.attempt is not None:
            return tuple(choices)
        admitting = self.classes[self.admits_in(job, pool) or choices[0]]
        own = self._members.get(job.name, job)
        return self.come_through(admitted_in(own, admitting, self.classes))

"""The slots that each user holds and may hold, by class and pool (DESIGN 5.3).

"Slots a user may hold per class and pool. Over what is left: waits, blocking none of the user's
smaller jobs. A class missing in a user's limits is 0 once the user has any limit for that pool,
else unlimited. Limits count the class it was admitted in." A personal limit comes before those of
the user's groups; of several groups the largest limit holds. Stopping jobs and claims count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import (
    AUTO,
    PriorityClass,
    User,
    UserGroup,
    UserLimits,
    classes_of,
    names_by_value,
)
from slotq_core.policy.state.journal import Journal

NO_LIMITS: UserLimits = {}

_ANYBODYS = PriorityClass(name="", value=0)

Key = tuple[str, str, str]
"""User, class and pool: what one limit counts."""

Counted = tuple[Key, int]
"""The limit that counts the slots of one job, and how many slots."""

Place = tuple[str, str]
"""A job's name and a pool. A moving job holds slots in one pool and a claim in another."""


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
    """The limits of users, whatever they hold."""

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
        configured, by_name = tuple(classes), {each.name: each for each in groups}
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

    def total(self, user: str, class_name: str, pool: str) -> int | None:
        """The slots that the user may hold in the class and pool; None: no limit."""
        limits = self._limits.get(user, {}).get(pool)
        return None if limits is None else limits.get(class_name, 0)

    def told(self, user: str, pools: Iterable[str]) -> str:
        """What the user may hold in these pools, in words."""
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
        below = (each for each in self.classes.values() if each.value <= job.priority)
        chosen_by = (own or next(below, _ANYBODYS)).chosen_by
        user = (job.person, *self._groups.get(job.person, ()))
        return not chosen_by or any(name in chosen_by for name in user)

    def class_of(self, job: Job) -> str:
        """The class that counts the job; empty: its number is no class's value."""
        named = job.admitted_class or job.priority_class
        return named or self._by_value.get(job.priority, "")

    def choices(self, job: Job) -> Iterable[str]:
        """The classes that may admit the job, the best first."""
        return self.classes if _is_open(job) else (self.class_of(job),)


class UserBooks(Rights):
    """The slots that users hold during one plan."""

    def __init__(self, snapshot: Snapshot, journal: Journal) -> None:
        super().__init__(snapshot.classes, snapshot.users, snapshot.user_groups)
        self._journal = journal
        self._held: Counter[Key] = Counter()
        self._counted: dict[Place, Counted] = {}
        self._stopping: Counter[Key] = Counter()
        """The part of `_held` that was stopping when the plan began."""

    def begin(self, snapshot: Snapshot) -> None:
        """Enter what is held and claimed when the plan begins."""
        if not self._limits:
            return
        for job in snapshot.active:
            assert job.attempt is not None
            self.take(job, job.attempt.pool)
            if job.state is JobState.STOPPING and (job.name, job.attempt.pool) in self._counted:
                key, slots = self._counted[job.name, job.attempt.pool]
                self._stopping[key] += slots
        for job in (*snapshot.active, *snapshot.waiting):
            if job.claim:
                self.take(job, job.claim.pool)

    def take(self, job: Job, pool: str) -> None:
        """Count the job's slots in the pool, held or claimed."""
        if self.limited(job.person, pool):
            counted = self.admits_in(job, pool) or next(iter(self._choices_in(job, pool)))
            key = (job.person, counted, pool)
            self._enter((job.name, pool), (key, job.demand.slots))
            self._journal.record(self._remove, (job.name, pool))

    def give_back(self, job: Job, pool: str) -> None:
        place = (job.name, pool)
        if place in self._counted:
            self._journal.record(self._enter, place, self._counted[place])
            self._remove(place)

    def _enter(self, place: Place, counted: Counted) -> None:
        key, slots = self._counted[place] = counted
        self._held[key] += slots

    def _remove(self, place: Place) -> None:
        key, slots = self._counted.pop(place)
        self._held[key] -= slots

    def class_held(self, job: Job, pool: str) -> str:
        """The class that counts the job in the pool; empty: no limit counts the job."""
        (_, class_name, _), _ = self._counted.get((job.name, pool), (("", "", ""), 0))
        return class_name

    def held(self, user: str, class_name: str, pool: str) -> int:
        return self._held[user, class_name, pool]

    def left(self, user: str, class_name: str, pool: str) -> int | None:
        """The slots still left to the user in the class and pool; None: no limit."""
        total = self.total(user, class_name, pool)
        return None if total is None else max(0, total - self.held(user, class_name, pool))

    def admits_in(self, job: Job, pool: str) -> str | None:
        """The class that admits the job in the pool, or None. "AUTO takes, at each pass, the
        highest class in which the user has room." (DESIGN 5.3)"""
        user, slots = job.person, job.demand.slots
        limits = self._limits.get(user, NO_LIMITS).get(pool)
        for class_name in self._choices_in(job, pool):
            if limits is None:
                return class_name
            if self._held[user, class_name, pool] + slots <= limits.get(class_name, 0):
                return class_name
        return None

    def will_admit(self, job: Job, pool: str) -> bool:
        """Whether a class will admit the job in the pool once stopping jobs have stopped."""
        if not self.limited(job.person, pool):
            return True
        return any(
            self._over(job, class_name, pool) <= self._stopping[job.person, class_name, pool]
            for class_name in self._choices_in(job, pool)
        )

    def common_class(self, parts: Sequence[Job]) -> str:
        """The highest class with room for each of these AUTO jobs, by itself, in its first pool; if
        there is none, the highest class."""
        choices = list(self.choices(parts[0]))
        with_room = (
            class_name
            for class_name in choices
            if not any(
                self.limited(part.person, part.pools[0])
                and self._over(part, class_name, part.pools[0])
                for part in parts
            )
        )
        return next(with_room, choices[0])

    def over(self, job: Job, pool: str) -> Demand:
        """The slots that others of the same limit would have to give for the job to fit. Nobody
        gives for an AUTO job: it is below every class."""
        if job.auto or not self.limited(job.person, pool):
            return NOTHING
        over = self._over(job, self.class_of(job), pool)
        return Demand(slots=over) if over else NOTHING

    def gives(self, others: Iterable[Job], job: Job, pool: str) -> Demand:
        """What these jobs would give to the limit that counts the job in the pool."""
        key = (job.person, self.class_of(job), pool)
        counted = (self._counted.get((other.name, pool)) for other in others)
        return Demand(slots=sum(each[1] for each in counted if each and each[0] == key))

    def _over(self, job: Job, class_name: str, pool: str) -> int:
        total = self.total(job.person, class_name, pool) or 0
        return max(0, self._held[job.person, class_name, pool] + job.demand.slots - total)

    def _choices_in(self, job: Job, pool: str) -> Iterable[str]:
        """The classes that may admit the job in the pool. A claim binds an AUTO job to one."""
        if job.claim and job.claim.pool == pool and job.claim.priority_class and _is_open(job):
            return (job.claim.priority_class,)
        return self.choices(job)


def _is_open(job: Job) -> bool:
    """Whether the job is AUTO and not admitted to a class yet."""
    return job.auto and job.attempt is None and job.admitted_class in {"", AUTO}

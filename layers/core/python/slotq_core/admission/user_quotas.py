"""The use of each user's limits, by pool and class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from slotq_core.admission.user_groups import users_among
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import Sharing
from slotq_core.policy.state.class_counts import ClassCounts, CountedJob
from slotq_core.policy.state.user_limits import Rights


@dataclass(frozen=True, kw_only=True, slots=True)
class UserQuota:
    """The limit and the use of one user in one pool and class."""

    user: str
    pool: str
    priority_class: str
    """Empty: numbers that are the value of no class."""
    used: int
    total: int | None
    """None: no limit."""
    beyond: tuple[str, ...]
    """The newest evictable jobs that would have to give their slots back for the rest to be within
    the limit; the newest first. Stopping jobs count as gone."""


def user_quotas(
    sharing: Sharing, pools: Sequence[Pool], active: Iterable[Job], users: Iterable[str] | None
) -> Iterator[UserQuota]:
    """Yield the quotas of these users (None: of all who hold slots or are listed), those that are
    above 0 or used: in the order of pools, then of classes, the highest first. A demoted job counts
    in one of its classes, as in a plan."""
    newest_first = sorted(active, key=lambda job: (job.entry_time, job.name), reverse=True)
    held: dict[str, list[Job]] = {}
    for job in newest_first:
        if job.person:
            held.setdefault(job.person, []).append(job)
    wanted = sorted({*held, *(user.name for user in sharing.users)} if users is None else users)
    rights = Rights(sharing.classes, users_among(sharing, wanted), sharing.user_groups)
    for user in wanted:
        for pool in pools:
            own = [job for job in held.get(user, ()) if pool.name in dict(job.holds)]
            counts = ClassCounts(rights.limits(user, pool.name))
            for job in own:
                slots = dict(job.holds)[pool.name].slots
                counted = rights.numbers_are_classes or rights.limited(user, pool.name)
                # No configured class has this number, so no limit bounds it.
                classes = rights.come_through(job) if counted or job.priority_class else ("",)
                counts.enter(CountedJob(job.entry_time, job.name, slots, classes))
            for class_name in (*rights.classes, ""):
                used = counts.used(class_name)
                total = rights.total(user, class_name, pool.name)
                if used or total:
                    yield UserQuota(
                        user=user,
                        pool=pool.name,
                        priority_class=class_name,
                        used=used,
                        total=total,
                        beyond=tuple(_beyond(own, counts, class_name, pool.name, total)),
                    )


def _beyond(
    newest_first: Iterable[Job], counts: ClassCounts, class_name: str, pool: str, total: int | None
) -> Iterator[str]:
    if total is None:
        return
    over = counts.used(class_name) - total
    jobs = [job for job in newest_first if counts.class_of(job.name) == class_name]
    stopping = [job for job in jobs if job.state is JobState.STOPPING]
    over -= sum(dict(job.holds)[pool].slots for job in stopping)
    for job in jobs:
        if over > 0 and job.state is not JobState.STOPPING and job.evictable:
            over -= dict(job.holds)[pool].slots
            yield job.name

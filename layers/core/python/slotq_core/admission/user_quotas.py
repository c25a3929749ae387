"""What users hold of what they may hold, by pool and class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from slotq_core.admission.user_groups import users_among
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import Sharing
from slotq_core.policy.state.user_limits import Rights

Held = Counter[tuple[str, str, str]]
"""Slots held, stopping jobs included, by user, pool and class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UserQuota:
    """What one user may hold in one pool and class, and holds."""

    user: str
    pool: str
    priority_class: str
    """Empty: numbers that are the value of no class."""
    used: int
    total: int | None
    """None: no limit."""


def user_quotas(
    sharing: Sharing, pools: Sequence[Pool], active: Iterable[Job], users: Iterable[str] | None
) -> Iterator[UserQuota]:
    """Yield the quotas of these users (None: of all who hold slots or are listed), those that are
    above 0 or used: in the order of pools, then of classes, the highest first."""
    active = [job for job in active if job.person]
    everybody = {job.person for job in active} | {user.name for user in sharing.users}
    wanted = sorted(everybody if users is None else users)
    rights = Rights(sharing.classes, users_among(sharing, wanted), sharing.user_groups)
    held: Held = Counter()
    for job in active:
        for name, demand in job.holds:
            held[job.person, name, rights.class_of(job)] += demand.slots
    for user in wanted:
        for pool in pools:
            for name in (*rights.classes, ""):
                used, total = held[user, pool.name, name], rights.total(user, name, pool.name)
                if used or total:
                    yield UserQuota(
                        user=user, pool=pool.name, priority_class=name, used=used, total=total
                    )

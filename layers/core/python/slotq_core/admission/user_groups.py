"""The users with limits among some persons, with their groups.

A group may name patterns of principals instead of hundreds of people. Therefore limits are looked
up only for the persons who have jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from slotq_core.model.sharing import Sharing
from slotq_core.model.users import User
from slotq_core.policy.state.user_limits import Rights
from slotq_core.privacy.identity import People


def users_among(sharing: Sharing, persons: Iterable[str]) -> tuple[User, ...]:
    """Return the users among these persons who have limits or belong to groups, in the order of
    their names. Jobs that name no person have no limits."""
    if not sharing.limits_users:
        return ()
    listed = {user.name: user for user in sharing.users}
    found = (_with_groups(sharing, listed.get(name), name) for name in sorted({*persons} - {""}))
    return tuple(user for user in found if user is not None)


def rights_of(sharing: Sharing, person: str) -> Rights:
    """Return the classes, and the limits and choices of this person."""
    users = users_among(sharing, [person])
    return Rights(sharing.classes, users, sharing.user_groups, contact=sharing.contact)


def _with_groups(sharing: Sharing, listed: User | None, person: str) -> User | None:
    matching = [
        group.name
        for group in sharing.user_groups
        if group.members and _is_member(group.members, sharing.session_roles, person)
    ]
    if not matching:
        return listed
    user = listed or User(name=person)
    return replace(user, groups=tuple(dict.fromkeys((*user.groups, *matching))))


@lru_cache(maxsize=65536)
def _is_member(members: tuple[str, ...], session_roles: tuple[str, ...], person: str) -> bool:
    people = People(session_roles=session_roles)
    return any(people.fit(pattern, person) for pattern in members)

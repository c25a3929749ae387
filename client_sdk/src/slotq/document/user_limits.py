"""A user's limit in a configuration document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slotq_core.model.users import classes_of


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The slots that somebody may hold in a class and pool."""

    user: str
    """A person, or a user group."""
    priority_class: str
    pool: str
    slots: int

    def of_group(self, document: Mapping[str, Any]) -> bool:
        """Whether the limit is a user group's."""
        return any(group["name"] == self.user for group in document.get("user_groups", ()))


def classes_in(document: Mapping[str, Any]) -> list[str]:
    """The names of the document's classes; of those that every queue has, if it has none."""
    return [entry["name"] for entry in document.get("classes", ())] or [*classes_of(())]


def with_limit(document: Mapping[str, Any], limit: Limit) -> dict[str, Any]:
    """Return the document with this limit. A person who has no entry yet gets one."""
    section = "user_groups" if limit.of_group(document) else "users"
    entries = [dict(entry) for entry in document.get(section, ())]
    entry = next((entry for entry in entries if entry["name"] == limit.user), None)
    if entry is None:
        entries.append(entry := {"name": limit.user})
    limits = entry.get("limits", {})
    of_pool = {**limits.get(limit.pool, {}), limit.priority_class: limit.slots}
    entry["limits"] = {**limits, limit.pool: of_pool}
    return {**document, section: entries}

"""Reservations in a changed configuration: whose they are, and when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slotq_core.errors import InvalidRequest, NoSuchProject, ProjectInUse
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import Settings
from slotq_core.spelling import unknown
from slotq_core.timestamps import zoned


def check(before: Settings, after: Settings, now: int) -> None:
    """Raises NoSuchProject if a reservation that has not ended at `now` (ms) names an unknown
    project, and ProjectInUse if the change removes that project."""
    projects = [project.name for project in after.sharing.projects]
    for pool in after.pools:
        for reservation in pool.reservations:
            name = reservation.project
            if name in projects or reservation.ends <= now:
                continue
            if before.sharing.project(name) is not None:
                since = zoned(reservation.begins, reservation.zone)
                raise ProjectInUse(
                    f"project '{name}' has a reservation in pool {pool.name} from {since}: cancel "
                    "that first"
                )
            raise NoSuchProject(
                f"pool '{pool.name}': reservations: {unknown('project', name, projects)}",
                field="reservations",
            )


def check_to_come(before: Pool | None, after: Pool, now: int) -> None:
    """Raises InvalidRequest for a new reservation that has ended before `now` (ms)."""
    known = before.reservations if before else ()
    for reservation in after.reservations:
        if reservation.ends <= now and reservation not in known:
            raise InvalidRequest(
                f"pool '{after.name}': the reservation for project '{reservation.project}' has "
                f"ended already, at {zoned(reservation.ends, reservation.zone)}",
                field="reservations",
            )


def without_ended(settings: Settings, now: int) -> Settings:
    """The settings without the reservations that have ended before `now` (ms)."""
    if not any(pool.reservations for pool in settings.pools):
        return settings
    return replace(settings, pools=tuple(_without_ended(settings.pools, now)))


def _without_ended(pools: Iterable[Pool], now: int) -> Iterable[Pool]:
    for pool in pools:
        left = tuple(found for found in pool.reservations if found.ends > now)
        yield pool if left == pool.reservations else replace(pool, reservations=left)

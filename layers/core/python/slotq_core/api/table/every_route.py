"""All routes, in the order of the description."""

from __future__ import annotations

from collections.abc import Mapping

from slotq_core.api.table.of_jobs import JOB_ROUTES
from slotq_core.api.table.of_queue import QUEUE_ROUTES
from slotq_core.api.table.of_settings import SETTING_ROUTES
from slotq_core.api.table.route import Route

ROUTES: tuple[Route, ...] = (*JOB_ROUTES, *SETTING_ROUTES, *QUEUE_ROUTES)

METHODS: Mapping[str, tuple[str, ...]] = {
    path: tuple(sorted(route.method for route in ROUTES if route.path == path))
    for path in dict.fromkeys(route.path for route in ROUTES)
}
"""The methods of each path."""

"""Refuse or warn of notifications that cannot be delivered from this deployment."""

from __future__ import annotations

from slotq_core.errors import InvalidRequest
from slotq_core.model.notices import NotificationMode
from slotq_core.notices.places import is_loopback
from slotq_core.wire.document.settings import Settings


def check_reach(settings: Settings, mode: NotificationMode) -> None:
    """Refuse a webhook on the queue's own machine, except in the emulator. Raises
    InvalidRequest."""
    for place, rule in enumerate(settings.sharing.notifications):
        if mode is not NotificationMode.LOCAL and is_loopback(rule.receiver.place):
            raise InvalidRequest(
                "https is needed, and a host that is not the queue's own machine: only the "
                "emulator calls itself",
                field=f"notifications[{place}].to.webhook",
            )


def warnings_of(settings: Settings, mode: NotificationMode) -> list[str]:
    """Return warnings for the operator, as sentences."""
    if mode is not NotificationMode.OFF or not settings.sharing.notifications:
        return []
    return [
        (
            "nobody is told anything: update the stack with the parameter Notifications=true "
            "(docs/notifications.md)"
        )
    ]

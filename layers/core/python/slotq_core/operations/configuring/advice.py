"""Warn of a configuration that cannot work: notifications without a notifier, instances that are to
stay warm for too long, and scheduler settings that give jobs up too soon.

FLARE's advice on the scheduler: all attempts together, at the shortest interval, should last a
little longer than the longest job. Else a waiting job may be given up although the job ahead of it
ends in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from slotq_core.errors import InvalidRequest
from slotq_core.model.notices import NotificationMode
from slotq_core.model.pools import Pool
from slotq_core.model.projects import Prescription
from slotq_core.model.sharing import SchedulerSettings, Settings
from slotq_core.notices.places import is_loopback
from slotq_core.policy.lifecycle.start_attempts import interval, lasts
from slotq_core.timestamps import lasting
from slotq_core.wire.pool_definition import LONG_WARM
from slotq_core.wire.training.field_paths import MISSING, value_at


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


def notification_warnings(settings: Settings, mode: NotificationMode) -> list[str]:
    """Return the warnings about notifications, as sentences."""
    if mode is not NotificationMode.OFF or not settings.sharing.notifications:
        return []
    return [
        (
            "no notification is sent: update the stack with the parameter Notifications=true "
            "(docs/notifications.md)"
        )
    ]


def warm_warnings(pools: Iterable[Pool]) -> Iterator[str]:
    """Yield a warning for each pool that keeps instances warm for longer than SageMaker's guide
    says is possible."""
    for pool in pools:
        if pool.keep_warm is not None and pool.keep_warm > LONG_WARM:
            yield (
                f"pool {pool.name}: keep_warm is {pool.keep_warm // 1000:,} s, and SageMaker's "
                f"guide knows {LONG_WARM // 1000:,} s at most, although its API takes more"
            )


_MAX_RUNTIME = "StoppingCondition.MaxRuntimeInSeconds"
_DEFAULT = 86_400
"""SageMaker's default (s) for requests without a maximum runtime."""
_MOST_NAMED = 5
"""The most pools that a warning names."""


def scheduler_warnings(settings: Settings) -> Iterator[str]:
    """Yield the warning, if the settings count attempts and a pool's longest job outlasts them."""
    scheduler = settings.sharing.scheduler
    if scheduler is None or scheduler.max_schedule_count is None:
        return
    covered = interval(scheduler, 1) * scheduler.max_schedule_count
    longest = {name: ms for name, ms in _longest_runtimes(settings).items() if ms > covered}
    if longest:
        yield _warning(scheduler, covered, longest)


def _warning(scheduler: SchedulerSettings, covered: int, longest: Mapping[str, int]) -> str:
    runtime = max(longest.values())
    names = ", ".join([*longest][:_MOST_NAMED]) + (" …" if len(longest) > _MOST_NAMED else "")
    enough = -(-runtime // interval(scheduler, 1))
    return (
        f"scheduler: min_schedule_interval x max_schedule_count is {lasting(covered)}, and a job "
        f"may run for {lasting(runtime)} (pools: {names}): a job that waits for it is given up "
        f"{lasting(lasts(scheduler))} after its first attempt; max_schedule_count: {enough:,} "
        "would outlast it"
    )


def _longest_runtimes(settings: Settings) -> Mapping[str, int]:
    """Return the longest runtime (ms) that is known of each pool: of the projects that may use it,
    what their rules fix, else their default, else SageMaker's. A request without a fixed value may
    ask for more."""
    projects = settings.sharing.projects
    found = {}
    for pool in settings.pools:
        rules = [
            project.requests
            for project in projects
            if pool.name in (project.requests.pools or [pool.name])
        ]
        longest = max(map(_runtime, rules), default=0) if projects else _DEFAULT
        found[pool.name] = 1000 * longest
    return found


def _runtime(rules: Prescription) -> int:
    """Return the longest runtime (s) that is known of a project."""
    runtimes = (value_at(fields, _MAX_RUNTIME) for fields in (rules.fixed, rules.defaults))
    return next((int(value) for value in runtimes if value is not MISSING), _DEFAULT)

"""Copy the pools and limits from the settings into the store, until somebody changes them there.

SLOTQ_POOLS and SLOTQ_LIMITS are initial values. Once somebody has changed the pools (`slotq pools`)
or the limits (`slotq limits`), the store's value counts: an update of the stack must not undo that
change. If the setting changes after that, the setting is refused with a message. A setting that
stays the same gives no message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slotq_core.adapters.deployment_settings import LIMITS_VARIABLE, POOLS_VARIABLE
from slotq_core.errors import ConfigurationLost, Conflict, Misconfigured, Oversubscribed, PoolInUse
from slotq_core.model.callers import Limits
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import NO_SHARING, Settings
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Configuration, ConfigurationChange
from slotq_core.storage.configured import as_configured
from slotq_core.timestamps import iso

_LOOKED_AT = 1000
"""Number of recent changes to search for the last change of a setting."""


@dataclass(frozen=True, kw_only=True)
class _Setting:
    """One setting to copy: the pools or the limits."""

    who: str
    """Name of the setting, recorded as the author of the change."""
    what: str
    """The setting's name in messages and on the command line."""
    wanted: Any
    read: Callable[[Configuration], Any]
    change: Callable[[ConfigurationChange], tuple[Any, Any]]
    """Returns the setting before and after a change."""
    check: Callable[[Configuration], None]
    """Raises Refused if the rest of the configuration contradicts the setting."""
    write: Callable[[Store, int, int], None]
    """Writes the setting. Takes the store, the moment (ms) and the revision decided on."""


PoolCheck = Callable[[Store, Sequence[Pool], Sequence[Pool], int], None]
"""Raises PoolInUse if jobs in the store need a pool that a change removes. Takes the pools before
and after, and the moment (ms)."""


def take_in(
    store: Store,
    pools: Sequence[Pool],
    limits: Limits | None = None,
    *,
    now: int,
    check_jobs: PoolCheck,
) -> str:
    """Copy these settings to the store, each if the setting still decides. `limits` None: no limits
    are set. Return why a setting was refused, else "".

    A refused change, or a lost configuration, must not stop the queue: the store keeps its value.
    Raises Misconfigured if the store has no pools then.
    """
    try:
        present = store.configuration.read()
    except ConfigurationLost as error:
        return str(error)
    wanted = [_pools(store, pools, now, check_jobs)]
    if limits is not None:
        wanted.append(_limits(limits))
    reports = []
    for setting in wanted:
        if setting.wanted != setting.read(present):
            reports.append(_take_in(store, setting, present, now))
            present = store.configuration.read()
    return "; ".join(filter(None, reports))


def _pools(store: Store, pools: Sequence[Pool], now: int, check_jobs: PoolCheck) -> _Setting:
    def check(configuration: Configuration) -> None:
        _check_sharing(configuration, as_configured(pools))
        check_jobs(store, configuration.pools, pools, now)

    return _Setting(
        who=POOLS_VARIABLE,
        what="pools",
        wanted=as_configured(pools),
        read=lambda configuration: as_configured(configuration.pools),
        change=lambda change: (as_configured(change.before), as_configured(change.after)),
        check=check,
        write=lambda store, now, seen: store.configuration.change(
            as_configured(pools), who=POOLS_VARIABLE, now=now, seen=seen
        ),
    )


def _limits(limits: Limits) -> _Setting:
    return _Setting(
        who=LIMITS_VARIABLE,
        what="limits",
        wanted=limits,
        read=lambda configuration: configuration.limits,
        change=lambda change: (change.limits_before, change.limits_after),
        check=lambda _: None,
        write=lambda store, now, seen: store.configuration.change(
            limits=limits, who=LIMITS_VARIABLE, now=now, seen=seen
        ),
    )


def _check_sharing(configuration: Configuration, pools: tuple[Pool, ...]) -> None:
    """Raises PoolInUse or Oversubscribed if projects or users name a removed pool, or have more
    than the remaining capacity."""
    if configuration.sharing == NO_SHARING:
        return
    # Only a change of the template comes here, so no other cold start pays for the rules.
    from slotq_core.admission.configuration import references, subscription
    from slotq_core.admission.configuration.subscription import SettingsInUse

    old = as_configured(configuration.pools)
    before = Settings(pools=old, limits=configuration.limits, sharing=configuration.sharing)
    after = replace(before, pools=pools)
    references.check(before, after)
    subscription.check(SettingsInUse(settings=before), SettingsInUse(settings=after))


def _take_in(store: Store, setting: _Setting, present: Configuration, now: int) -> str:
    last = _last(store, setting)
    if last and last.who != setting.who:
        return _overruled(store, setting, last)
    try:
        setting.check(present)
        setting.write(store, now, present.revision)
    except (Misconfigured, PoolInUse, Oversubscribed) as error:
        if not present.pools:
            raise
        return str(error)
    except Conflict:  # Another function, or an operator, was faster.
        return ""
    return ""


def _last(store: Store, setting: _Setting, who: str | None = None) -> ConfigurationChange | None:
    """Return the setting's last change, of `who` if given."""
    for change in store.configuration.changes(limit=_LOOKED_AT, who=who, sharing=False):
        before, after = setting.change(change)
        if before != after:
            return change
    return None


def _overruled(store: Store, setting: _Setting, last: ConfigurationChange) -> str:
    taken = _last(store, setting, setting.who)
    if taken and setting.change(taken)[1] == setting.wanted:
        return ""
    return (
        f"{setting.who} has changed, but is ignored: {last.who} has changed the {setting.what} "
        f"in the queue itself ({iso(last.at)}). Make the change with `slotq {setting.what}`, "
        f"and set {setting.who} back to its old value or to the queue's"
    )

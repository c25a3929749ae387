"""Change the configuration, on the record: who, when, before, after.

Each change is conditioned on the revision that it was decided on, so that two concurrent changes
never overwrite each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slotq_core.admission.access import Permissions
from slotq_core.errors import (
    Conflict,
    InvalidRequest,
    NoSuchPool,
    Outdated,
    PoolInUse,
    Unavailable,
)
from slotq_core.model.jobs import QUEUED_STATES, Job
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import Sharing
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Configuration, ConfigurationChange, Finding
from slotq_core.ports.surroundings import Clock
from slotq_core.timestamps import iso
from slotq_core.wire.limits_definition import limits_from
from slotq_core.wire.pool_definition import NOT_LIVE_YET, check_name, check_together, defined

_TRIES = 5
_NAMED = 3
"""Number of jobs that a refusal lists by name."""

Plan = Callable[[Configuration], Sequence[Pool]]


def ignored_settings(pools: Iterable[Pool]) -> Iterator[Finding]:
    """Find settings that an earlier version accepted and that have no effect."""
    for pool in pools:
        for key, why in NOT_LIVE_YET.items():
            if getattr(pool, key) is not None:
                option = f"--{key.replace('_', '-')} none"
                text = (
                    f"its {key} is ignored: {why}; `slotq pools set {pool.name} {option}` "
                    "removes it"
                )
                yield Finding(kind="ignored_setting", subject=pool.name, text=text)


class Configurator:
    """Changes pools and limits for operators."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        wake: Callable[[], None],
        *,
        permissions: Callable[[Sharing], Permissions] = lambda sharing: Permissions(
            sharing=sharing
        ),
    ) -> None:
        """Set up the configurator. `wake` is called after each change, because a change may allow
        new decisions. `permissions` gives what callers may do under a configuration."""
        self._store, self._clock, self._wake = store, clock, wake
        self._permissions = permissions

    def revision(self) -> int:
        """Return the revision of the configuration. Each change raises the revision."""
        return self._store.configuration().revision

    def changes(self, *, limit: int) -> tuple[ConfigurationChange, ...]:
        """Return the recorded changes, the latest first."""
        return self._store.changes(limit=limit)

    def set_pool(
        self, name: str, settings: Mapping[str, Any], *, by: str, seen: int | None = None
    ) -> None:
        """Give a pool these settings, as `pool_definition.defined` reads them. A new pool comes
        last.

        The same settings again change nothing. This is no error with an older `seen` either if `by`
        made the last change: the first answer may have been lost. Raises InvalidRequest, NoSuchPool
        (the pool does not exist and the settings are too few to create one), and Outdated (`seen`
        is given, and the revision is another one).
        """

        def planned(now: Configuration) -> Sequence[Pool]:
            before = _find(now, name)
            if before is None and not {"slots", "instance_type"} <= settings.keys():
                raise NoSuchPool(
                    f"{_not_there(name, now)}; a new one needs slots and instance_type",
                    field="name",
                )
            after = defined(name, settings, before)
            pools = [after if pool.name == name else pool for pool in now.pools]
            pools += [after] if before is None else []
            check_together(pools)
            return pools

        self._change(planned, by=by, seen=seen)

    def remove_pool(self, name: str, *, by: str, seen: int | None = None) -> None:
        """Remove a pool. Raises NoSuchPool, PoolInUse (jobs run in the pool, or wait for that pool
        alone), Outdated, and InvalidRequest for the last pool."""

        def planned(now: Configuration) -> Sequence[Pool]:
            if _find(now, name) is None:
                raise NoSuchPool(_not_there(name, now), field="name")
            rest = [pool for pool in now.pools if pool.name != name]
            if not rest:
                raise InvalidRequest(
                    f"{name} is the last pool: drain it, or give it 0 slots", field="name"
                )
            self._refuse_needed(name, {pool.name for pool in rest})
            return rest

        self._change(planned, by=by, seen=seen)

    def set_limits(self, settings: Mapping[str, Any], *, by: str, seen: int | None = None) -> None:
        """Change these limits, as `limits_definition.limits_from` reads them; the other limits
        stay. Raises InvalidRequest and Outdated."""

        def planned(now: Configuration) -> Configuration:
            return replace(now, limits=limits_from(settings, now.limits))

        def write(after: Configuration, seen: int) -> None:
            self._store.configure(limits=after.limits, who=by, now=self._clock.now(), seen=seen)

        self._decide(planned, write, by=by, seen=seen)

    def _change(self, planned: Plan, *, by: str, seen: int | None) -> None:
        def wanted(now: Configuration) -> Configuration:
            return replace(now, pools=tuple(planned(now)))

        def write(after: Configuration, seen: int) -> None:
            self._store.configure(after.pools, who=by, now=self._clock.now(), seen=seen)

        self._decide(wanted, write, by=by, seen=seen)

    def _decide(
        self,
        planned: Callable[[Configuration], Configuration],
        write: Callable[[Configuration, int], None],
        *,
        by: str,
        seen: int | None,
    ) -> None:
        for _ in range(_TRIES):
            now = self._store.configuration()
            after, last = planned(now), self._last()
            self._permissions(now.sharing).check_keeps_operating(after.sharing, by)
            is_current = seen in {None, now.revision}
            if after == now and (is_current or (last and last.who == by)):
                return
            if not is_current:
                raise _outdated(now.revision, seen, last)
            try:
                write(after, now.revision)
            except Conflict:
                continue
            self._wake()
            return
        raise Unavailable("somebody else is changing the configuration; try again")

    def _last(self) -> ConfigurationChange | None:
        return next(iter(self._store.changes(limit=1)), None)

    def _refuse_needed(self, name: str, rest: set[str]) -> None:
        """Raise PoolInUse if jobs wait for this pool alone: without the pool, these jobs would wait
        for ever."""
        waiting = self._store.load_all(self._clock.now()).snapshot.waiting
        there = {job.name: job for job in (*waiting, *self._store.jobs(QUEUED_STATES))}
        need = sorted(job.name for job in there.values() if _needs(job, name, rest))
        if need:
            named = ", ".join(need[:_NAMED]) + (" …" if len(need) > _NAMED else "")
            jobs = "1 job waits" if len(need) == 1 else f"{len(need)} jobs wait"
            raise PoolInUse(
                f"pool {name} cannot be removed: {jobs} for it alone ({named}); move or cancel "
                "them first",
                field="name",
            )


def _needs(job: Job, pool: str, rest: set[str]) -> bool:
    """Whether the job cannot run without the pool."""
    return not rest.intersection(job.pools) or any(part == pool for part, _ in job.parts)


def _outdated(revision: int, seen: int | None, last: ConfigurationChange | None) -> Outdated:
    by = f" ({last.who} changed it at {iso(last.at)})" if last else ""
    return Outdated(
        f"the configuration is now at revision {revision}{by}, not {seen}: read it again, then "
        "repeat the change",
        field="revision",
    )


def _find(now: Configuration, name: str) -> Pool | None:
    check_name(name)
    return next((pool for pool in now.pools if pool.name == name), None)


def _not_there(name: str, now: Configuration) -> str:
    there = ", ".join(pool.name for pool in now.pools)
    return f"there is no pool '{name}'; the pools are {there}" if there else "there is no pool"

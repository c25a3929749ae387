"""Settings of earlier versions that have no effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slotq_core.model.pools import Pool
from slotq_core.ports.stored import Finding
from slotq_core.wire.pool_definition import NOT_LIVE_YET


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

"""Report missing rights to operators: what backs off for each right, and what to add.

The doctor and the log of each pass use these reports. Mending clears the back-off: the next pass
tries again, and may evict for the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from slotq_core.model.pools import MissingRight, Pool
from slotq_core.policy.lifecycle import missing_rights
from slotq_core.policy.lifecycle.missing_rights import LACKS
from slotq_core.ports.configuration import Health, StoredConfiguration
from slotq_core.ports.stored import Finding
from slotq_core.timestamps import iso

KIND = "missing_right"


def descriptions(pools: Iterable[Pool]) -> Iterator[str]:
    """Yield one text for each missing right."""
    for pool in pools:
        for missing in pool.health.missing_rights:
            yield f"pool {pool.name}: {_text(missing)}"


def examine(configuration: StoredConfiguration, health: Health, *, mend: bool) -> list[Finding]:
    """Return one finding for each missing right. Raises Unavailable."""
    found = []
    for name in [pool.name for pool in configuration.pools()]:
        pool = health.pool(name)
        if pool is None or not pool.health.missing_rights:
            continue
        if mend:
            health.set(name, replace(pool.health, missing_rights=()))
        found += [
            Finding(kind=KIND, subject=name, text=_text(missing), mended=mend)
            for missing in pool.health.missing_rights
        ]
    return found


def is_missing_right(trouble: str) -> bool:
    """Whether this failure is a missing right."""
    return LACKS in trouble


def _text(missing: MissingRight) -> str:
    whose = f"jobs of execution role {missing.role} wait" if missing.role else "nothing starts"
    return (
        f"{LACKS}, {missing.action}, since {iso(missing.since)}: {whose}, until a retry after "
        f"{iso(missing.not_before)} succeeds. {_advice(missing)} ({missing.message})"
    )


def _advice(missing: MissingRight) -> str:
    """Return which right to add, and where."""
    match missing.action:
        case "iam:PassRole":
            return (
                "Name the role in the parameter ExecutionRoleArns, or cancel the jobs that name it."
            )
        case missing_rights.ASSUME_ROLE:
            return (
                "Create the role, and let sagemaker.amazonaws.com assume it in its trust "
                "policy, or cancel the jobs that name it."
            )
        case action if ":" in action and missing.role:
            return (
                f"Allow the queue's role {action} for what these jobs request. If a service "
                "control policy denies it, change what they request."
            )
        case action if ":" in action:
            return (
                f"Allow the queue's role {action}. The template allows it, so look for a policy "
                "that denies it."
            )
    return "Check the queue's credentials and the state of the account."

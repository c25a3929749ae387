"""Settings from text: the one parser of pools, and the clock.

The template's parameter `Pools`, the Lambda's environment variable SLOTQ_POOLS and
`slotq local start --pool` all mean what is written here. Two ways to say the same:

    main=2@ml.p4d.24xlarge
    big=2@ml.p5.48xlarge;reserve_after=600;min_runtime=300,small=8@ml.g5.xlarge

    [{"name": "big", "slots": 2, "instance_type": "ml.p5.48xlarge", "reserve_after": 600}]

Durations are whole seconds. `reserve_after`: how long a job that does not fit may be passed by
others (0: never passed; left out: always). `min_runtime`: how long an attempt is safe from
eviction. `max_min_runtime`: the most that a job's own min_runtime counts. `pending_timeout`: how
long SageMaker may look for instances before the job goes on to its next pool (left out: for ever).
`count_foreign` (true or false): whether training jobs outside the queue count against the pool.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from slotq_core.errors import Misconfigured
from slotq_core.model import Demand, Pool
from slotq_core.policy.plans import TrainingPlans
from slotq_core.policy.roles import ExecutionRoles

POOLS_VARIABLE = "SLOTQ_POOLS"
HISTORY_VARIABLE = "SLOTQ_HISTORY_DAYS"
ROLES_VARIABLE = "SLOTQ_EXECUTION_ROLES"
ROLE_USERS_VARIABLE = "SLOTQ_ROLE_USERS"
PLANS_VARIABLE = "SLOTQ_TRAINING_PLANS"
LOCAL_INSTANCE_TYPE = "ml.m5.large"
"""What a pool of the emulator offers where its type is left out."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_INSTANCE_TYPE = re.compile(r"ml\.[a-z0-9-]+\.[a-z0-9-]+")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+")
_PLAN = re.compile(r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:training-plan/[A-Za-z0-9-]+")
_MOST_SLOTS = 10_000
_LONGEST = 28 * 86400
_DURATIONS = ("reserve_after", "min_runtime", "max_min_runtime", "pending_timeout")
_SWITCHES = ("count_foreign",)
_KEYS = ("name", "slots", "instance_type", *_DURATIONS, *_SWITCHES)
_SETTINGS = (
    *(f"{name}=SECONDS" for name in _DURATIONS),
    *(f"{name}=true|false" for name in _SWITCHES),
)
_DAY = 86_400_000
_LONGEST_HISTORY = 365
_DEFAULT_HISTORY = 30


class SystemClock:
    """The real time (`ports.Clock`)."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000


def pools_from_environment(environment: Mapping[str, str] = os.environ) -> tuple[Pool, ...]:
    """The pools in SLOTQ_POOLS. Raises Misconfigured where it is missing or malformed."""
    text = environment.get(POOLS_VARIABLE, "")
    if not text.strip():
        raise Misconfigured(
            f"{POOLS_VARIABLE} is not set: write NAME=SLOTS@INSTANCE_TYPE, e.g. "
            "main=2@ml.p4d.24xlarge"
        )
    return parse_pools(text)


def history_from_environment(environment: Mapping[str, str] = os.environ) -> int:
    """How long ended jobs are kept (ms): SLOTQ_HISTORY_DAYS. Raises Misconfigured."""
    text = environment.get(HISTORY_VARIABLE, "").strip() or str(_DEFAULT_HISTORY)
    if not re.fullmatch(r"[0-9]{1,3}", text) or not 1 <= int(text) <= _LONGEST_HISTORY:
        raise Misconfigured(
            f"{HISTORY_VARIABLE} must be a whole number of days from 1 to {_LONGEST_HISTORY}, "
            f"not '{text[:40]}'"
        )
    return int(text) * _DAY


def roles_from_environment(environment: Mapping[str, str] = os.environ) -> ExecutionRoles:
    """The execution roles in SLOTQ_EXECUTION_ROLES, their ARNs comma separated (left out: any), and
    in SLOTQ_ROLE_USERS who may name them: `ROLE_ARN=CALLER_ARN`, comma separated, where `*` in
    CALLER_ARN stands for any text and a role may be there several times. Raises Misconfigured.
    """
    text, users = environment.get(ROLES_VARIABLE, ""), environment.get(ROLE_USERS_VARIABLE, "")
    roles = tuple(part.strip() for part in text.split(",") if part.strip())
    if wrong := next((role for role in roles if not _ROLE.fullmatch(role)), None):
        raise Misconfigured(f"{ROLES_VARIABLE}: '{wrong[:100]}' is not the ARN of a role")
    patterns: dict[str, tuple[str, ...]] = {}
    for entry in filter(None, (part.strip() for part in users.split(","))):
        role = next((each for each in roles if entry.startswith(f"{each}=arn:")), None)
        if role is None:
            raise Misconfigured(
                f"{ROLE_USERS_VARIABLE}: '{entry[:100]}' is not ROLE_ARN=CALLER_ARN with a role of "
                f"{ROLES_VARIABLE}"
            )
        patterns[role] = (*patterns.get(role, ()), entry.removeprefix(f"{role}="))
    return ExecutionRoles(allowed=roles or None, users=patterns)


def plans_from_environment(environment: Mapping[str, str] = os.environ) -> TrainingPlans:
    """The training plans in SLOTQ_TRAINING_PLANS, their ARNs comma separated: empty: none; not set:
    any. Raises Misconfigured."""
    text = environment.get(PLANS_VARIABLE)
    if text is None:
        return TrainingPlans()
    plans = tuple(part.strip() for part in text.split(",") if part.strip())
    if wrong := next((plan for plan in plans if not _PLAN.fullmatch(plan)), None):
        raise Misconfigured(f"{PLANS_VARIABLE}: '{wrong[:100]}' is not the ARN of a training plan")
    return TrainingPlans(allowed=plans)


def parse_pools(text: str, *, default_type: str | None = None) -> tuple[Pool, ...]:
    """The pools that a text names, in its order.

    `default_type` stands in where a pool leaves out its instance type; without it that is an error.
    Raises Misconfigured with the key at fault and the allowed values.
    """
    text = text.strip()
    entries = _json_entries(text) if text.startswith(("[", "{")) else _plain_entries(text)
    pools = tuple(_pool(entry, default_type) for entry in entries)
    names = [pool.name for pool in pools]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Misconfigured(f"the pool '{twice}' is there more than once")
    if not pools:
        raise Misconfigured("no pool is named: write NAME=SLOTS@INSTANCE_TYPE")
    return pools


def pools_text(pools: Iterable[Pool]) -> str:
    """The text that `parse_pools` reads back as these pools."""
    entries = [
        {
            "name": pool.name,
            "slots": pool.capacity.slots,
            "instance_type": pool.instance_type,
            "reserve_after": _seconds(pool.reserve_after),
            "min_runtime": pool.min_runtime // 1000,
            "max_min_runtime": pool.max_min_runtime // 1000,
            "pending_timeout": _seconds(pool.pending_timeout),
            "count_foreign": pool.count_foreign,
        }
        for pool in pools
    ]
    return json.dumps(entries)


def _json_entries(text: str) -> list[dict[str, Any]]:
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise Misconfigured(f"the pools are not JSON: {error}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Misconfigured("the pools must be a JSON list of objects")
    return entries


def _plain_entries(text: str) -> list[dict[str, Any]]:
    return [_plain_entry(part) for part in text.split(",") if part.strip()]


def _plain_entry(text: str) -> dict[str, Any]:
    """`NAME=SLOTS[@INSTANCE_TYPE][;KEY=VALUE …]`"""
    head, *settings = (part.strip() for part in text.split(";"))
    name, equals, rest = head.partition("=")
    slots, at, instance_type = (part.strip() for part in rest.partition("@"))
    if not equals:
        raise Misconfigured(f"'{text.strip()}' is no pool: write NAME=SLOTS@INSTANCE_TYPE")
    entry: dict[str, Any] = {"name": name.strip(), "slots": slots}
    if at:
        entry["instance_type"] = instance_type
    for setting in settings:
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or key not in {*_DURATIONS, *_SWITCHES} or key in entry:
            raise Misconfigured(
                f"pool '{entry['name']}': '{setting}' is not one of {', '.join(_SETTINGS)}"
            )
        entry[key] = value
    return entry


def _pool(entry: Mapping[str, Any], default_type: str | None) -> Pool:
    name = entry.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Misconfigured(
            f"pool name {name!r}: use 1 to 63 letters, digits, dots, hyphens and underscores, "
            "beginning with a letter or digit"
        )
    if unknown := next((key for key in entry if key not in _KEYS), None):
        raise Misconfigured(f"pool '{name}': '{unknown}' is not one of {', '.join(_KEYS)}")
    instance_type = entry.get("instance_type", default_type)
    if not isinstance(instance_type, str) or not _INSTANCE_TYPE.fullmatch(instance_type):
        raise Misconfigured(
            f"pool '{name}': instance_type must be one of SageMaker's, e.g. ml.p4d.24xlarge, not "
            f"{instance_type!r}"
        )
    return Pool(
        name=name,
        instance_type=instance_type,
        capacity=Demand(slots=_whole(name, "slots", entry.get("slots"), 1, _MOST_SLOTS)),
        reserve_after=_duration(name, "reserve_after", entry),
        min_runtime=_duration(name, "min_runtime", entry) or 0,
        max_min_runtime=_duration(name, "max_min_runtime", entry) or 0,
        pending_timeout=_duration(name, "pending_timeout", entry, at_least=1),
        count_foreign=_switch(name, "count_foreign", entry.get("count_foreign", False)),
    )


def _seconds(duration: int | None) -> int | None:
    return None if duration is None else duration // 1000


def _duration(pool: str, key: str, entry: Mapping[str, Any], *, at_least: int = 0) -> int | None:
    """Milliseconds."""
    if entry.get(key) is None:
        return None
    return 1000 * _whole(pool, key, entry[key], at_least, _LONGEST)


def _switch(pool: str, key: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value not in {"true", "false"}:
        raise Misconfigured(f"pool '{pool}': {key} must be true or false, not {value!r}")
    return bool(value == "true")


def _whole(pool: str, key: str, value: Any, low: int, high: int) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        value, whole = int(value), True
    if not whole or not low <= value <= high:
        raise Misconfigured(
            f"pool '{pool}': {key} must be a whole number from {low} to {high}, not {value!r}"
        )
    return int(value)

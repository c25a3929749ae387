"""Parse settings from text: the only parser of pools, and the clock.

The template's parameter `Pools`, the Lambda's environment variable SLOTQ_POOLS and `slotq local
start --pool` share this syntax, in a plain form and a JSON form:

    main=2@ml.p4d.24xlarge
    big=2@ml.p5.48xlarge;reserve_after=600;min_runtime=300,small=8@ml.g5.xlarge

    [{"name": "big", "slots": 2, "instance_type": "ml.p5.48xlarge", "reserve_after": 600}]

Durations are whole seconds. The settings:

- `reserve_after`: how long others may pass a job that does not fit (0: never; left out: always)
- `min_runtime`: how long an attempt is safe from eviction (left out in a new pool: `auto`, as long
  as a start takes)
- `max_min_runtime`: upper bound on a job's own min_runtime
- `stall_after`, `on_stall`, `stall_unreported`: when a script that reports nothing counts as
  stalled, and what becomes of its job
- `read_reports`: whether victims are chosen by their reported checkpoints
- `pending_timeout`: how long SageMaker may look for instances before the job goes on to its next
  pool (left out: for ever)
- `capacity_kind`: how the instances are bought: on_demand, spot or plan
- `plan_arn`: the training plan of a pool whose capacity_kind is plan
- `spot_wait`: how long a job of a spot pool may wait for instances beyond its longest runtime
- `keep_warm`: how long instances stay warm for the next job when a job ends
- `suspend_grace`: how long a script is asked to release its slots before its job is stopped
  (`true`: 5 seconds)
- `count_foreign`: whether training jobs outside the queue count against the pool
- `consolidate`: whether running jobs may move to another pool or node
- `resources`: the pool's resources besides slots (`resources=gpus:16+licences:2`, in JSON an
  object)
- `properties`: what its slots are like, which jobs may require and none uses up
  (`properties=mem_per_gpu_in_GiB:16`)
- `checkpoints`: what happens to a preemptible job without checkpoints: warn, provide or require
- `nodes`: how the pool keeps nodes (`nodes=on`, `nodes=keep:10m+share:pool`, in JSON an object;
  `slotq_core.wire.nodes.node_rules` has the keys)
- `windows`: when the pool is open (`windows=mon-fri 20:00-08:00 Europe/Berlin`, several joined by
  +; in JSON a list of texts, or of objects with days, from, to and zone)
- `state`: active, paused (nothing starts) or drained (paused, and the pool counts as gone)

`slotq_core.wire.pool_definition` defines the allowed values.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slotq_core.admission.roles_and_plans import ExecutionRoles, TrainingPlans
from slotq_core.errors import InvalidRequest, Misconfigured
from slotq_core.model.callers import Limits, fits_everybody
from slotq_core.model.notices import CallbackKind, NotificationMode
from slotq_core.model.pools import Pool
from slotq_core.wire.limits_definition import limits_from
from slotq_core.wire.pool_definition import (
    CHOICES,
    DURATIONS,
    PLAN_ARN,
    SWITCHES,
    check_together,
    defined,
    settings_of,
)

NOTIFICATIONS_VARIABLE = "SLOTQ_NOTIFICATIONS"
CALLBACKS_VARIABLE = "SLOTQ_CALLBACKS"
POOLS_VARIABLE = "SLOTQ_POOLS"
LIMITS_VARIABLE = "SLOTQ_LIMITS"
HISTORY_VARIABLE = "SLOTQ_HISTORY_DAYS"
ROLES_VARIABLE = "SLOTQ_EXECUTION_ROLES"
ROLE_USERS_VARIABLE = "SLOTQ_ROLE_USERS"
PLANS_VARIABLE = "SLOTQ_TRAINING_PLANS"
OPERATORS_VARIABLE = "SLOTQ_OPERATORS"
PROJECT_METRICS_VARIABLE = "SLOTQ_PROJECT_METRICS"
LOCAL_INSTANCE_TYPE = "ml.m5.large"
"""The default instance type of the emulator's pools."""

_ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+")
_BY_NAME = ("resources", "properties")
"""Settings that are amounts by name."""
_PLAIN = {
    **{name: f"{name}=SECONDS" for name in DURATIONS},
    **{name: f"{name}=true|false" for name in SWITCHES},
    **{name: f"{name}=NAME:AMOUNT+…" for name in _BY_NAME},
    "nodes": "nodes=on|KEY:VALUE+…",
    "windows": "windows=DAYS FROM-TO ZONE+…",
    "plan_arn": "plan_arn=ARN",
    **{name: f"{name}={'|'.join(type(word))}" for name, word in CHOICES.items()},
}
"""Settings that the plain form accepts after a pool's slots and type, with the syntax of each."""
_DAY = 86_400_000
_LONGEST_HISTORY = 365
_DEFAULT_HISTORY = 30
MOST_PROJECT_METRICS = 50
"""The most projects that have metrics of their own: four for each resource that quotas name."""


class SystemClock:
    """The system's time (`ports.Clock`)."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000


def pools_from_environment(environment: Mapping[str, str] = os.environ) -> tuple[Pool, ...]:
    """Return the pools in SLOTQ_POOLS. Raises Misconfigured if the variable is missing or
    malformed."""
    text = environment.get(POOLS_VARIABLE, "")
    if not text.strip():
        raise Misconfigured(
            f"{POOLS_VARIABLE} is not set: write NAME=SLOTS@INSTANCE_TYPE, e.g. "
            "main=2@ml.p4d.24xlarge"
        )
    return parse_pools(text)


def limits_from_environment(environment: Mapping[str, str] = os.environ) -> Limits | None:
    """Return the limits in SLOTQ_LIMITS, as `parse_limits` reads them. None if the variable is not
    set; an empty variable means no limits. Raises Misconfigured."""
    text = environment.get(LIMITS_VARIABLE)
    return None if text is None else parse_limits(text)


def parse_limits(text: str) -> Limits:
    """Return the limits in `text`: `waiting=1000,submissions=60`, or the same as a JSON object,
    which can also hold `callers`. Limits that are left out do not apply. Raises Misconfigured."""
    try:
        if text.lstrip().startswith("{"):
            return limits_from(json.loads(text))
        pairs = (part.partition("=") for part in text.split(",") if part.strip())
        return limits_from({key.strip(): value.strip() for key, _, value in pairs})
    except InvalidRequest as error:
        raise Misconfigured(f"{LIMITS_VARIABLE}: {error.message}") from None
    except ValueError as error:
        raise Misconfigured(f"{LIMITS_VARIABLE} is not JSON: {error}") from None


def history_from_environment(environment: Mapping[str, str] = os.environ) -> int:
    """Return how long ended jobs are kept (ms), from SLOTQ_HISTORY_DAYS. Raises Misconfigured."""
    text = environment.get(HISTORY_VARIABLE, "").strip() or str(_DEFAULT_HISTORY)
    if not re.fullmatch(r"[0-9]{1,3}", text) or not 1 <= int(text) <= _LONGEST_HISTORY:
        raise Misconfigured(
            f"{HISTORY_VARIABLE} must be a whole number of days from 1 to {_LONGEST_HISTORY}, "
            f"not '{text[:40]}'"
        )
    return int(text) * _DAY


def project_metrics_from_environment(environment: Mapping[str, str] = os.environ) -> int:
    """Return how many projects have metrics of their own, from SLOTQ_PROJECT_METRICS (left out: 0).
    Raises Misconfigured."""
    text = environment.get(PROJECT_METRICS_VARIABLE, "").strip() or "0"
    if not re.fullmatch(r"[0-9]{1,3}", text) or int(text) > MOST_PROJECT_METRICS:
        raise Misconfigured(
            f"{PROJECT_METRICS_VARIABLE} must be a whole number from 0 to {MOST_PROJECT_METRICS}, "
            f"not '{text[:40]}'"
        )
    return int(text)


def notification_mode_from_environment(
    environment: Mapping[str, str] = os.environ,
) -> NotificationMode:
    """Return whether the queue sends notifications, from SLOTQ_NOTIFICATIONS (default: off). Raises
    Misconfigured."""
    text = environment.get(NOTIFICATIONS_VARIABLE, "").strip() or NotificationMode.OFF.value
    try:
        return NotificationMode(text)
    except ValueError:
        known = ", ".join(NotificationMode)
        raise Misconfigured(f"{NOTIFICATIONS_VARIABLE} must be one of {known}") from None


def callback_kinds_from_environment(
    environment: Mapping[str, str] = os.environ,
) -> frozenset[CallbackKind]:
    """Return whose tokens the queue answers, from SLOTQ_CALLBACKS (comma separated; default: none).
    Raises Misconfigured."""
    texts = (text.strip() for text in environment.get(CALLBACKS_VARIABLE, "").split(","))
    try:
        return frozenset(CallbackKind(text) for text in texts if text)
    except ValueError:
        known = ", ".join(CallbackKind)
        raise Misconfigured(f"{CALLBACKS_VARIABLE} takes some of {known}") from None


def roles_from_environment(environment: Mapping[str, str] = os.environ) -> ExecutionRoles:
    """Return the allowed execution roles, and who may name them. Raises Misconfigured.

    SLOTQ_EXECUTION_ROLES holds the roles' ARNs, comma separated (left out: any role).
    SLOTQ_ROLE_USERS holds `ROLE_ARN=CALLER_ARN` entries, comma separated. `*` in CALLER_ARN
    matches any text, and a role may have several entries.
    """
    text, users = environment.get(ROLES_VARIABLE, ""), environment.get(ROLE_USERS_VARIABLE, "")
    roles = tuple(part.strip() for part in text.split(",") if part.strip())
    if wrong := next((role for role in roles if not _ROLE.fullmatch(role)), None):
        raise Misconfigured(f"{ROLES_VARIABLE}: '{wrong[:100]}' is not the ARN of a role")
    patterns: dict[str, tuple[str, ...]] = {}
    for entry in filter(None, (part.strip() for part in users.split(","))):
        role = next((role for role in roles if entry.startswith(f"{role}=arn:")), None)
        if role is None:
            raise Misconfigured(
                f"{ROLE_USERS_VARIABLE}: '{entry[:100]}' is not ROLE_ARN=CALLER_ARN with a role of "
                f"{ROLES_VARIABLE}"
            )
        patterns[role] = (*patterns.get(role, ()), entry.removeprefix(f"{role}="))
    return ExecutionRoles(allowed=roles or None, users=patterns)


def plans_from_environment(environment: Mapping[str, str] = os.environ) -> TrainingPlans:
    """Return the training plans in SLOTQ_TRAINING_PLANS, comma-separated ARNs (empty: none; not
    set: any). Raises Misconfigured."""
    text = environment.get(PLANS_VARIABLE)
    if text is None:
        return TrainingPlans()
    plans = tuple(part.strip() for part in text.split(",") if part.strip())
    if wrong := next((plan for plan in plans if not PLAN_ARN.fullmatch(plan)), None):
        raise Misconfigured(f"{PLANS_VARIABLE}: '{wrong[:100]}' is not the ARN of a training plan")
    return TrainingPlans(allowed=plans)


def operators_from_environment(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the operators in SLOTQ_OPERATORS: comma-separated patterns of callers' ARNs, in which
    `*` matches any text (empty: none). No configuration removes them. Raises Misconfigured."""
    text = environment.get(OPERATORS_VARIABLE, "")
    patterns = tuple(part.strip() for part in text.split(",") if part.strip())
    for pattern in patterns:
        if fits_everybody(pattern) or not pattern.startswith("arn:"):
            raise Misconfigured(
                f"{OPERATORS_VARIABLE}: '{pattern[:100]}' does not name a caller: write an ARN, "
                "such as arn:aws:iam::123456789012:role/Operators, in which * matches any text"
            )
    return patterns


def parse_pools(text: str, *, default_type: str | None = None) -> tuple[Pool, ...]:
    """Return the pools in a text, in order.

    `default_type` is the instance type of pools that give none; without `default_type`, a missing
    type is an error. Raises Misconfigured with the wrong key and the allowed values.
    """
    text = text.strip()
    entries = _json_entries(text) if text.startswith(("[", "{")) else _plain_entries(text)
    pools = tuple(_pool(entry, default_type) for entry in entries)
    names = [pool.name for pool in pools]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Misconfigured(f"the pool '{twice}' occurs more than once")
    if not pools:
        raise Misconfigured("name at least one pool: NAME=SLOTS@INSTANCE_TYPE")
    try:
        check_together(pools)
    except InvalidRequest as error:
        raise Misconfigured(error.message) from None
    return pools


def pools_text(pools: Iterable[Pool]) -> str:
    """Return the text that `parse_pools` reads back as these pools."""
    return json.dumps([{"name": pool.name, **settings_of(pool)} for pool in pools])


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
    """Parse `NAME=SLOTS[@INSTANCE_TYPE][;KEY=VALUE …]`."""
    head, *settings = (part.strip() for part in text.split(";"))
    name, equals, rest = head.partition("=")
    slots, at, instance_type = (part.strip() for part in rest.partition("@"))
    if not equals:
        raise Misconfigured(f"'{text.strip()}' is not a pool: write NAME=SLOTS@INSTANCE_TYPE")
    entry: dict[str, Any] = {"name": name.strip(), "slots": slots}
    if at:
        entry["instance_type"] = instance_type
    for setting in settings:
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or key not in _PLAIN or key in entry:
            raise Misconfigured(
                f"pool '{entry['name']}': '{setting}' is not one of {', '.join(_PLAIN.values())}"
            )
        entry[key] = _nodes(value) if key == "nodes" else value
        if key in _BY_NAME:
            entry[key] = dict(_pairs(value))
    return entry


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Parse `gpus:8+licences:2`."""
    for part in text.split("+"):
        name, _, amount = part.partition(":")
        yield name.strip(), amount.strip()


def _nodes(text: str) -> Any:
    """Parse `keep:10m+share:pool`, or a switch."""
    if ":" not in text:
        return text
    from slotq_core.wire.nodes.node_rules import from_texts  # Few pools have nodes.

    return from_texts(_pairs(text))


def _pool(entry: Mapping[str, Any], default_type: str | None) -> Pool:
    settings = {key: value for key, value in entry.items() if key != "name"}
    if default_type is not None:
        settings.setdefault("instance_type", default_type)
    try:
        return defined(entry.get("name"), settings)
    except InvalidRequest as error:
        raise Misconfigured(error.message) from None

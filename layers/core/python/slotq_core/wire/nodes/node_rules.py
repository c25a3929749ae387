"""How a pool keeps nodes, as a setting: its keys, their bounds, and the rules that they make.

In JSON and in a configuration document:

    {gpus: 8, keep: 600, share: pool, image: …, role: …,
     vpc: {subnets: […], security_groups: […]}, gpu_ids: […]}

In text, `KEY=VALUE` for each: `keep=10m`, `vpc.subnets=subnet-1,subnet-2`. Durations are whole
seconds. `{}`, true and "on" are nodes with the defaults; null, false and "off" are no nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from slotq_core.errors import InvalidRequest
from slotq_core.model.pools import LONGEST, NodeRules
from slotq_core.timestamps import seconds_in

MOST_GPUS = 64
"""The most GPUs of one node."""
LONGEST_KEEP = LONGEST // 1000
"""Seconds."""
DEFAULT_KEEP = NodeRules().keep // 1000


class NodeShare(StrEnum):
    """Who shares a node."""

    PROJECT = "project"
    """The jobs of one project."""
    POOL = "pool"
    """The jobs of every project: the operator says that these trust each other."""


KEYS = ("gpus", "keep", "share", "image", "role", "vpc", "gpu_ids")
VPC_KEYS = ("subnets", "security_groups")
TEXT_KEYS = (*(key for key in KEYS if key != "vpc"), *(f"vpc.{key}" for key in VPC_KEYS))
"""The keys of `KEY=VALUE`."""

MOST_SUBNETS, MOST_GROUPS = 16, 5
"""SageMaker's limits."""
IMAGE = re.compile(r"[^\s]{1,255}")
ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]{1,512}")
_VPC_ID = re.compile(r"[A-Za-z0-9-]{1,32}")
_GPU_ID = re.compile(r"[A-Za-z0-9._:/-]{1,80}")
_PRETENDED = re.compile(r"pretend:([0-9]{1,9})(?:x[0-9]{1,9})?")
"""How many GPUs an agent is to pretend, each with how much memory (MiB)."""
_SWITCHED: Mapping[bool | str, Mapping[str, Any] | None] = {
    **{word: {} for word in (True, "true", "on")},
    **dict.fromkeys((False, "false", "off")),
}
_LISTS = ("gpu_ids", "vpc.subnets", "vpc.security_groups")


def node_rules(pool: str, value: object, *, known: int) -> NodeRules | None:
    """Return the rules of the setting `nodes`; None: no nodes. `known`: the GPUs of one instance,
    as far as SlotQ knows; 0: it does not.

    Raises InvalidRequest with the path of the wrong key as its field.
    """
    value = switched(value)
    if value is None:
        return None
    wanted = _object(pool, "nodes", value, KEYS)
    vpc = _object(pool, "nodes.vpc", wanted.get("vpc") or {}, VPC_KEYS)
    rules = NodeRules(
        gpus=_gpus(pool, wanted.get("gpus"), known),
        keep=1000 * _keep(pool, wanted.get("keep", DEFAULT_KEEP)),
        shared=_share(pool, wanted.get("share", NodeShare.PROJECT)) is NodeShare.POOL,
        image=_text(pool, "image", wanted, IMAGE, "an image's URI of at most 255 characters"),
        role=_text(pool, "role", wanted, ROLE, "an execution role's ARN"),
        subnets=_ids(pool, "vpc.subnets", vpc.get("subnets"), MOST_SUBNETS),
        security_groups=_ids(pool, "vpc.security_groups", vpc.get("security_groups"), MOST_GROUPS),
        gpu_ids=_gpu_ids(pool, wanted.get("gpu_ids")),
    )
    _check_together(pool, rules)
    return rules


def switched(value: object) -> object:
    """Return a switch as the setting that it means, and any other value as it is."""
    return _SWITCHED.get(value, value) if isinstance(value, bool | str) else value


def on_other_instances(rules: NodeRules, *, before: int, after: int) -> NodeRules:
    """Return the rules once the pool has instances of another type, which are known to have `after`
    GPUs (0: not known), where they had `before`. GPU ids were those of the old ones."""
    if not after or after == rules.gpus or rules.gpus != before:
        return rules
    return replace(rules, gpus=after, gpu_ids=())


def node_settings(rules: NodeRules | None) -> dict[str, Any] | None:
    """Return the setting, as `node_rules` takes it, with every key."""
    if rules is None:
        return None
    return {
        "gpus": rules.gpus,
        "keep": rules.keep // 1000,
        "share": (NodeShare.POOL if rules.shared else NodeShare.PROJECT).value,
        "image": rules.image,
        "role": rules.role,
        "vpc": {"subnets": [*rules.subnets], "security_groups": [*rules.security_groups]},
        "gpu_ids": [*rules.gpu_ids],
    }


def from_texts(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the setting in JSON's form of keys and texts, as `node_rules` takes it. What is wrong
    stays as it is: `node_rules` refuses it by name."""
    setting: dict[str, Any] = {}
    for key, text in pairs:
        value: Any = text
        if key in _LISTS:
            value = [part for part in re.split("[, ]+", text) if part]
        elif key in {"gpus", "keep"} and re.fullmatch("[0-9]{1,9}", text):
            value = int(text)
        elif key == "keep":
            value = seconds_in(text) or text
        if key.startswith("vpc.") and key in TEXT_KEYS:
            setting.setdefault("vpc", {})[key.removeprefix("vpc.")] = value
        else:
            setting[key] = value
    return setting


def _object(pool: str, path: str, value: object, keys: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(pool, path, f"an object with some of {', '.join(keys)}", value)
    for key in value:
        if key not in keys:
            known = ", ".join(keys)
            message = f"pool '{pool}': {path}: '{str(key)[:40]}' is not one of {known}"
            raise InvalidRequest(message, field=f"{path}.{key}")
    return value


def _gpus(pool: str, value: object, known: int) -> int:
    if value in {None, 0} and not isinstance(value, bool):
        if known:
            return known
        raise InvalidRequest(
            f"pool '{pool}': nodes.gpus is needed: SlotQ knows of no GPUs in an instance of this "
            "pool",
            field="nodes.gpus",
        )
    gpus = _whole(pool, "gpus", value, 1, MOST_GPUS)
    if known and gpus != known:
        raise InvalidRequest(
            f"pool '{pool}': nodes.gpus is {gpus}, but each instance has {known}: leave gpus out",
            field="nodes.gpus",
        )
    return gpus


def _keep(pool: str, value: object) -> int:
    value = seconds_in(value) or value if isinstance(value, str) else value
    return _whole(pool, "keep", value, 0, LONGEST_KEEP)


def _share(pool: str, value: object) -> NodeShare:
    if not isinstance(value, str) or value not in tuple(NodeShare):
        raise _wrong(pool, "nodes.share", f"one of {', '.join(NodeShare)}", value)
    return NodeShare(value)


def _text(
    pool: str, key: str, wanted: Mapping[str, Any], pattern: re.Pattern[str], right: str
) -> str:
    value = wanted.get(key)
    if value in {None, ""}:
        return ""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _wrong(pool, f"nodes.{key}", right, value)
    return value


def _ids(pool: str, key: str, value: object, most: int) -> tuple[str, ...]:
    right = f"a list of at most {most} ids of letters, digits and hyphens, each once"
    return _list(pool, key, value, pattern=_VPC_ID, most=most, right=right)


def _gpu_ids(pool: str, value: object) -> tuple[str, ...]:
    right = f"a list of at most {MOST_GPUS} ids as CUDA_VISIBLE_DEVICES takes them, each once"
    return _list(pool, "gpu_ids", value, pattern=_GPU_ID, most=MOST_GPUS, right=right)


def _list(
    pool: str, key: str, value: object, *, pattern: re.Pattern[str], most: int, right: str
) -> tuple[str, ...]:
    found = [] if value is None else value
    if (
        not isinstance(found, list | tuple)
        or len(found) > most
        or not all(isinstance(one, str) and pattern.fullmatch(one) for one in found)
        or len(set(found)) < len(found)
    ):
        raise _wrong(pool, f"nodes.{key}", right, value)
    return tuple(found)


def _check_together(pool: str, rules: NodeRules) -> None:
    if bool(rules.subnets) != bool(rules.security_groups):
        missing = "subnets" if rules.security_groups else "security_groups"
        raise InvalidRequest(
            f"pool '{pool}': nodes.vpc needs subnets and security_groups, both or neither",
            field=f"nodes.vpc.{missing}",
        )
    named = _named_gpus(pool, rules.gpu_ids)
    if rules.gpu_ids and named != rules.gpus:
        what = f" ({rules.gpu_ids[0]})" if named != len(rules.gpu_ids) else ""
        raise InvalidRequest(
            f"pool '{pool}': nodes.gpu_ids names {named} GPUs{what}, and each node has "
            f"{rules.gpus}",
            field="nodes.gpu_ids",
        )


def _named_gpus(pool: str, ids: tuple[str, ...]) -> int:
    """How many GPUs the ids name. One alone may pretend several."""
    pretends = [one for one in ids if one.startswith("pretend:")]
    if not pretends:
        return len(ids)
    found = _PRETENDED.fullmatch(ids[0])
    if found is None or len(ids) > 1:
        raise InvalidRequest(
            f"pool '{pool}': nodes.gpu_ids: '{pretends[0]}' is not alone, or not in the form "
            "pretend:N or pretend:NxMIB",
            field="nodes.gpu_ids",
        )
    return int(found[1])


def _whole(pool: str, key: str, value: object, low: int, high: int) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not low <= value <= high:  # type: ignore[operator]
        seconds = " of seconds" if key == "keep" else ""
        right = f"a whole number{seconds} from {low} to {high:,}"
        raise _wrong(pool, f"nodes.{key}", right, value)
    return int(value)  # type: ignore[call-overload, no-any-return]


def _wrong(pool: str, path: str, right: str, value: object) -> InvalidRequest:
    shown = repr(value)
    shown = shown if len(shown) <= 200 else shown[:199] + "…"
    return InvalidRequest(f"pool '{pool}': {path} must be {right}, not {shown}", field=path)

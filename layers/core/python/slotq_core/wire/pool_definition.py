"""A pool's definition: its settings, their bounds, and the pool that they make.

The template's parameter, the emulator's command line and the API all use this definition. Durations
are whole seconds. None means "none": without `reserve_after` others may pass a job for ever,
without `pending_timeout` SageMaker may look for instances for ever, without `time_slice` no jobs
take turns, without `stall_after` no jobs stall. `suspend_grace` may also be true or "on", which is
GRACE, and false or "off". `min_runtime` may also be "auto".

Nobody has to declare what instances contain (`contents_of`). A pool may, if its number is the right
one. Another is refused when it is set; pools from before this rule keep theirs until then.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from slotq_core.errors import InvalidRequest
from slotq_core.model import pools as model
from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.demand import Demand
from slotq_core.model.pools import AUTO, CapacityKind, Pool
from slotq_core.timestamps import seconds_in
from slotq_core.wire import traits
from slotq_core.wire.training.instance_types import CONTENTS, MEMORY_PER_GPU, NAMES

if TYPE_CHECKING:
    from slotq_core.model.capacity.reservations import Reservation

MOST_POOLS = 500
"""The most pools of a queue."""
MOST_SLOTS = 10_000
MOST_OF_A_RESOURCE = 1_000_000
"""Also the most of a property."""
MOST_NAMES = 32
"""The most resources of a pool, and the most properties. An update of DynamoDB has at most 4 KB."""
LONGEST = model.LONGEST // 1000
"""Seconds."""
GRACE = 5
"""The `suspend_grace` (s) of a pool that switches it on without a number."""

LONGEST_NAME = 63
"""The most characters of a pool's name, in a queue and in a scenario."""
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}")
NAME_RULE = (
    f"1 to {LONGEST_NAME} letters, digits, dots, hyphens and underscores, beginning with a letter "
    "or digit"
)
CLASS_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}")
"""A priority class's name. It begins with a letter, so it is no number."""
INSTANCE_TYPE = re.compile(r"ml\.[a-z0-9-]+\.[a-z0-9-]+")
LONGEST_PLAN = 2_048
"""The most characters of a training plan's ARN: SageMaker's limit."""
PLAN_ARN = re.compile(r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:training-plan/[A-Za-z0-9-]+")
RESOURCE = re.compile(r"[a-z][a-z0-9_]{0,30}")
PROPERTY = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,30}")
_AMOUNT = re.compile(r"(?P<number>[0-9]{1,9})((?P<unit>[KMGT])(i|iB)?)?")
_SIZES = {unit: 1024**power for power, unit in enumerate("KMGT", start=1)}
_FIELDS = {field.name: field for field in fields(Pool)}
DURATIONS: Mapping[str, int] = {
    name: field.metadata.get("least", 0) // 1000
    for name, field in _FIELDS.items()
    if str(field.type).startswith("Duration")
}
"""Durations, each with its smallest value (s)."""
SWITCHES: Mapping[str, bool] = {
    name: field.default for name, field in _FIELDS.items() if isinstance(field.default, bool)
}
"""Settings that are true or false, each with its default."""
AUTOMATIC = "auto"
"""The word for AUTO."""
MAY_BE_AUTO = frozenset(name for name in DURATIONS if _FIELDS[name].metadata.get("auto"))
"""Durations that may be AUTO."""
CHOICES: Mapping[str, StrEnum] = {
    name: field.default for name, field in _FIELDS.items() if isinstance(field.default, StrEnum)
}
"""Settings that are one of a few words, each with its default."""
_SWITCHED = {True: GRACE, False: 0, "true": GRACE, "on": GRACE, "false": 0, "off": 0}
"""The words for a `suspend_grace`, in seconds."""
SETTINGS = (
    "slots", "instance_type", *DURATIONS, *SWITCHES, "resources", "properties", *CHOICES, "nodes",
    "windows", "plan_arn", "reservations",
)  # fmt: skip
"""All settings of a pool but its name."""
FORGET_LIMIT = "forget_limit"
"""In a change of a pool: forget the results of SageMaker's refusals."""


NO_SPOT_NODES = (
    "a spot pool has no nodes, because SageMaker may take a node's instance with all its jobs: "
    "leave out nodes, or capacity_kind"
)

NO_NODES_WITH_HOURS = (
    "a pool with windows has no nodes, because a node's jobs would all end with the window: leave "
    "out nodes, or windows"
)
NO_SPOT_WARM = "SageMaker keeps no spot instances warm: leave out keep_warm, or capacity_kind"
NO_NODES_WARM = "a pool with nodes keeps its instances by nodes.keep: leave out keep_warm, or nodes"
NO_PLAN_NODES = (
    "a pool of a training plan has no nodes, because a node's jobs would all end with the plan's "
    "window: leave out nodes, or capacity_kind"
)
NO_PLAN_WARM = (
    "the instances of a training plan are paid for anyway: leave out keep_warm, or capacity_kind"
)
FIXED_WORK = (
    "its kind of work stays, because jobs of that kind may wait there: remove the pool, and create "
    "it anew"
)
NO_PROCESSING = "a pool of processing jobs has none: SageMaker's quota of them is on demand"
"""Of nodes, spot instances, plans and warm instances."""
NO_PLAN_HOURS = "a pool of a training plan has the plan's windows: leave out windows, or plan_arn"
NEEDS_PLAN = "capacity_kind plan needs the plan: give plan_arn"
NO_PLAN = "only capacity_kind plan has a plan_arn: set capacity_kind to plan, or leave out plan_arn"
LONG_WARM = 3_600_000
"""The longest time (ms) that SageMaker's guide names for warm instances; its API takes more."""


def warm_clash(pool: Pool | None) -> str:
    """Why the pool cannot keep instances warm; empty if it can, or keeps none."""
    if pool is None or not pool.keep_warm:
        return ""
    if pool.capacity_kind is CapacityKind.SPOT:
        return NO_SPOT_WARM
    if pool.capacity_kind is CapacityKind.PLAN:
        return NO_PLAN_WARM
    return NO_NODES_WARM if pool.nodes is not None else ""


class PlanClash(NamedTuple):
    """What does not go with a pool's training plan, or with its kind of work."""

    setting: str
    said: str


class Bought(Protocol):
    """The fields that `plan_clash` reads, of a pool or of its section in a document."""

    @property
    def capacity_kind(self) -> CapacityKind: ...
    @property
    def plan_arn(self) -> str: ...
    @property
    def windows(self) -> tuple[str, ...]: ...
    @property
    def nodes(self) -> object: ...
    @property
    def work(self) -> WorkKind: ...
    @property
    def keep_warm(self) -> int | None: ...


def plan_clash(pool: Bought) -> PlanClash | None:
    """What of the pool's settings does not go with its training plan, or with none, or with
    processing jobs."""
    if pool.work is WorkKind.PROCESSING:
        return _processing_clash(pool)
    if pool.capacity_kind is not CapacityKind.PLAN:
        return PlanClash("plan_arn", NO_PLAN) if pool.plan_arn else None
    if not pool.plan_arn:
        return PlanClash("plan_arn", NEEDS_PLAN)
    if pool.windows:
        return PlanClash("windows", NO_PLAN_HOURS)
    return PlanClash("nodes", NO_PLAN_NODES) if pool.nodes is not None else None


def _processing_clash(pool: Bought) -> PlanClash | None:
    if pool.capacity_kind is not CapacityKind.ON_DEMAND:
        return PlanClash("capacity_kind", NO_PROCESSING)
    for setting in ("nodes", "keep_warm", "plan_arn"):
        if getattr(pool, setting):
            return PlanClash(setting, NO_PROCESSING)
    return None


SPELLINGS = {"num_gpus": "gpus", "num_of_gpus": "gpus"}
"""The words of others, NVIDIA FLARE's, for what SlotQ knows by another name."""


class _Names(NamedTuple):
    """How one kind of amounts is named, and the least amount."""

    pattern: re.Pattern[str]
    letters: str
    example: str
    least: int


_RESOURCE_NAMES = _Names(RESOURCE, "a-z, 0-9 and _", '{"gpus": 8}', 0)
_PROPERTY_NAMES = _Names(PROPERTY, "a-z, A-Z, 0-9 and _", '{"mem_per_gpu_in_GiB": 16}', 1)

_ABSENT = frozenset(name for name in DURATIONS if _FIELDS[name].default is None)
"""Durations that may be None; the others are then 0."""


def check_name(name: object) -> str:
    """The name, if legal. Raises InvalidRequest."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidRequest(
            f"pool name {name!r}: use {NAME_RULE}",
            field="name",
        )
    return name


def defined(name: object, settings: Mapping[str, Any], before: Pool | None = None) -> Pool:
    """The pool with these settings. A setting that is not named stays as in `before`. A new pool
    needs `slots` and `instance_type`; other settings have defaults.

    Whole numbers and switches may be text. Raises InvalidRequest with the setting as its field.
    `check_together` has the rule across the pools of a queue.
    """
    name = check_name(name)
    if unknown := next((key for key in settings if key not in SETTINGS), None):
        known = ", ".join(("name", *SETTINGS))
        raise InvalidRequest(f"pool '{name}': '{unknown}' is not one of {known}", field=unknown)
    defaults = settings_of(before) if before else {}
    wanted = {**defaults, **settings}
    if "plan_arn" not in settings and wanted.get("capacity_kind") != CapacityKind.PLAN:
        wanted["plan_arn"] = ""  # Another kind takes the plan away.
    durations = {key: _duration(name, key, wanted.get(key)) for key in DURATIONS}
    values: dict[str, Any] = {**durations}
    values |= {
        key: _switch(name, key, wanted.get(key, default)) for key, default in SWITCHES.items()
    }
    values |= {key: _word(name, key, wanted.get(key, word)) for key, word in CHOICES.items()}
    values |= {
        "instance_type": _instance_type(name, wanted.get("instance_type")),
        "capacity": _capacity(name, wanted),
        "properties": _properties(name, wanted),
        "windows": _windows(name, wanted.get("windows")),
        "plan_arn": _plan(name, wanted),
        "reservations": _reservations(name, wanted.get("reservations")),
    }
    pool = replace(before, **values) if before else Pool(name=name, **values)
    if before is not None and pool.work is not before.work:
        raise InvalidRequest(f"pool '{name}': {FIXED_WORK}", field="work")
    pool = _with_nodes(pool, settings, before)
    if pool.nodes is not None and pool.capacity_kind is CapacityKind.SPOT:
        wrong = "nodes" if settings.get("nodes") else "capacity_kind"
        raise InvalidRequest(f"pool '{name}': {NO_SPOT_NODES}", field=wrong)
    if pool.nodes is not None and pool.windows:
        wrong = "nodes" if settings.get("nodes") else "windows"
        raise InvalidRequest(f"pool '{name}': {NO_NODES_WITH_HOURS}", field=wrong)
    if differs := plan_clash(pool):
        raise InvalidRequest(f"pool '{name}': {differs.said}", field=differs.setting)
    if pool.reservations:
        _check_reservations(pool)
    if clash := warm_clash(pool):
        other = "nodes" if pool.nodes is not None else "capacity_kind"
        wrong = "keep_warm" if settings.get("keep_warm") is not None else other
        raise InvalidRequest(f"pool '{name}': {clash}", field=wrong)
    return pool


def _windows(pool: str, value: object) -> tuple[str, ...]:
    if not value:
        return ()
    from slotq_core.wire.capacity.opening_hours import defined  # Few pools have hours.

    return defined(pool, value)


def _plan(pool: str, wanted: Mapping[str, Any]) -> str:
    value = wanted.get("plan_arn") or ""
    if value and not (
        isinstance(value, str) and len(value) <= LONGEST_PLAN and PLAN_ARN.fullmatch(value)
    ):
        raise _wrong(
            pool,
            "plan_arn",
            "the ARN of a training plan, such as "
            "arn:aws:sagemaker:us-east-1:123456789012:training-plan/NAME",
            value,
        )
    return str(value)


def _reservations(pool: str, value: object) -> tuple[Reservation, ...]:
    if not value:
        return ()
    from slotq_core.wire.capacity.reservations import defined  # Few pools have reservations.

    return defined(pool, value)


def _check_reservations(pool: Pool) -> None:
    """Raises InvalidRequest for reservations that the pool cannot have."""
    from slotq_core.wire.capacity.reservations import NO_NODES, check_fits

    if pool.nodes is not None:
        raise InvalidRequest(f"pool '{pool.name}': {NO_NODES}", field="reservations")
    check_fits(pool.name, pool.reservations, pool.capacity.slots)


def _with_nodes(pool: Pool, settings: Mapping[str, Any], before: Pool | None) -> Pool:
    """The pool with the setting `nodes`. Where the setting stays, a new instance type's GPUs
    count."""
    if "nodes" not in settings and pool.nodes is None:
        return pool
    from slotq_core.wire.nodes.node_rules import (  # Few pools have nodes.
        node_rules,
        on_other_instances,
    )

    if "nodes" in settings:
        rules = node_rules(pool.name, settings["nodes"], known=gpus_in(pool))
        return replace(pool, nodes=rules)
    assert before is not None
    assert pool.nodes is not None
    rules = on_other_instances(pool.nodes, before=gpus_in(before), after=gpus_in(pool))
    return replace(pool, nodes=rules)


def gpus_in(pool: Pool) -> int:
    """Return the GPUs of one instance of the pool, by its type or by what the pool declares; 0: not
    known."""
    known = contents_of(pool.instance_type).get("gpus", 0)
    return known or pool.capacity["gpus"] // max(1, pool.capacity.slots)


class Described(Protocol):
    """The fields that `check_together` reads, of a pool of a queue or of a scenario."""

    @property
    def name(self) -> str: ...
    @property
    def capacity(self) -> Demand: ...
    @property
    def properties(self) -> Demand: ...
    @property
    def plan_arn(self) -> str: ...


class Clash(NamedTuple):
    """A name that is a property of one pool and a resource of a pool, the same or another."""

    pool: str
    """The pool with the property."""
    name: str
    other: str
    """The pool with the resource."""

    def __str__(self) -> str:
        return (
            f"'{self.name}' is a resource of pool '{self.other}': jobs use a resource up, and only "
            "require a property; give one of the two another name"
        )


def clashes(pools: Iterable[Described]) -> Iterator[Clash]:
    """Every name with two meanings: whether a job takes it from its pool would depend on the
    pool."""
    every = list(pools)
    resources = {name: pool.name for pool in every for name in pool.capacity}
    for pool in every:
        for name in map(traits.base_name, pool.properties):
            if name in resources:
                yield Clash(pool=pool.name, name=name, other=resources[name])


def check_together(pools: Iterable[Described]) -> None:
    """Raises InvalidRequest if a name has two meanings in the pools of one queue, or if two pools
    have one training plan."""
    every = list(pools)
    for clash in clashes(every):
        raise InvalidRequest(f"pool '{clash.pool}': {clash}", field="properties")
    for pool, said in plans_twice(every):
        raise InvalidRequest(f"pool '{pool}': {said}", field="plan_arn")


def plans_twice(pools: Iterable[Described]) -> Iterator[tuple[str, str]]:
    """Every pool whose training plan an earlier one has, with what is wrong."""
    first: dict[str, str] = {}
    for pool in pools:
        if pool.plan_arn and first.setdefault(pool.plan_arn, pool.name) != pool.name:
            plan = pool.plan_arn.rpartition("/")[2]
            yield pool.name, f"training plan {plan} is that of pool '{first[pool.plan_arn]}'"


def contents_of(instance_type: str) -> Mapping[str, int]:
    """Return what one instance of this type contains, by name; of an unknown type nothing."""
    amounts = CONTENTS.get(instance_type)
    return dict(zip((*NAMES, MEMORY_PER_GPU), amounts, strict=True)) if amounts else {}


def check_declared(before: Iterable[Pool], after: Iterable[Pool]) -> None:
    """Raises InvalidRequest if a pool declares anew what its instances do not contain, or another
    word for it. What it declared before may stay."""
    earlier = {pool.name: {fault[:3] for fault in misdeclared(pool)} for pool in before}
    for pool in after:
        for fault in misdeclared(pool):
            if fault[:3] not in earlier.get(pool.name, ()):
                raise InvalidRequest(f"pool '{pool.name}' {fault.said}", field=fault.setting)


class Misdeclared(NamedTuple):
    """An amount that a pool may not declare."""

    setting: str
    """`resources` or `properties`."""
    name: str
    amount: int
    said: str
    """What is wrong and what to do, after the pool's name."""


def misdeclared(pool: Pool) -> Iterator[Misdeclared]:
    """Yield every amount that contradicts what SlotQ knows of the pool's instances."""
    amounts = (("resources", pool.capacity), ("properties", pool.properties))
    for setting, of_setting in amounts:
        for name, amount in of_setting.items():
            counted = setting == "resources" and name in pool.contents
            if not counted and (said := _contradiction(pool, setting, name, amount)):
                yield Misdeclared(setting, name, amount, said)


def following(before: Pool, after: Pool, *, named: Collection[str] = ()) -> Pool:
    """Return the pool after a change without what was right before and is not any more, because of
    other slots or another type. What the change names, of `resources` and `properties`, stays."""
    was_wrong = {fault.name for fault in misdeclared(before)}
    stale = {fault.name for fault in misdeclared(after) if fault.setting not in named} - was_wrong
    if not stale:
        return after
    capacity, properties = (
        Demand({name: n for name, n in amounts.items() if name not in stale})
        for amounts in (after.capacity, after.properties)
    )
    return replace(after, capacity=capacity, properties=properties)


def _contradiction(pool: Pool, setting: str, name: str, amount: int) -> str:
    """Return what is wrong with a declared amount; empty: nothing."""
    kind, known = pool.instance_type, contents_of(pool.instance_type)
    if name in SPELLINGS:
        return f"declares {name}, which are {SPELLINGS[name]} here: name them so"
    if setting == "properties" and name in NAMES:
        return f"declares {name} as a property, but {name} are a resource"
    if setting == "properties" and name == MEMORY_PER_GPU and known:
        has, per_gpu = known[name], f"each GPU of {kind} has {known[name]}"
        return _differs(name, amount, has, per_gpu if has else f"{kind} has no GPUs")
    if setting == "resources" and name in NAMES and known:
        has, slots = contained_in(pool, name), pool.capacity.slots
        instances = f"its {slots} instances of {kind} contain {has}"
        return _differs(name, amount, has, instances if slots != 1 else f"its {kind} has {has}")
    return ""


def _differs(name: str, amount: int, known: int, said: str) -> str:
    if amount == known:
        return ""
    instead = f", or declare {known}" if known else ""
    return f"declares {amount} {name}, but {said}: leave {name} out{instead}"


def contained_in(pool: Pool, name: str) -> int:
    """Return how much of a resource all of the pool's instances contain; 0 if that is unknown."""
    return pool.capacity.slots * contents_of(pool.instance_type).get(name, 0)


def read_amount(name: str, text: str) -> int | None:
    """Return the amount of a resource or property in a text; None if the text has none.

    An amount is a whole number. Of a name that ends in the unit of a size, such as
    `mem_per_gpu_in_GiB`, it may also be a size of its own, `16G` or `512M`; a part of a unit counts
    as a whole one.
    """
    found = _AMOUNT.fullmatch(text)
    if found is None:
        return None
    number, unit = int(found["number"]), found["unit"]
    if unit is None:
        return number
    of_name = re.fullmatch(r".*_in_([KMGT])iB", name)
    return of_name and -(-number * _SIZES[unit] // _SIZES[of_name[1]])


def sized(name: str, value: Any) -> Any:
    """Return the amount that a size such as `16G` is, in the unit of this name; any other value as
    it is."""
    if not isinstance(value, str) or value.isdecimal():
        return value
    amount = read_amount(name, value)
    return value if amount is None else amount


def may_have(amount: Demand) -> bool:
    """Whether a pool may have this capacity."""
    slots, others = amount.slots, [n for name, n in amount.items() if name != "slots"]
    return 0 <= slots <= MOST_SLOTS and all(0 <= n <= MOST_OF_A_RESOURCE for n in others)


def settings_of(pool: Pool) -> dict[str, Any]:
    """Every setting of a pool, as `defined` takes it."""
    undeclared = {"slots", *pool.contents}
    resources = {key: amount for key, amount in pool.capacity.items() if key not in undeclared}
    return {
        "slots": pool.capacity.slots,
        "instance_type": pool.instance_type,
        **{key: said_duration(getattr(pool, key)) for key in DURATIONS},
        **{key: getattr(pool, key) for key in SWITCHES},
        "resources": resources,
        "properties": traits.decoded(pool.properties),
        **{key: getattr(pool, key).value for key in CHOICES},
        "nodes": _nodes(pool),
        "windows": [*pool.windows],
        "plan_arn": pool.plan_arn,
        "reservations": reservations_of(pool),
    }


def reservations_of(pool: Pool) -> list[dict[str, Any]]:
    """The setting `reservations`."""
    if not pool.reservations:
        return []
    from slotq_core.wire.capacity.reservations import as_json  # Few pools have reservations.

    return [as_json(reservation) for reservation in pool.reservations]


def _nodes(pool: Pool) -> dict[str, Any] | None:
    if pool.nodes is None:
        return None
    from slotq_core.wire.nodes.node_rules import node_settings  # Few pools have nodes.

    return node_settings(pool.nodes)


def _instance_type(pool: str, value: object) -> str:
    if not isinstance(value, str) or not INSTANCE_TYPE.fullmatch(value):
        raise _wrong(pool, "instance_type", "one of SageMaker's, e.g. ml.p4d.24xlarge", value)
    return value


def _capacity(pool: str, wanted: Mapping[str, Any]) -> Demand:
    slots = _whole(pool, "slots", wanted.get("slots"), 0, MOST_SLOTS)
    return Demand(_amounts(pool, "resources", wanted, _RESOURCE_NAMES), slots=slots)


def _amounts(pool: str, setting: str, wanted: Mapping[str, Any], names: _Names) -> Demand:
    """The amounts by name in one setting; none if it is missing."""
    amounts = _by_name(pool, setting, wanted, names)
    return Demand(
        {
            key: _whole(
                pool, f"{setting}.{key}", sized(key, amount), names.least, MOST_OF_A_RESOURCE
            )
            for key, amount in amounts.items()
        }
    )


def _properties(pool: str, wanted: Mapping[str, Any]) -> Demand:
    """The properties by name: amounts, texts and booleans."""
    values = _by_name(pool, "properties", wanted, _PROPERTY_NAMES)
    read = {name: property_value(name, value) for name, value in values.items()}
    for name, value in read.items():
        if value is None:
            given = _number(values[name])
            raise _wrong(pool, f"properties.{name}", property_rule(name, given), given)
    return Demand(traits.encoded({key: value for key, value in read.items() if value is not None}))


NUMBERS = frozenset({*NAMES, MEMORY_PER_GPU, *SPELLINGS})
"""Names of properties that are amounts."""


def property_rule(name: str, value: object) -> str:
    """What the value of a property must be; for a value that is meant as a number, a number."""
    whole = f"a whole number from 1 to {MOST_OF_A_RESOURCE}"
    if name in NUMBERS or traits.is_number(value):
        return whole
    return f"{whole}, {traits.RULE}, or true or false"


def property_value(name: str, value: object) -> traits.Value | None:
    """The amount, text or boolean of a property, of a pool or in a job's demand; None: it is none
    of them, or out of bounds. An amount may be a text, or a size."""
    amount = _number(sized(name, value))
    if isinstance(amount, int) and not isinstance(amount, bool):
        return amount if 1 <= amount <= MOST_OF_A_RESOURCE else None
    return None if name in NUMBERS else traits.read(amount)


def _by_name(
    pool: str, setting: str, wanted: Mapping[str, Any], names: _Names
) -> Mapping[str, Any]:
    """The values by name in one setting, if the names are legal."""
    amounts = wanted.get(setting) or {}
    if not isinstance(amounts, Mapping):
        raise _wrong(pool, setting, f"amounts by name, e.g. {names.example}", amounts)
    if len(amounts) > MOST_NAMES:
        raise _wrong(pool, setting, f"at most {MOST_NAMES} names with amounts", len(amounts))
    for key in amounts:
        if not isinstance(key, str) or key == "slots" or not names.pattern.fullmatch(key):
            what = (
                f"named by 1 to 31 of {names.letters}, beginning with a letter; slots have their "
                "own"
            )
            raise _wrong(pool, setting, what, key)
    return amounts


def _word(pool: str, key: str, value: object) -> StrEnum:
    words = type(CHOICES[key])
    if not isinstance(value, str) or value not in tuple(words):
        raise _wrong(pool, key, f"one of {', '.join(words)}", value)
    return words(value)


def _duration(pool: str, key: str, value: object) -> int | None:
    """A duration in milliseconds, from seconds or a text with units such as `2h`."""
    if value is None:
        return None if key in _ABSENT else 0
    if key in MAY_BE_AUTO and value == AUTOMATIC:
        return AUTO
    if isinstance(value, str) and (duration := seconds_in(value)) is not None:
        value = duration
    if key == "suspend_grace" and isinstance(value, bool | str):
        value = _SWITCHED.get(value, value)
    return 1000 * _whole(pool, key, value, DURATIONS[key], longest(key))


def longest(key: str) -> int:
    """The largest value (s) of a duration."""
    return int(_FIELDS[key].metadata.get("most", model.LONGEST)) // 1000


def said_duration(duration: int | None) -> int | str | None:
    """Return a duration (ms) in seconds, or as the word for AUTO."""
    if duration == AUTO:
        return AUTOMATIC
    return None if duration is None else duration // 1000


def _switch(pool: str, key: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value not in {"true", "false"}:
        raise _wrong(pool, key, "true or false", value)
    return value == "true"


def _number(value: object) -> object:
    """A number that is written as a text; any other value as it is."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value) else value


def _whole(pool: str, key: str, value: object, low: int, high: int) -> int:
    value = _number(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not low <= value <= high:  # type: ignore[operator]
        raise _wrong(pool, key, f"a whole number from {low} to {high}", value)
    return int(value)  # type: ignore[call-overload, no-any-return]


def _wrong(pool: str, key: str, right: str, value: object) -> InvalidRequest:
    return InvalidRequest(f"pool '{pool}': {key} must be {right}, not {value!r}", field=key)

"""Every condition and update of a pool's ledger and of a node, named and explained. No other module
contains any.

The promise "never over capacity" rests on this module alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotq_core.adapters.dynamodb.layout.expressions import Expression, on_condition
from slotq_core.adapters.dynamodb.layout.items import (
    PERSON,
    foreign_attribute,
    free_attribute,
    gpu_attribute,
    job_attribute,
    used_attribute,
)
from slotq_core.adapters.dynamodb.layout.records import Item, Value
from slotq_core.model.demand import Demand
from slotq_core.model.nodes import MOST_JOBS, NodeState
from slotq_core.storage.holdings import NodeUse, OnNode


def change_use(
    *,
    gained: Demand,
    admitted: frozenset[str],
    seen: int | None,
    decides: bool,
    holders: int,
    on_nodes: int = 0,
    activity: str = "",
) -> Expression:
    """Move a pool's ledger by a transaction's net change (`gained`; negative: slots given back).

    - free_<resource> >= :gain, for each resource of which some job newly holds any: the free amount
      covers the gain. Also false if the pool lacks the resource or is no longer configured (the
      attribute is missing).
    - version = :seen, only if the decision depends on the state as read: no other decision about
      this pool was committed since.
    - ADD changes use and free by the same amount, in opposite directions, raises the version for a
      decision, and updates the sums of marks.
    - SET activity: an item of the pool's partition has changed, so every cached reading of the pool
      is outdated. No decision depends on this attribute, so an event refuses no decision.
    """
    build = _Builder()
    for resource in sorted(admitted):
        build.require(f"{build.name(free_attribute(resource))} >= {build.value(gained[resource])}")
    if seen is not None:
        build.require(f"version = {build.value(seen)}")
    for resource, amount in gained.items():
        build.add(used_attribute(resource), amount)
        build.add(free_attribute(resource), -amount)
    build.add("version", 1 if decides else 0)
    build.add("holders", holders)
    build.add("onNodes", on_nodes)
    if activity:
        build.set_text("activity", activity)
    return build.expression()


def note_activity(activity: str, *, on_nodes: int = 0) -> Expression:
    """Record that a repair has changed an item of the pool's partition, and the sum of marks of
    jobs on nodes."""
    build = _Builder()
    build.add("onNodes", on_nodes)
    build.set_text("activity", activity)
    return build.expression()


def note_fact() -> Expression:
    """Record that a learned fact about the pool (HEALTH) has changed. A counter, because facts may
    come again.

    Condition: the ledger exists, so that no fact makes one.
    """
    build = _Builder()
    build.require("attribute_exists(version)")
    build.add("facts", 1)
    return build.expression()


def open_pool(room: Demand, since: int = 0) -> Expression:
    """Open a pool that is new or was once removed. The pool is empty, so all of its room is free.
    `since`: as in `resize_pool`.

    Condition: the pool is not open. ADD keeps the version rising across a removal and a return.
    """
    build = _Builder()
    build.require("attribute_not_exists(free_slots)")
    for resource, amount in {"slots": 0, **room}.items():
        build.set(free_attribute(resource), amount)
    build.since(since)
    build.add("version", 1)
    return build.expression()


def reopen_pool(room: Demand, resources: Iterable[str], seen: int, since: int = 0) -> Expression:
    """Reopen a pool whose definition was lost, but not its ledger: `room` is free of each resource.

    Condition: the ledger has not changed since it was read.
    """
    build = _Builder()
    build.require(f"version = {build.value(seen)}")
    for resource in sorted(resources):
        build.set(free_attribute(resource), room[resource])
    build.since(since)
    build.add("version", 1)
    return build.expression()


def take_back_pool(room: Demand | None, resources: Iterable[str], seen: int) -> Expression:
    """Give a pool the room again that it has under the configuration, after a change in parts that
    did not come to its end. `room` None: the pool is not configured, and admits nothing.

    Condition: the ledger has not changed since it was read.
    """
    build = _Builder()
    build.require(f"version = {build.value(seen)}")
    for resource in sorted(resources):
        if room is None:
            build.remove(free_attribute(resource))
            build.remove(foreign_attribute(resource))
        else:
            build.set(free_attribute(resource), room[resource])
    build.remove("since")
    build.add("version", 1)
    return build.expression()


def resize_pool(gained: Demand, since: int = 0) -> Expression:
    """Resize a pool: free changes by the difference, and falls below 0 if use exceeds the new
    capacity.

    The caller's condition on the configuration's revision, or on the mark of a change in parts,
    guarantees that the old capacity still holds. `since`: the revision from which the ledger holds,
    if the same transaction does not raise it: whoever has read an earlier one decides nothing.
    """
    build = _Builder()
    for resource, amount in gained.items():
        build.add(free_attribute(resource), amount)
    build.since(since)
    build.add("version", 1)
    return build.expression()


def close_pool(room: Demand, used: Demand, foreign: Demand, since: int = 0) -> Expression:
    """Close a pool: no job may run there, and without `free_*` the pool admits nothing.

    `used` and `foreign` name the resources that the ledger has counted so far; the used amount of
    each must be 0. `since`: as in `resize_pool`.
    """
    build = _Builder()
    for resource in sorted({"slots", *room, *used, *foreign}):
        counted = build.name(used_attribute(resource))
        build.require(f"(attribute_not_exists({counted}) OR {counted} = {build.value(0)})")
        build.remove(free_attribute(resource))
        build.remove(foreign_attribute(resource))
    build.since(since)
    build.add("version", 1)
    return build.expression()


def count_foreign(amount: Demand, before: Demand, seen: int) -> Expression:
    """Record what foreign training jobs occupy, and reduce the free amount by the difference.

    Conditions: the ledger has not changed since it was read, and the pool is configured.
    """
    build = _Builder()
    build.require(f"version = {build.value(seen)}")
    build.require("attribute_exists(free_slots)")
    for resource, more in (amount - before).items():
        build.add(foreign_attribute(resource), more)
        build.add(free_attribute(resource), -more)
    build.add("version", 1)
    return build.expression()


def count_node(demand: Demand, mark: int, activity: str) -> Expression:
    """Take a slot for a node that runs and has none, even where nothing is free: then the pool
    admits nothing until use has fallen. For a repair. Condition: the ledger exists."""
    build = _Builder()
    build.require("attribute_exists(version)")
    for resource, amount in demand.items():
        build.add(used_attribute(resource), amount)
        build.add(free_attribute(resource), -amount)
    build.add("version", 1)
    build.add("holders", mark)
    build.set_text("activity", activity)
    return build.expression()


def use_node(use: NodeUse, written: Item, removed: Iterable[str] = ()) -> Expression:
    """Let jobs come to a node and leave it, and change the node itself (`written`, `removed`: its
    attributes).

    - generation: the node's training job is still the one that the jobs' attempts name.
    - version = :seen, if the node itself changes: nobody has changed it since it was read. With
      `NodeChange.empty` also: no job is on it.
    - for jobs that come: the node is ready and of their tenant, has fewer than MOST_JOBS, and what
      is free of each GPU and of each resource covers the net gain. Also false for a GPU that the
      node lacks.
    - person = :p, for a job that comes to a node that takes one person's jobs (`Node.one_person`),
      unless no job stays there. Jobs of two persons never come there together. Each job that comes
      sets the person.
    - job_<name>: who comes is not there yet, and who leaves is there with this attempt.
    """
    build = _Builder()
    _require_node(build, use)
    gpus, amounts = use.gained
    if use.came:
        _require_room(build, use, gpus, amounts)
    for job in use.came:
        build.set(job_attribute(job.job), job.number)
    if len(use.persons) == 1:
        build.set_text(PERSON, *use.persons)
    for job in use.left:
        build.remove(job_attribute(job.job))
    for index, amount in gpus.items():
        build.add(gpu_attribute(index), -amount)
    for resource, amount in amounts.items():
        build.add(free_attribute(resource), -amount)
    build.add("jobs", len(use.came) - len(use.left))
    idle: Item = {"idleSince": {"N": str(use.at)}} if use.left else {}
    for attribute, value in {**idle, **written}.items():
        build.put(attribute, value)
    for attribute in removed:
        build.remove(attribute)
    return build.expression()


def _require_room(build: _Builder, use: NodeUse, gpus: Mapping[int, int], amounts: Demand) -> None:
    build.require(f"{build.name('state')} = {build.value(NodeState.READY.value)}")
    for tenant in sorted(use.tenants):
        build.require(f"{build.name('tenant')} = {build.value(tenant)}")
    _require_person(build, use)
    more = len(use.came) - len(use.left)
    build.require(f"{build.name('jobs')} <= {build.value(MOST_JOBS - more)}")
    for index in sorted({index for job in use.came for index in job.gpus}):
        build.require(f"{build.name(gpu_attribute(index))} >= {build.value(gpus[index])}")
    for resource in sorted({name for job in use.came for name in job.amounts}):
        build.require(f"{build.name(free_attribute(resource))} >= {build.value(amounts[resource])}")
    for job in use.came:
        build.require(f"attribute_not_exists({build.name(job_attribute(job.job))})")


def _require_person(build: _Builder, use: NodeUse) -> None:
    ways = [f"attribute_not_exists({build.name('onePerson')})"]
    if len(use.persons) == 1:
        ways.insert(0, f"{build.name(PERSON)} = {build.value(*use.persons)}")
        ways.append(f"{build.name('jobs')} = {build.value(len(use.left))}")
    build.require(f"({' OR '.join(ways)})")


def end_node(use: NodeUse) -> Expression:
    """Require that the node may end: it is as it was read, and no job is on it but those that leave
    with it."""
    build = _Builder()
    _require_node(build, use)
    build.require(f"{build.name('jobs')} = {build.value(len(use.left))}")
    return build.expression()


def _require_node(build: _Builder, use: NodeUse) -> None:
    build.require(f"{build.name('generation')} = {build.value(use.generation)}")
    if use.change is not None and use.change.before is not None:
        build.require(f"{build.name('version')} = {build.value(use.change.before.version)}")
        if use.change.empty:
            build.require(f"{build.name('jobs')} = {build.value(0)}")
    for job in use.left:
        build.require(f"{build.name(job_attribute(job.job))} = {build.value(job.number)}")


def is_generation(generation: int) -> Expression:
    """Require that the node has not ended since it was read."""
    build = _Builder()
    build.require(f"{build.name('generation')} = {build.value(generation)}")
    return build.expression()


def not_on_node(generation: int, jobs: Iterable[OnNode]) -> Expression:
    """Require that these attempts are not on the node: it is gone, has started again, or has been
    repaired."""
    build = _Builder()
    other = f"{build.name('generation')} <> {build.value(generation)}"
    for job in jobs:
        attribute = build.name(job_attribute(job.job))
        absent = f"attribute_not_exists({attribute}) OR {attribute} <> {build.value(job.number)}"
        build.require(f"(attribute_not_exists(pk) OR {other} OR {absent})")
    return build.expression()


def note_report(
    generation: int, number: int, *, at: int, lease_until: int, problems: Iterable[str] = ()
) -> Expression:
    """Record a node's report: its number, when the agent wrote it, the lease (ms), and the agent's
    problems. Conditions: it is of this generation, and no later report is recorded."""
    build = _Builder()
    build.require(f"{build.name('generation')} = {build.value(generation)}")
    last, new = build.name("reports"), build.value(number)
    build.require(f"(attribute_not_exists({last}) OR {last} < {new})")
    build.set("reports", number)
    build.set("reportedAt", at)
    build.set("leaseUntil", lease_until)
    texts: list[Value] = [{"S": text} for text in problems]
    if texts:
        build.put("problems", {"L": texts})
    else:
        build.remove("problems")
    return build.expression()


def set_room(
    room: Mapping[str, int], jobs: Mapping[str, int], person: str, item: Item, seen: Expression
) -> Expression:
    """Set what is free on a node, the attempts on it, and their person, to what its jobs say.
    `item`: the node as read. Condition: `seen`, about that item."""
    build = _Builder()
    build.set_text(PERSON, person)
    wanted = {**room, **{job_attribute(name): number for name, number in jobs.items()}}
    for attribute, amount in {**wanted, "jobs": len(jobs)}.items():
        build.set(attribute, amount)
    for attribute in item:
        if attribute.startswith(job_attribute("")) and attribute not in wanted:
            build.remove(attribute)
    return on_condition(build.expression(), seen)


class _Builder:
    """Collects the parts of one expression. Attributes get placeholders, because they may have any
    name."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, Value] = {}
        self._conditions: list[str] = []
        self._clauses: dict[str, list[str]] = {}

    def name(self, attribute: str) -> str:
        plain = attribute.isascii() and attribute.isidentifier()
        placeholder = f"#{attribute}" if plain else f"#n{len(self._names)}"
        self._names[placeholder] = attribute
        return placeholder

    def value(self, value: int | str) -> str:
        placeholder = f":v{len(self._values)}"
        self._values[placeholder] = {"S": value} if isinstance(value, str) else {"N": str(value)}
        return placeholder

    def require(self, condition: str) -> None:
        self._conditions.append(condition)

    def set(self, attribute: str, amount: int) -> None:
        self._clause("SET", f"{self.name(attribute)} = {self.value(amount)}")

    def since(self, revision: int) -> None:
        if revision:
            self.set("since", revision)

    def set_text(self, attribute: str, text: str) -> None:
        self._clause("SET", f"{self.name(attribute)} = {self.value(text)}")

    def put(self, attribute: str, value: Value) -> None:
        placeholder = f":v{len(self._values)}"
        self._values[placeholder] = value
        self._clause("SET", f"{self.name(attribute)} = {placeholder}")

    def add(self, attribute: str, amount: int) -> None:
        if amount:
            self._clause("ADD", f"{self.name(attribute)} {self.value(amount)}")

    def remove(self, attribute: str) -> None:
        self._clause("REMOVE", self.name(attribute))

    def _clause(self, verb: str, part: str) -> None:
        self._clauses.setdefault(verb, []).append(part)

    def expression(self) -> Expression:
        clauses = [f"{verb} {', '.join(parts)}" for verb, parts in self._clauses.items()]
        built: Expression = {"UpdateExpression": " ".join(clauses)} if clauses else {}
        if self._conditions:
            built["ConditionExpression"] = " AND ".join(self._conditions)
        if self._names:
            built["ExpressionAttributeNames"] = self._names
        if self._values:
            built["ExpressionAttributeValues"] = self._values
        return built

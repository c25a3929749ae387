"""Nodes: two handlers who know the same node and act one after the other, and what the table says
then. Each condition of a node's changes, left out, breaks a promise in one of these cases.

The conditions are checked by the database at one moment, so every race of two handlers is one of
two orders of their commits, each with what the handler has read before the other one's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import ModuleType
from unittest.mock import patch

from slotq.local.services.expressions import Item
from slotq_core.adapters.dynamodb.decisions import DynamoDecisions
from slotq_core.adapters.dynamodb.layout import expressions, ledger_expressions, table
from slotq_core.adapters.dynamodb.layout.items import job_of
from slotq_core.adapters.dynamodb.layout.records import read
from slotq_core.adapters.dynamodb.layout.validation import poison_of
from slotq_core.adapters.dynamodb.reading.in_parallel import one_by_one
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.errors import Conflict
from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import MOST_JOBS, Node, NodeState
from slotq_core.ports.stored import Change, NodeChange
from slotq_core.storage import holdings
from slotq_core.storage.holdings import OnNode, on_node
from tests.contract.keeping_nodes import (
    a_node_queue,
    becoming,
    changed,
    coming,
    ending_node,
    ready,
    runs_on,
    starting_node,
    waits_for_gpus,
)
from tests.contract.worlds import NOW, commit, completing, evicted, starting, waits
from tests.faults.clients import no_time_passes
from tests.faults.fake_dynamodb import FakeDynamo
from tests.faults.mutants import Mutant, without_condition
from tests.faults.promises import CAPACITY, IDEMPOTENT, ONE_LIVE, Broken

TABLE = "queue"
NODE = "a job runs only on its node, and a node is changed only as it was read"


@dataclass
class Found:
    """What one case has found."""

    broken: list[Broken] = field(default_factory=list)

    @property
    def watch(self) -> Found:
        """As of a campaign's world, where `broken` is."""
        return self


class Engine:
    """A table, its handlers' stores, and the judge."""

    def __init__(self) -> None:
        self.dynamo = FakeDynamo()
        self.dynamo.create_table(**table_definition(TABLE))
        self.store = a_node_queue(self.handler(), slots=2)
        self.found = Found()

    def handler(self) -> DynamoStore:
        return DynamoStore(
            self.dynamo, TABLE, pause=no_time_passes, clock=lambda: NOW, in_parallel=one_by_one
        )

    def late(
        self, promise: str, what: str, *changes: Change, node: NodeChange | None = None
    ) -> None:
        """A commit of a handler who has not seen what has happened since. It must be refused."""
        self._late(promise, what, lambda: self._commit(changes, node))

    def late_number(self, promise: str, what: str, note: Callable[[], None]) -> None:
        self._late(promise, what, note)

    def _late(self, promise: str, what: str, act: Callable[[], object]) -> None:
        try:
            act()
        except Conflict:
            return
        self.found.broken.append(Broken(promise, what))

    def _commit(self, changes: tuple[Change, ...], node: NodeChange | None) -> None:
        # Whoever is refused looks for faults and repairs them: not of interest here.
        with patch.object(DynamoDecisions, "_doubt", lambda *_: None):
            self.store.decisions.commit(changes, nodes=[node] if node else [])

    def change_by_hand(self, node: Node, **attributes: int | None) -> None:
        items = self.dynamo.tables[TABLE].items
        key = table.node_key(node.pool, node.name)
        item = {**items[key]}
        for name, number in attributes.items():
            item.pop(name, None)
            if number is not None:
                item[name] = {"N": str(number)}
        self.dynamo.put_item(TableName=TABLE, Item=item)

    def judged(self) -> Found:
        """What the table says, item by item, whatever the store makes of it."""
        items = self.dynamo.tables[TABLE].items
        self.found.broken += _wrong([*items.values()])
        return self.found


def _wrong(items: list[Item]) -> Iterator[Broken]:
    jobs = [job_of(item) for item in items if item["sk"]["S"] == table.JOB]
    nodes = {
        (node.pool, node.name): (node, item)
        for item in items
        if item["pk"]["S"].startswith(table.NODES_PREFIX)
        for node in [Node(**read(Node, item))]
    }
    there: dict[tuple[str, str], list[Job]] = defaultdict(list)
    for job in jobs:
        if job.attempt is not None and job.attempt.node:
            there[job.attempt.pool, job.attempt.node].append(job)
    for name, (node, item) in nodes.items():
        yield from _wrong_on(node, item, there.pop(name, []))
    for jobs_of_none in there.values():
        yield Broken(ONE_LIVE, f"{[job.name for job in jobs_of_none]} run on no node")
    ledger = next(item for item in items if item["sk"]["S"] == table.LEDGER)
    own = [job for job in jobs if job.attempt and not job.attempt.node]
    held = len(nodes) + sum(job.demand.slots for job in own)
    if int(ledger.get("used_slots", {"N": "0"})["N"]) != held:
        yield Broken(CAPACITY, f"{held} slots are held; the ledger says {ledger['used_slots']}")
    if int(ledger["free_slots"]["N"]) < 0:
        yield Broken(CAPACITY, f"{held} slots are held, more than there are")


def _wrong_on(node: Node, item: Item, jobs: list[Job]) -> Iterator[Broken]:
    taken: dict[int, int] = defaultdict(int)
    share = Demand()
    for job in jobs:
        held = on_node(job)
        assert held is not None
        share += held.amounts
        for index, amount in held.gpus.items():
            taken[index] += amount
        assert job.attempt is not None
        if job.attempt.node_generation != node.generation:
            yield Broken(ONE_LIVE, f"{job.name} is on another generation of {node.name}")
    yield from _not_for_it(node, jobs)
    gpus = range(node.contents["gpus"])
    if any(amount > WHOLE or index not in gpus for index, amount in taken.items()):
        yield Broken(CAPACITY, f"GPUs of {node.name} are taken twice: {dict(taken)}")
    if any(amount > node.contents[name] for name, amount in share.items()):
        yield Broken(CAPACITY, f"{share} of {node.name} are taken, of {node.contents}")
    if len(jobs) > MOST_JOBS:
        yield Broken(CAPACITY, f"{len(jobs)} jobs are on {node.name}")
    free = {index: int(item[f"gpu_{index}"]["N"]) for index in gpus}
    if any(free[index] > WHOLE - taken[index] for index in gpus):
        yield Broken(CAPACITY, f"{node.name} offers GPUs that are taken: {free}")
    if int(item["jobs"]["N"]) != len(jobs):
        yield Broken(IDEMPOTENT, f"{node.name} counts {item['jobs']['N']} of {len(jobs)} jobs")


def _not_for_it(node: Node, jobs: list[Job]) -> Iterator[Broken]:
    for job in jobs:
        if job.tenant != node.tenant:
            yield Broken(NODE, f"{job.name} is on a node of another tenant")
    if node.one_person and len({job.person for job in jobs}) > 1:
        yield Broken(NODE, f"jobs of two persons are on {node.name}")


# --- the cases

Play = Callable[[Engine], None]
CASES: dict[str, Play] = {}


def case(play: Play) -> Play:
    CASES[play.__name__] = play
    return play


@case
def two_jobs_want_one_gpu(engine: Engine) -> None:
    store, node = engine.store, ready(engine.store)
    one, two = (waits_for_gpus(store, name, 2) for name in ("one", "two"))
    commit(store, coming(one, node, 0, 1))
    engine.late(CAPACITY, "a GPU is given twice", coming(two, node, 1, 2))


@case
def two_parts_want_one_gpu(engine: Engine) -> None:
    store, node = engine.store, ready(engine.store)
    one, two, three = (waits_for_gpus(store, name) for name in ("one", "two", "three"))
    commit(store, coming(one, node, 3, part=50))
    commit(store, coming(two, node, 3, part=25))
    engine.late(CAPACITY, "parts of a GPU are more than one", coming(three, node, 3, part=30))


@case
def two_jobs_want_the_same_cpus(engine: Engine) -> None:
    store, node = engine.store, ready(engine.store, contents=Demand(gpus=2, cpus=8))
    one, two = (waits_for_gpus(store, name) for name in ("one", "two"))
    commit(store, coming(one, node, 0, cpus=6))
    engine.late(CAPACITY, "CPUs are given twice", coming(two, node, 1, cpus=6))


@case
def a_node_drains_before_a_job_comes(engine: Engine) -> None:
    store, node = engine.store, ready(engine.store)
    job = waits_for_gpus(store, "one")
    changed(store, becoming(node, NodeState.DRAINING))
    engine.late(NODE, "a job comes to a node that drains", coming(job, node, 0))


@case
def a_job_of_another_tenant_comes(engine: Engine) -> None:
    store, node = engine.store, ready(engine.store)
    job = waits_for_gpus(store, "one", tenant="another")
    engine.late(NODE, "a job comes to another tenant", coming(job, node, 0))


@case
def a_job_of_another_person_comes(engine: Engine) -> None:
    store = engine.store
    node = changed(store, becoming(ready(store), NodeState.READY, one_person=True))
    one = waits_for_gpus(store, "one")
    two = waits_for_gpus(store, "two", submitter="arn:aws:iam::123456789012:user/eve")
    commit(store, coming(one, node, 0))
    engine.late(NODE, "a job comes to another person's node", coming(two, node, 1))


@case
def a_node_starts_again_before_a_job_comes(engine: Engine) -> None:
    store, old = engine.store, ready(engine.store)
    job = waits_for_gpus(store, "one")
    store.decisions.commit([], nodes=[ending_node(old)])
    ready(store)
    engine.late(ONE_LIVE, "a job comes to a node that has ended", coming(job, old, 0))


@case
def a_full_node_gets_another_job(engine: Engine) -> None:
    store, gpus = engine.store, Demand(gpus=MOST_JOBS + 1)
    node = ready(store, contents=gpus)
    jobs = [waits_for_gpus(store, f"job{number}") for number in range(MOST_JOBS + 1)]
    for at in range(0, MOST_JOBS, 8):
        some = [coming(jobs[number], node, number) for number in range(at, at + 8)]
        store.decisions.commit(some)
    engine.late(CAPACITY, "a node takes too many jobs", coming(jobs[-1], node, MOST_JOBS))


@case
def a_job_comes_that_the_node_still_names(engine: Engine) -> None:
    """What another attempt of it has left, after a write by hand."""
    store, node = engine.store, ready(engine.store)
    job = waits_for_gpus(store, "one")
    engine.change_by_hand(node, jobs=1, job_one=9, gpu_0=0)
    engine.late(IDEMPOTENT, "a job comes that is there", coming(job, node, 1))
    engine.change_by_hand(node, jobs=0, job_one=None, gpu_0=WHOLE)


@case
def a_node_is_changed_by_two(engine: Engine) -> None:
    store, node = engine.store, ready(engine.store)
    changed(store, becoming(node, NodeState.STOPPING))
    late = becoming(node, NodeState.DRAINING)
    engine.late(NODE, "a change that was decided before the last one", node=late)


@case
def a_job_comes_before_its_empty_node_stops(engine: Engine) -> None:
    store, node = engine.store, ready(engine.store)
    stop = becoming(node, NodeState.STOPPING, empty=True)
    runs_on(store, "one", node, 0)
    engine.late(NODE, "an empty node stops with a job on it", node=stop)


@case
def a_job_comes_before_its_node_ends(engine: Engine) -> None:
    store, node = engine.store, ready(engine.store)
    runs_on(store, "one", node, 0)
    engine.late(ONE_LIVE, "a node ends with a job on it", node=ending_node(node))


@case
def a_node_ends_twice(engine: Engine) -> None:
    """The second end is of the generation before."""
    store, old = engine.store, ready(engine.store)
    store.decisions.commit([], nodes=[ending_node(old)])
    assert ready(store).version == old.version
    engine.late(CAPACITY, "a node that runs loses its slot", node=ending_node(old))


@case
def a_node_changes_before_its_end(engine: Engine) -> None:
    store, node = engine.store, ready(engine.store)
    changed(store, becoming(node, NodeState.STOPPING))
    engine.late(NODE, "an end that was decided before the last change", node=ending_node(node))


@case
def a_job_ends_with_a_node_that_names_another_attempt(engine: Engine) -> None:
    """After a write by hand."""
    store, node = engine.store, ready(engine.store)
    job = runs_on(store, "one", node, 0)
    engine.change_by_hand(node, job_one=9)
    end = ending_node(node)
    with patch.object(DynamoDecisions, "_absent", lambda *_: {}):
        engine.late(IDEMPOTENT, "an attempt ends on a node without it", evicted(job), node=end)


@case
def a_job_ends_that_its_node_has_forgotten(engine: Engine) -> None:
    """It gives back nothing that is no longer its own."""
    store, node = engine.store, ready(engine.store)
    job = runs_on(store, "one", node, 0)
    engine.change_by_hand(node, jobs=0, job_one=None, gpu_0=WHOLE)
    commit(store, completing(job))


@case
def a_node_is_repaired_while_a_job_ends(engine: Engine) -> None:
    """The handler has found that the node does not name the job; then somebody repairs the node."""
    store, node = engine.store, ready(engine.store)
    job = runs_on(store, "one", node, 0)
    engine.change_by_hand(node, jobs=0, job_one=None, gpu_0=WHOLE)
    right = DynamoDecisions._absent

    def absent(*args: object) -> object:
        found = right(*args)  # type: ignore[arg-type]
        store.repair.quarantine(poison_of(table.node_key("p5", "n1"), "somebody doubts it"))
        return found

    with patch.object(DynamoDecisions, "_absent", absent), suppress(Conflict):
        commit(store, completing(job))


@case
def two_nodes_want_the_last_slot(engine: Engine) -> None:
    store = engine.store
    commit(store, starting(waits(store, "whole")))
    one = starting_node(store)
    changed(store, one)
    second = starting_node(store, "n2")
    engine.late(CAPACITY, "a node starts without a slot", node=second)


@case
def two_handlers_start_a_node_of_one_name(engine: Engine) -> None:
    store = engine.store
    changed(store, starting_node(store))
    engine.late(CAPACITY, "a name is given to two nodes", node=starting_node(store))


@case
def a_node_starts_on_an_old_ledger(engine: Engine) -> None:
    store, stale = engine.store, starting_node(engine.store)
    node = changed(store, starting_node(store, "n2"))
    store.decisions.commit([], nodes=[ending_node(node)])
    engine.late(ONE_LIVE, "a generation that is not the next", node=stale)


@case
def a_report_comes_late(engine: Engine) -> None:
    store, node = engine.store, ready(engine.store)
    store.nodes.note_report(node, 5, at=5, lease_until=NOW + 5)
    engine.late_number(
        IDEMPOTENT,
        "an older report counts",
        lambda: store.nodes.note_report(node, 4, at=4, lease_until=NOW + 4),
    )


@case
def a_report_of_the_generation_before_comes(engine: Engine) -> None:
    store, old = engine.store, ready(engine.store)
    store.decisions.commit([], nodes=[ending_node(old)])
    ready(store)
    engine.late_number(
        ONE_LIVE,
        "a report of another generation renews the lease",
        lambda: store.nodes.note_report(old, 9, at=9, lease_until=NOW + 9),
    )


def played(name: str) -> Found:
    engine = Engine()
    CASES[name](engine)
    return engine.judged()


# --- what is broken


def hunt(name: str) -> Callable[[], Iterator[Found]]:
    def cases() -> Iterator[Found]:
        yield played(name)

    return cases


def _mutant(
    name: str,
    caught_by: str,
    function: str,
    *parts: str,
    of: ModuleType = ledger_expressions,
) -> Mutant:
    """The condition of that expression without these parts, or left out."""
    return Mutant(name, without_condition(of, function, *parts), hunt(caught_by))


@contextmanager
def _parts_count_for_less() -> Iterator[None]:
    def held(job: Job) -> OnNode | None:
        found = on_node(job)
        if found is None or WHOLE in found.gpus.values():
            return found
        return replace(found, gpus=dict.fromkeys(found.gpus, 1))

    with patch.object(holdings, "on_node", held):
        yield


MUTANTS: tuple[Mutant, ...] = (
    _mutant("a GPU is given twice", "two_jobs_want_one_gpu", "use_node", "#gpu_"),
    _mutant("parts of a GPU add up to more", "two_parts_want_one_gpu", "use_node", "#gpu_"),
    Mutant("a part counts for less", _parts_count_for_less, hunt("two_parts_want_one_gpu")),
    _mutant("CPUs are given twice", "two_jobs_want_the_same_cpus", "use_node", "#free_"),
    _mutant("a job comes to any node", "a_node_drains_before_a_job_comes", "use_node", "#state"),
    _mutant("any tenant comes", "a_job_of_another_tenant_comes", "use_node", "#tenant"),
    _mutant("any person comes", "a_job_of_another_person_comes", "use_node", "(#person"),
    _mutant(
        "a job comes to any generation",
        "a_node_starts_again_before_a_job_comes",
        "use_node",
        "#generation",
    ),
    _mutant(
        "a node takes any number of jobs", "a_full_node_gets_another_job", "use_node", "#jobs <="
    ),
    _mutant(
        "a job comes twice",
        "a_job_comes_that_the_node_still_names",
        "use_node",
        "attribute_not_exists",
    ),
    _mutant("a node is changed unseen", "a_node_is_changed_by_two", "use_node", "#version"),
    _mutant(
        "an empty node need not be empty",
        "a_job_comes_before_its_empty_node_stops",
        "use_node",
        "#jobs =",
    ),
    _mutant(
        "what a job gives back need not be its own",
        "a_job_ends_that_its_node_has_forgotten",
        "use_node",
        "#job_",
    ),
    _mutant("a node ends with its jobs", "a_job_comes_before_its_node_ends", "end_node", "#jobs"),
    _mutant("any generation ends", "a_node_ends_twice", "end_node", "#generation"),
    _mutant("a node ends unseen", "a_node_changes_before_its_end", "end_node", "#version"),
    _mutant(
        "any attempt ends with its node",
        "a_job_ends_with_a_node_that_names_another_attempt",
        "end_node",
        "#job_",
    ),
    _mutant(
        "a job leaves a node that names it",
        "a_node_is_repaired_while_a_job_ends",
        "not_on_node",
    ),
    _mutant("a node needs no slot", "two_nodes_want_the_last_slot", "change_use", "#free_"),
    _mutant(
        "a generation may be given twice",
        "a_node_starts_on_an_old_ledger",
        "change_use",
        "version",
    ),
    _mutant(
        "a node may start twice",
        "two_handlers_start_a_node_of_one_name",
        "is_new",
        of=expressions,
    ),
    _mutant("any report counts", "a_report_comes_late", "note_report", "(attribute_not_exists"),
    _mutant(
        "reports of any generation count",
        "a_report_of_the_generation_before_comes",
        "note_report",
        "#generation",
    ),
)
"""One for each condition of a node's changes (`layout.ledger_expressions`)."""

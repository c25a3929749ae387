"""Broken variants of what keeps the promises through the life of a node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from slotq_core.adapters.nodes import documents
from slotq_core.adapters.nodes.documents import S3NodeDocuments
from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.operations.nodes import node_effects, node_stops, reports
from slotq_core.operations.nodes.ended_nodes import NodeEnding
from slotq_core.operations.nodes.node_drift import NodeDrift
from slotq_core.operations.nodes.node_effects import NodeEffects
from slotq_core.operations.nodes.node_stops import DueStop
from slotq_core.operations.nodes.orders import Orders
from slotq_core.operations.nodes.reports import Reports
from slotq_core.policy.lifecycle.retry import Ending
from slotq_core.wire.nodes import documents as wire
from tests.faults import agents
from tests.faults.crashes import SILENT
from tests.faults.mutants import Mutant, crash, race, undisturbed
from tests.faults.promises import CAPACITY, CONVERGENT, LEASE, ONE_LIVE
from tests.faults.world import World

REFUSED, OUTLIVES = "a_node_is_refused_once_and_never_reports", "a_node_outlives_its_job"
SLOW = "a_node_is_cut_off_for_ever_with_a_slow_clock"
MOVES = "a_part_moves_to_another_node"
STANDS = "a_node_is_cut_off_for_ever_with_a_clock_that_stands"
BESIDE = "a_start_on_a_node_beside_a_cancel_and_a_report"


def _slots_come_free_at_the_stop() -> AbstractContextManager[Any]:
    right = NodeEffects._stop

    def wrong(self: NodeEffects, node: Node) -> None:
        right(self, node)
        self._ended.end(node, NodeEnding())

    return patch.object(NodeEffects, "_stop", wrong)


def _nobody_repeats_an_intent() -> AbstractContextManager[Any]:
    return patch.object(node_effects, "is_dead", lambda *_: False)


def _nobody_asks_for_nodes() -> AbstractContextManager[Any]:
    return patch.object(NodeDrift, "to_be_asked_for", lambda *_: ())


def _orders_replace_any_orders() -> AbstractContextManager[Any]:
    right = S3NodeDocuments._call

    def wrong(self: S3NodeDocuments, word: str, key: str, **more: Any) -> Any:
        left = {name: it for name, it in more.items() if name not in {"IfMatch", "IfNoneMatch"}}
        return right(self, word, key, **left)

    return patch.object(S3NodeDocuments, "_call", wrong)


@contextmanager
def _any_generation_reports() -> Iterator[None]:
    """All generations of a node write into one folder, and none is asked for its own."""

    def read(content: bytes, **_: Any) -> wire.NodeReport:
        said = json.loads(content)
        token = next(a.token for a in _agents if a._generation == said["generation"])
        return wire.read_report(
            content, token=token, node=said["node"], generation=said["generation"]
        )

    _agents: list[agents.Agent] = []
    born = agents.Agent.act

    def act(self: agents.Agent) -> None:
        if self not in _agents:
            _agents.append(self)
        born(self)

    folder = lambda node: f"nodes/{node.pool}/{node.name}"  # noqa: E731
    with (
        patch.object(agents.Agent, "act", act),
        patch.object(reports, "read_report", read),
        patch.object(documents, "folder", folder),
    ):
        yield


def _leases_never_end() -> AbstractContextManager[Any]:
    return patch.object(node_stops, "SILENCE_MARGIN", 1 << 50)


def _leases_end_early() -> AbstractContextManager[Any]:
    return patch.object(node_stops, "SILENCE_MARGIN", -60_000)


def _silent_nodes_are_given_up() -> AbstractContextManager[Any]:
    right = NodeEffects._stop

    def wrong(self: NodeEffects, node: Node) -> None:
        right(self, node)
        if node.stop is not None and node.stop.cause is StopCause.STALLED:
            self._ended.end(node, NodeEnding())

    return patch.object(NodeEffects, "_stop", wrong)


def _jobs_of_a_silent_node_wait_at_once() -> AbstractContextManager[Any]:
    right = NodeEffects._ordered

    def wrong(self: NodeEffects, stop: DueStop) -> Node | None:
        node = right(self, stop)
        if stop.silent:
            ends = self._ended
            changes = [
                ends._end_job(job, Ending.FAULT, self._clock.now(), "silent")
                for job in ends.jobs_on(stop.node)
            ]
            self._store.decisions.commit(changes)
        return node

    return patch.object(NodeEffects, "_ordered", wrong)


def _unread_orders_are_lost() -> AbstractContextManager[Any]:
    right = Reports._lost

    def wrong(self: Reports, node: Node, report: wire.NodeReport, *more: Any) -> Any:
        return right(self, node, replace(report, orders=1 << 52), *more)

    return patch.object(Reports, "_lost", wrong)


def _orders(
    wrong: Callable[[wire.OrderedAttempt, Job], wire.OrderedAttempt],
) -> Callable[[], AbstractContextManager[Any]]:
    right = Orders._ordered

    def ordered(self: Orders, job: Job, *more: Any, **said: Any) -> wire.OrderedAttempt:
        return wrong(right(self, job, *more, **said), job)

    return lambda: patch.object(Orders, "_ordered", ordered)


def _without_stop(order: wire.OrderedAttempt, job: Job) -> wire.OrderedAttempt:
    moves = job.claim is not None and job.claim.moved
    return replace(order, stop=False) if moves else order


def _large_waited(world: World) -> str:
    """Complain if the job that others move for started no sooner than they ended."""
    ended = {name: job.changed_at for name, job in world.watch.jobs.items()}
    late = ended["large"] > min(ended["a"], ended["b"])
    return "large waited until a job on its node had ended" if late else ""


MUTANTS = (
    Mutant(
        "a job that moves is never stopped",
        _orders(_without_stop),
        undisturbed(MOVES, _large_waited),
        CONVERGENT,
    ),
    Mutant(
        "an agent gives each part a whole GPU",
        _orders(lambda order, _: replace(order, gpu_part=None)),
        undisturbed(MOVES, lambda _: ""),
        CAPACITY,
    ),
    Mutant(
        "orders replace any orders",
        _orders_replace_any_orders,
        race(BESIDE, first={16: 1}),
    ),
    Mutant(
        "a report of an older generation counts",
        _any_generation_reports,
        undisturbed(SLOW, lambda _: ""),
        ONE_LIVE,
    ),
    Mutant(
        "no lease ever ends",
        _leases_never_end,
        undisturbed(SLOW, lambda _: ""),
        CONVERGENT,
    ),
    Mutant(
        "a node counts as silent before its lease ends",
        _leases_end_early,
        undisturbed(SLOW, lambda _: ""),
        LEASE,
    ),
    Mutant(
        "the slot of a silent node comes free before its end",
        _silent_nodes_are_given_up,
        undisturbed(SLOW, lambda _: ""),
        CAPACITY,
    ),
    Mutant(
        "jobs of a silent node wait before its end",
        _jobs_of_a_silent_node_wait_at_once,
        undisturbed(STANDS, lambda _: ""),
        CAPACITY,
    ),
    Mutant(
        "an attempt whose orders are unread is lost",
        _unread_orders_are_lost,
        race(BESIDE),
        CAPACITY,
    ),
    Mutant(
        "the slot of a node comes free at its stop",
        _slots_come_free_at_the_stop,
        undisturbed(REFUSED, lambda _: ""),
        CAPACITY,
    ),
    Mutant(
        "nobody repeats the start of a node",
        _nobody_repeats_an_intent,
        crash(OUTLIVES, SILENT),
        CONVERGENT,
    ),
    Mutant(
        "the end of a node without an event is never found",
        _nobody_asks_for_nodes,
        crash(OUTLIVES, SILENT),
        CONVERGENT,
    ),
)

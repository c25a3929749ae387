"""From an order in the table to the end of its job, with a real agent and the emulator's S3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from slotq_core.adapters.deployment_settings import SystemClock
from slotq_core.adapters.memory.scripts import MemoryScripts
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.adapters.nodes.documents import S3NodeDocuments
from slotq_core.gpu_amounts import WHOLE
from slotq_core.lifecycle import move
from slotq_core.model.attempts import Attempt, AttemptOutcome, StopCause, StopOrder
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import NodeRules
from slotq_core.operations.attempts.suspends import Suspends
from slotq_core.operations.effects import Effects
from slotq_core.ports.stored import Change
from tests.contract.keeping_nodes import TENANT, becoming, changed, coming, starting_node
from tests.contract.worlds import a_job, a_pool, a_queue, commit
from tests.functional.local.account import Account
from tests.functional.local.node_process import NodeProcess, attempt, node, python
from tests.unit.nodes.queue_of_nodes import NoSageMaker, NoWakes

RULES = NodeRules(gpu_ids=("0", "1", "2", "3"))


class Queue:
    """A queue in memory whose only node is a real process."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.clock = SystemClock()
        self.store = a_queue(MemoryStore(), a_pool("p5", 2, nodes=RULES))
        self.documents = S3NodeDocuments(
            bucket=account.bucket, route="", lease=60, make_client=lambda: account.s3
        )
        scripts = MemoryScripts(self.clock)
        suspends = Suspends(self.store.jobs, scripts, NoWakes(), self.clock)
        self.effects = Effects(
            self.store, NoSageMaker(), self.clock, suspends, scripts, documents=self.documents
        )
        fields = {"contents": Demand(gpus=8), "started_at": self.clock.now()}
        self.node = changed(self.store, starting_node(self.store, **fields))

    def now(self) -> Node:
        found = self.store.nodes.get("p5", "n1")
        assert found is not None
        return found

    def take_in(self) -> None:
        assert self.effects.node_services.reports.take_in(self.now()).findings == ()

    def start(self, name: str, source: str, *gpus: int) -> None:
        request = attempt(self.account, name, source).request
        job = a_job(name, gpus=WHOLE * len(gpus), tenant=TENANT, checkpoints=True)
        stored = self.store.jobs.submit(job, request)
        self.effects.carry_out(commit(self.store, coming(stored, self.node, *gpus)))

    def evict(self, name: str, *, grace: int | None) -> None:
        before, now = self.job(name), self.clock.now()
        assert before.attempt
        until = None if grace is None else now + grace
        order = StopOrder(cause=StopCause.EVICTED, by="urgent", at=now, grace_until=until)
        live = replace(before.attempt, stop=order)
        after = move(before, JobState.STOPPING, at=now, evictions=1, attempt=live)
        self.effects.carry_out(commit(self.store, Change(before=before, after=after)))

    def job(self, name: str) -> Job:
        found = self.store.jobs.get(name)
        assert found is not None
        return found

    def until(self, name: str, *states: JobState) -> tuple[Job, Attempt]:
        """Take reports in until the job has one of these states."""

        def reached() -> bool:
            self.take_in()
            return self.job(name).state in states

        self.account.until(reached, f"{name} to be {states}")
        found = self.store.jobs.with_attempts(name)
        assert found is not None
        return found[0], found[1][-1]


@pytest.fixture(scope="module")
def both(emulator: Account) -> Iterator[tuple[Queue, NodeProcess]]:
    queue = Queue(emulator)
    launch = queue.documents.launch(queue.node, RULES)
    with node(emulator, "n1") as process:
        process.command = (python(), *launch.entrypoint[1:])
        process.start(**launch.environment)
        emulator.until(lambda: queue.documents.report(queue.node), "a report")
        yield queue, process


def test_a_node_gets_ready_runs_jobs_and_leaves(
    both: tuple[Queue, NodeProcess], account: Account
) -> None:
    queue, process = both
    queue.take_in()
    found = queue.now()
    assert (found.state, found.contents["gpus"]) == (NodeState.READY, 4)

    # A job completes.
    queue.start("whole", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])", 1, 3)
    _, ended = queue.until("whole", JobState.COMPLETED)
    assert (ended.outcome, ended.created) == (AttemptOutcome.COMPLETED, True)
    assert ended.running_since is not None
    assert ended.ended_at is not None
    assert ended.running_since <= ended.ended_at <= queue.clock.now()
    assert ended.artifact.endswith("/whole/output/model.tar.gz")
    assert account.said("whole") == ["1,3"]

    # Another one fails with its own words.
    queue.start("broken", "import sys; sys.exit('no such data')", 0)
    _, ended = queue.until("broken", JobState.FAILED)
    assert ended.outcome is AttemptOutcome.FAILED
    assert "exit code: 1" in ended.message

    # One is asked to release within its grace, one is stopped at once.
    releases = """
import os, time
print("begun", flush=True)
marker = os.environ["SM_CHECKPOINT_DIR"] + "/_slotq/asked/suspend.json"
while not os.path.exists(marker):
    time.sleep(0.02)
open(os.environ["SM_OUTPUT_DIR"] + "/failure", "w").write("slotq-released")
os._exit(75)
"""
    queue.start("asked", releases, 0)
    queue.start("stopped-at-once", "import time; print('begun', flush=True); time.sleep(1000)", 1)
    for name in ("asked", "stopped-at-once"):
        account.wait_for_line(name, "begun")
        queue.until(name, JobState.RUNNING)
    queue.evict("asked", grace=60_000)
    queue.evict("stopped-at-once", grace=None)
    for name in ("asked", "stopped-at-once"):
        _, ended = queue.until(name, JobState.PREEMPTED)
        assert ended.outcome is AttemptOutcome.EVICTED

    # The node leaves.
    assert queue.store.nodes.jobs(queue.node) == {}
    changed(queue.store, becoming(queue.now(), NodeState.STOPPING))
    queue.effects.node_services.orders.write(queue.now())
    assert process.wait() == 0

"""Orders and reports that are lost, repeated, late or in another order never change what becomes of
the jobs: each runs once at a time, on GPUs of its own, and ends as its script did."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from slotq_core.model.jobs import JobState
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.wire.nodes.documents import AttemptPhase, Orders, read_orders
from tests.unit.nodes.queue_of_nodes import GPUS, QueueOfNodes

STEPS = 40
_ENDS = {
    AttemptPhase.COMPLETED: JobState.COMPLETED,
    AttemptPhase.FAILED: JobState.FAILED,
}
_LEFT = frozenset({JobState.PREEMPTED, JobState.BACKOFF})


class Chaos:
    """Jobs come to a node, are evicted and end, while every document may go astray."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.queue = QueueOfNodes()
        self.kept_orders: list[Orders] = []
        self.kept_reports: list[bytes] = []
        self.stale = self.queue.now()
        self.names: list[str] = []
        self.evicted: dict[str, str] = {}
        """The evicted attempts, by training job their jobs."""
        self.scripts: dict[str, AttemptPhase] = {}
        """How the script of each training job has ended by itself."""

    def step(self) -> None:
        self.queue.later(self.chance.random() * 3)
        steps = (
            self.starts,
            self.evicts,
            self.dies_while_it_starts,
            self.agent_reads,
            self.agent_reads_old_orders,
            self.reports,
            self.an_old_report_comes_back,
            self.takes_in,
            self.a_slow_handler_takes_in,
            self.loses_the_orders,
            self.a_script_ends,
        )
        self.chance.choice(steps)()
        self.check()

    def _free(self) -> list[int]:
        held = {
            gpu
            for name in self.queue.store.nodes.jobs(self.queue.node)
            for gpu in self.queue.attempt(name).gpu_ids
        }
        return [gpu for gpu in range(GPUS) if gpu not in held]

    def _admits(self) -> str | None:
        free = self._free()
        if not free:
            return None
        gpu = self.chance.choice(free)
        waiting = [name for name in self.names if self.queue.job(name).state in _LEFT]
        if waiting and self.chance.random() < 0.5:
            name = self.chance.choice(waiting)
            job = self.queue.job(name)
            if job.state is JobState.PREEMPTED:
                self.queue.admit_again(job, gpu)
                return name
        name = f"job{len(self.names)}"
        self.names.append(name)
        self.queue.admit(name, gpu, checkpoints=True)
        return name

    def starts(self) -> None:
        if name := self._admits():
            self.queue.new_handler().carry_out(self.queue.job(name))
            self._keep()

    def dies_while_it_starts(self) -> None:
        """Another handler finishes it, a minute later."""
        name = self._admits()
        if name is None:
            return
        if self.chance.random() < 0.5:  # After the write of the orders.
            starts = {self.queue.attempt(name).training_job}
            self.queue.effects.node_services.orders.write(self.queue.node, starts=starts)
            self._keep()

    def _finish_intents(self) -> None:
        jobs = [self.queue.job(name) for name in self.queue.store.nodes.jobs(self.queue.node)]
        effects = self.queue.new_handler()
        effects.carry_out_all(effects.stale(jobs))

    def evicts(self) -> None:
        live = [
            name
            for name in self.queue.store.nodes.jobs(self.queue.node)
            if self.queue.job(name).state is JobState.RUNNING
        ]
        if not live:
            return
        name = self.chance.choice(live)
        job = self.queue.stop(name)
        assert job.attempt
        self.evicted[job.attempt.training_job] = name
        if self.chance.random() < 0.7:
            self.queue.effects.carry_out(job)
        self._keep()

    def _keep(self) -> None:
        document = self.queue.documents.orders(self.queue.node)
        if document is not None:
            self.kept_orders.append(read_orders(document.content))

    def agent_reads(self) -> None:
        self.queue.agent.read()

    def agent_reads_old_orders(self) -> None:
        if self.kept_orders:
            self.queue.agent.read(self.chance.choice(self.kept_orders))

    def reports(self) -> None:
        self.kept_reports.append(self.queue.agent.report())

    def an_old_report_comes_back(self) -> None:
        if self.kept_reports:
            content = self.chance.choice(self.kept_reports)
            self.queue.documents.write_report(self.queue.node, content)

    def takes_in(self) -> None:
        assert self.queue.take_in().findings == ()
        self.stale = self.queue.now()

    def a_slow_handler_takes_in(self) -> None:
        """It has read the node before."""
        assert self.queue.take_in(self.stale).findings == ()

    def loses_the_orders(self) -> None:
        """Once the queue knows that what they start runs: a bucket loses nothing within seconds."""
        self.queue.agent.read()
        self.reports()
        self.takes_in()
        if self.queue.documents.orders(self.queue.node) is not None:
            self.queue.documents.lose_orders(self.queue.node)
            self.kept_orders.clear()

    def a_script_ends(self) -> None:
        running = [name for name, one in self.queue.agent.attempts.items() if not one.state.ended]
        if running:
            name = self.chance.choice(running)
            how = self.chance.choice([*_ENDS])
            self.scripts[name] = how
            self.queue.agent.end(name, how)

    def check(self) -> None:
        """No attempt begins twice, and no two attempts of a job, or of a GPU, run at once."""
        begun = self.queue.agent.begun
        assert len(set(begun)) == len(begun)
        running = [name for name, one in self.queue.agent.attempts.items() if not one.state.ended]
        jobs = [name.partition("-qstamp-")[0] for name in running]
        assert len(set(jobs)) == len(jobs)

    def settle(self) -> None:
        """Let everything come to rest, without further trouble."""
        for _ in range(4):
            self.queue.later(HANDLER_LIFETIME / 1000)
            self._finish_intents()
            self.queue.effects.node_services.orders.write(self.queue.node)
            self.queue.settle()
            self.check()


@given(st.integers(0, 2**32))
def test_documents_that_go_astray_change_no_outcome(seed: int) -> None:
    chaos = Chaos(random.Random(seed))
    for _ in range(STEPS):
        chaos.step()
    chaos.settle()
    queue = chaos.queue
    running = {name for name, one in queue.agent.attempts.items() if not one.state.ended}
    for name in chaos.names:
        found = queue.store.jobs.with_attempts(name)
        assert found is not None
        job, attempts = found
        last = attempts[-1].training_job
        if last in chaos.scripts:
            how = chaos.scripts[last]
            was_evicted = how is AttemptPhase.FAILED and last in chaos.evicted
            expected = JobState.PREEMPTED if was_evicted else _ENDS[how]
        elif last in chaos.evicted:
            expected = JobState.PREEMPTED
        else:
            expected = JobState.RUNNING
        assert job.state is expected, (name, last)
        assert (last in running) == (job.state is JobState.RUNNING)
    ordered = (
        {name for name, word in queue.ordered().items() if word == "run"}
        if (queue.documents.orders(queue.node))
        else set()
    )
    assert ordered == running

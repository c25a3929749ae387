"""The agents of nodes, and their bucket, on the virtual clock.

An agent here does with its documents what the real one does (`slotq_core.adapters.nodes.agent`,
which has its own tests): it reads `orders.json`, runs attempts, writes `report.json` with its
proof, and ends everything when its lease is over by its own clock. So the campaign knows at each
moment which attempts run, whatever the queue's table says of them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from slotq.local.training.virtual_runner import VirtualRunner, Work
from slotq_core.model.nodes import node_of_owner
from slotq_core.names import JOB_TAG
from slotq_core.operations.nodes.node_stops import SILENCE_MARGIN
from slotq_core.timestamps import to_datetime
from slotq_core.wire.nodes.documents import (
    AttemptPhase,
    EndReason,
    Gpu,
    NodePhase,
    NodeReport,
    OrderedAttempt,
    ReportedAttempt,
    read_orders,
    written_report,
)

if TYPE_CHECKING:
    from tests.faults.world import World

BUCKET = "slotq-nodes"
POLL = 2_000
"""How often an agent reads its orders (ms)."""
_CHANGED = {"Error": {"Code": "PreconditionFailed"}}
_ABSENT = {"Error": {"Code": "NoSuchKey"}}


@dataclass(frozen=True, kw_only=True)
class AgentRules:
    """What the agents of a story are like."""

    gpus: int = 2
    rate: float = 1.0
    """Seconds that the first node's agent counts in each second: no clock is exact."""
    cut_off: tuple[float, float] = (0, 0)
    """From when until when (s after the start) the first node cannot reach S3."""


class Bucket:
    """The bucket of the nodes' documents, as S3 keeps it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._objects: dict[str, tuple[bytes, str, int]] = {}
        self._writes = 0

    def put_object(
        self,
        *,
        Key: str,  # noqa: N803 - S3's name
        Body: bytes,  # noqa: N803
        IfMatch: str | None = None,  # noqa: N803
        IfNoneMatch: str | None = None,  # noqa: N803
        **_: Any,
    ) -> dict[str, Any]:
        found = self._objects.get(Key)
        if IfMatch is not None and found is None:
            raise ClientError(_ABSENT, "PutObject")
        if (IfNoneMatch and found) or (IfMatch is not None and found and found[1] != IfMatch):
            raise ClientError(_CHANGED, "PutObject")
        self._writes += 1
        self._objects[Key] = Body, f'"{self._writes}"', self._world.clock.now()
        self._world.agents.written(Key)
        return {"ETag": f'"{self._writes}"'}

    def get_object(self, *, Key: str, **_: Any) -> dict[str, Any]:  # noqa: N803 - S3's name
        if Key not in self._objects:
            raise ClientError(_ABSENT, "GetObject")
        content, version, at = self._objects[Key]
        written = to_datetime(at - at % 1000)
        return {"Body": io.BytesIO(content), "ETag": version, "LastModified": written}

    def read(self, key: str) -> bytes | None:
        return self._objects[key][0] if key in self._objects else None


@dataclass(kw_only=True)
class Attempt:
    """An attempt that an agent has begun."""

    order: OrderedAttempt
    work: Work
    ends: int | None
    """When its work is done (ms), by the true clock."""
    began: int
    stops: int | None = None
    why: EndReason = EndReason.ITSELF
    shown: ReportedAttempt

    @property
    def runs(self) -> bool:
        return not self.shown.state.ended


class Agent:
    """The agent of one generation of a node."""

    def __init__(self, world: World, training_job: str, request: Mapping[str, Any]) -> None:
        self._world = world
        self.training_job = training_job
        settings = request["Environment"]
        self.node, self.token = settings["SLOTQ_NODE"], settings["SLOTQ_NODE_TOKEN"]
        self._generation = int(settings["SLOTQ_NODE_GENERATION"])
        self.folder = settings["SLOTQ_NODE_FOLDER"].removeprefix(f"s3://{BUCKET}/")
        self.lease = int(settings["SLOTQ_NODE_LEASE"]) * 1000
        self.rules = world.agents.rules or AgentRules()
        self.attempts: dict[str, Attempt] = {}
        self.alive, self._leaves, self._stopped = True, False, False
        self._is_first = not world.agents.of
        self._rate = self.rules.rate if self._is_first else 1.0
        self._born = world.clock.now()
        self._number = self._read_number = 0
        self._lease_until = 0
        """By its own count (ms)."""
        self._report_at = self._born
        self._due = 0
        self.act()

    def running(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts.values() if self.alive and attempt.runs]

    def may_begin(self, attempt: str) -> bool:
        """Whether it will begin this attempt by orders that it has not read yet."""
        content = self._world.bucket.read(self._at("orders"))
        if content is None or attempt in self.attempts:
            return False
        orders = read_orders(content)
        listed = any(order.attempt == attempt and not order.stop for order in orders.attempts)
        return listed and orders.number > self._read_number and not orders.leave

    def act(self) -> None:
        """Do all that is due at this moment, and come again when more will be."""
        if not self.alive:
            return
        changed = self._end_attempts()
        changed |= self._read_orders()
        now = self._world.clock.now()
        if changed or now >= self._report_at:
            self._report()
        over = (self._leaves or self._stopped) and not self.running()
        if over and self._report_at > now:  # Its last report is written.
            self._world.runner.completes(self.training_job)
            return
        self._come_again()

    def _come_again(self) -> None:
        now = self._world.clock.now()
        dues = [self._report_at, self._true(self._lease_until)]
        dues += [now + POLL] * self._is_cut_off()
        dues += [at for each in self.running() for at in (each.ends, each.stops) if at is not None]
        self.comes_at(min(at for at in dues if at > now))

    def comes_at(self, at: int) -> None:
        now = self._world.clock.now()
        if now < self._due <= at:
            return
        self._due = at
        self._world.after(at - now, "agent", self.act)

    def terminate(self) -> None:
        """SIGTERM: SageMaker stops the node."""
        self._stopped = True
        for attempt in self.running():
            self._stop(attempt, EndReason.NODE)
        self._come_again()

    # --- its clock

    @property
    def keeps_time(self) -> bool:
        """Whether its clock is as good as the queue's margin for silence takes for granted."""
        return self._rate * (self.lease + SILENCE_MARGIN) >= self.lease

    def _own(self, at: int | None = None) -> int:
        """What its clock shows (ms since its start) at this moment."""
        return int(((self._world.clock.now() if at is None else at) - self._born) * self._rate)

    def _true(self, own: int) -> int:
        """The moment (ms) at which its clock shows this."""
        return self._born + int(own / self._rate) + 1

    def _is_cut_off(self) -> bool:
        since, until = self.rules.cut_off
        in_time = since * 1000 <= self._world.since_start() < until * 1000
        return in_time and self._is_first

    # --- attempts

    def _read_orders(self) -> bool:
        content = None if self._is_cut_off() else self._world.bucket.read(self._at("orders"))
        if content is None:
            return False
        orders = read_orders(content)
        if (orders.node, orders.generation) != (self.node, self._generation):
            return False
        if orders.number <= self._read_number:
            return False
        self._read_number, self._leaves = orders.number, self._leaves or orders.leave
        listed = {order.attempt: order for order in orders.attempts}
        for name, attempt in self.attempts.items():
            order = listed.get(name)
            if attempt.runs and (order is None or order.stop or self._leaves):
                self._stop(attempt, EndReason.ORDER)
            elif attempt.runs and order and order.suspend and attempt.work.release is not None:
                self._stop(attempt, EndReason.SUSPEND, after=attempt.work.release)
        for order in orders.attempts:
            new = order.attempt not in self.attempts and not order.stop
            if new and not (self._leaves or self._stopped) and self._own() < self._lease_until:
                self._begin(order)
        return True

    def _begin(self, order: OrderedAttempt) -> None:
        now, runner = self._world.clock.now(), self._world.runner
        work = runner.work_of(order.job)
        left = None if work.runtime is None else work.runtime - runner.done.get(order.job, 0)
        shown = ReportedAttempt(
            attempt=order.attempt, state=AttemptPhase.RUNNING, began_ms=self._own()
        )
        ends = None if left is None else now + max(left, 0)
        self.attempts[order.attempt] = Attempt(
            order=order, work=work, ends=ends, began=now, shown=shown
        )

    def _stop(self, attempt: Attempt, why: EndReason, *, after: int | None = None) -> None:
        at = self._world.clock.now() + (attempt.work.stop if after is None else after)
        if attempt.stops is None or at < attempt.stops:
            attempt.stops, attempt.why = at, why

    def _end_attempts(self) -> bool:
        """End what is over; without a lease, everything at once. Returns whether anything ended."""
        now, changed = self._world.clock.now(), False
        for attempt in self.running():
            if attempt.ends is not None and attempt.ends <= now:
                self._ended(attempt, AttemptPhase.COMPLETED, EndReason.ITSELF)
            elif self._own() >= self._lease_until:
                self._ended(attempt, AttemptPhase.STOPPED, EndReason.LEASE)
            elif attempt.stops is not None and attempt.stops <= now:
                released = attempt.why is EndReason.SUSPEND
                state = AttemptPhase.RELEASED if released else AttemptPhase.STOPPED
                self._ended(attempt, state, EndReason.ITSELF if released else attempt.why)
            changed |= not attempt.runs
        return changed

    def _ended(self, attempt: Attempt, state: AttemptPhase, why: EndReason) -> None:
        done, job = self._world.runner.done, attempt.order.job
        if attempt.work.checkpoint:
            done[job] = done.get(job, 0) + self._world.clock.now() - attempt.began
        attempt.shown = replace(attempt.shown, state=state, why=why, ended_ms=self._own())

    # --- its report

    def _at(self, document: str) -> str:
        return f"{self.folder}/{document}.json"

    def _report(self) -> None:
        now = self._world.clock.now()
        if self._is_cut_off():
            self._report_at = now + POLL
            return
        self._number += 1
        report = NodeReport(
            node=self.node,
            generation=self._generation,
            number=self._number,
            orders=self._read_number,
            uptime_ms=self._own(),
            state=NodePhase.LEAVING if self._leaves or self._stopped else NodePhase.READY,
            uids=True,
            gpus=tuple(Gpu(index=index, id=str(index)) for index in range(self.rules.gpus)),
            attempts=tuple(attempt.shown for attempt in self.attempts.values()),
        )
        content = written_report(report, self.token)
        self._world.bucket.put_object(Key=self._at("report"), Body=content)
        self._lease_until = self._own() + self.lease
        self._report_at = self._true(self._own() + self.lease // 3)
        self._read_orders()  # Those that came before it had a lease.


class Agents:
    """All agents of a world. `rules`: None if none of them ever reports."""

    def __init__(self, world: World, rules: AgentRules | None) -> None:
        self._world, self.rules = world, rules
        self.of: dict[str, Agent] = {}
        """By the training jobs of their nodes; of those that have ended, too."""

    def born(self, training_job: str, request: Mapping[str, Any]) -> None:
        if self.rules is not None:
            self.of[training_job] = Agent(self._world, training_job, request)

    def written(self, key: str) -> None:
        """An object was written: an agent whose orders it is reads it with its next look."""
        for agent in self.of.values():
            if agent.alive and key == f"{agent.folder}/orders.json":
                agent.comes_at(self._world.clock.now() + POLL)

    def running(self) -> list[tuple[Agent, Attempt]]:
        """Every attempt that runs at this moment."""
        return [(agent, attempt) for agent in self.of.values() for attempt in agent.running()]

    def may_begin(self, training_job: str) -> bool:
        """Whether an agent will begin this attempt by orders that it has not read yet."""
        return any(agent.may_begin(training_job) for agent in self.of.values() if agent.alive)

    def status_of(self, training_job: str) -> str:
        """What has become of an attempt, in SageMaker's words; empty: no agent knows it."""
        words = {AttemptPhase.COMPLETED: "Completed", AttemptPhase.RUNNING: "InProgress"}
        for agent in self.of.values():
            if (attempt := agent.attempts.get(training_job)) is not None:
                return words.get(attempt.shown.state, "Stopped")
        return ""


class NodeRunner(VirtualRunner):
    """A runner whose nodes have agents."""

    def __init__(self, world: World, **more: Any) -> None:
        super().__init__(clock=world.clock, **more)
        self._world = world

    def work_of(self, job: str) -> Work:
        return self._work_of(job, {})

    def start(self, training_job: str, request: Mapping[str, Any]) -> None:
        super().start(training_job, request)
        tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags") or ()}
        if node_of_owner(tags.get(JOB_TAG, "")) is not None:
            self._world.agents.born(training_job, request)

    def terminate(self, training_job: str) -> None:
        super().terminate(training_job)
        if (agent := self._world.agents.of.get(training_job)) is not None and agent.alive:
            agent.terminate()

    def completes(self, training_job: str) -> None:
        """The agent of this node has left."""
        run = self._runs.get(training_job)
        if run is not None:
            run.ends = self._clock.now()
        self._dies(training_job)

    def _end(self, training_job: str) -> Any:
        self._dies(training_job)
        return super()._end(training_job)

    def _dies(self, training_job: str) -> None:
        if (agent := self._world.agents.of.get(training_job)) is not None:
            agent.alive = False

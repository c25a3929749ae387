"""A whole queue in one process for tests: manager, store in memory, our own training plane, and a
clock that stands still until it is told to go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slotq.local.services.training_service import PlaneClient
from slotq.local.training.plane import Plane
from slotq.local.training.virtual_runner import VirtualClock, VirtualRunner, Work
from slotq_core.adapters.memory.scripts import MemoryScripts
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.adapters.sagemaker.observations import observation_of
from slotq_core.adapters.sagemaker.service import SageMakerTraining
from slotq_core.admission.groups import NewGroup
from slotq_core.manager import QueueManager
from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.operations.attempts.suspends import Suspends
from slotq_core.operations.effects import Effects
from slotq_core.operations.jobs.group_lookup import GroupStatus
from slotq_core.operations.reconcile import Reconciler
from slotq_core.operations.status import Status
from slotq_core.ports.store import Store
from slotq_core.wire.submission import parse_submission

INSTANCE_TYPE = "ml.m5.large"
START = 1_790_000_000_000


ROLE = "arn:aws:iam::123456789012:role/training"


def request(
    name: str,
    *,
    priority: int = 0,
    slots: int = 1,
    role: str = ROLE,
    checkpoints: str = "",
    **tags: str,
) -> dict[str, Any]:
    """A CreateTrainingJob request. `checkpoints`: where they lie in S3; empty: the job has none.
    Further tags by their name behind `slotq:`, `_` for `-`."""
    settings = {f"slotq:{key.replace('_', '-')}": value for key, value in tags.items()}
    saved = {"CheckpointConfig": {"S3Uri": checkpoints}} if checkpoints else {}
    return {
        **saved,
        "TrainingJobName": name,
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "RoleArn": role,
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": {
            "InstanceType": INSTANCE_TYPE,
            "InstanceCount": slots,
            "VolumeSizeInGB": 1,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 86_400},
        "Tags": [
            {"Key": key, "Value": value}
            for key, value in {"priority": str(priority), **settings}.items()
        ],
    }


def pool(name: str = "p", slots: int = 1, **fields: Any) -> Pool:
    return Pool(name=name, instance_type=INSTANCE_TYPE, capacity=Demand(slots=slots), **fields)


class AskedScripts(MemoryScripts):
    """The scripts of a runner's jobs."""

    def __init__(self, clock: VirtualClock, runner: VirtualRunner) -> None:
        super().__init__(clock)
        self._runner = runner

    def ask(self, attempt: Attempt) -> bool:
        asked = super().ask(attempt)
        if asked:
            self._runner.ask(attempt.training_job)
        return asked


class QueueWorld:
    """`runtime`: milliseconds of work in each job, which has no other `work`. Events wait in
    `events` until `deliver()`."""

    def __init__(
        self,
        *pools: Pool,
        runtime: int = 100_000,
        store: Store | None = None,
        work: Mapping[str, Work] | None = None,
    ) -> None:
        self.clock = VirtualClock(START)
        self.runtime = runtime
        self.events: list[dict[str, Any]] = []
        runner = VirtualRunner(
            clock=self.clock,
            work_of=lambda job, _: (work or {}).get(job, Work(runtime=self.runtime)),
        )
        self.scripts = AskedScripts(self.clock, runner)
        self.plane = Plane(clock=self.clock, runner=runner, emit=self.events.append)
        self.client = PlaneClient(self.plane)
        self.store: Store = store or MemoryStore()
        self.store.configuration.change(pools or (pool(),), who="test", now=START)
        self.woken = 0
        self.wakes_at: list[int] = []
        """The moments (ms) for which the queue has asked for a pass."""
        self.letters: list[tuple[str, str, str]] = []
        self.manager = self.another_manager()

    def another_manager(self) -> QueueManager:
        return QueueManager(
            store=self.store,
            training=self.training(),
            clock=self.clock,
            notifier=self,
            dead_letters=self,
            scripts=self.scripts,
        )

    def training(self) -> SageMakerTraining:
        return SageMakerTraining(queue="test", clock=self.clock, make_client=lambda: self.client)

    def another_reconciler(self) -> Reconciler:
        training = self.training()
        suspends = Suspends(self.store.jobs, self.scripts, self, self.clock)
        effects = Effects(self.store, training, self.clock, suspends)
        return Reconciler(self.store, training, self.clock, effects)

    def put(self, kind: str, subject: str, reason: str) -> None:
        """The queue's dead letters end here."""
        self.letters.append((kind, subject, reason))

    def wake(self) -> None:
        self.woken += 1

    def wake_at(self, at: int) -> None:
        self.wakes_at.append(at)

    def submit(self, name: str, **fields: Any) -> Status:
        submission, body = parse_submission(request(name, **fields))
        return self.manager.submissions.submit(submission, body, submitter="ann")

    def submit_group(self, name: str, *members: dict[str, Any], **rules: Any) -> GroupStatus:
        """Submit a group of these requests: a gang, if the rules name no `max_parallel`."""
        parsed = [parse_submission(each) for each in members]
        wanted = NewGroup(
            name=name,
            members=tuple((replace(submission, group=name), body) for submission, body in parsed),
            digest=json.dumps([*members, rules], default=str),
            **rules,
        )
        return self.manager.groups.submit(wanted, submitter="ann")

    def deliver(self) -> None:
        """Let the plane take in what is due, hand its events over, and run passes, until quiet."""
        while True:
            self.plane.advance()
            events, self.events[:] = list(self.events), []
            for event in events:
                self.manager.observe(observation_of(event["detail"], at=self.clock.now()))
            self.manager.passes.run()
            if not self.events:
                return

    def later(self, seconds: float) -> None:
        self.clock.set(self.clock.now() + round(seconds * 1000))
        self.deliver()

    def report(self, training_job: str, step: int = 0, **fields: Any) -> None:
        """Let a script report a step, and whatever else its report has."""
        now = self.clock.now()
        report = {"version": 1, "training_job": training_job, "step": step, "reported_at": now}
        self.scripts.write(training_job, json.dumps({**report, **fields}).encode())

    def job(self, name: str) -> Job:
        job = self.store.jobs.get(name)
        assert job is not None
        return job

    def states(self) -> dict[str, str]:
        return {status.job.name: status.job.state.value for status in self.manager.jobs.statuses()}

    def training_jobs(self) -> dict[str, str]:
        """SageMaker's own view: every training job and its status."""
        listed = self.client.list_training_jobs(MaxResults=100)["TrainingJobSummaries"]
        return {it["TrainingJobName"]: it["TrainingJobStatus"] for it in listed}


def evicting() -> QueueWorld:
    """job1 runs and has just been asked to stop for job2."""
    world = QueueWorld()
    world.submit("job1", priority=1)
    world.deliver()
    world.submit("job2", priority=2)
    world.manager.passes.run()
    return world

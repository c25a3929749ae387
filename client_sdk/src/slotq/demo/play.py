"""Plays the story: submits each job at its moment with the SageMaker SDK, and watches the queue.

The SDK calls only the emulator.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import Protocol

import boto3
from sagemaker.estimator import Estimator

from slotq.client import QueueClient
from slotq.demo.proof import Evidence
from slotq.demo.story import EVICTED, EVICTION, INSTANCE_TYPE, PARTS, StoryJob, StoryMoment
from slotq.errors import SlotQError
from slotq.session.installed_sdk import QueueTrainingJobSession
from slotq_core.model.jobs import JobState
from slotq_core.wire.views.jobs import JobView

ROLE = "arn:aws:iam::123456789012:role/demo"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/demo:1"
"""An image that is never fetched: the emulator runs the script with this Python."""
POLL = 0.2
PATIENCE = 60.0
"""Seconds to wait for the conditions of a part, or for the eviction. After that the story goes on
anyway, and the checks show the consequences."""
LONGEST = 300.0
"""Seconds after which the demo gives up."""
_IN_MOTION = {JobState.STARTING, JobState.STOPPING}
_ENDED = {JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.STOPPED}


class TookTooLong(SlotQError):
    """The story has not ended within LONGEST."""


class DemoScreen(Protocol):
    """Shows the demo's events. `at` is in seconds since the first submission."""

    def submits(self, at: float, part: StoryJob) -> None: ...
    def changed(self, at: float, before: JobView | None, now: JobView) -> None: ...
    def settled(self, at: float, jobs: list[JobView]) -> None: ...


@dataclass(kw_only=True)
class Player:
    """Plays the story once, against the queue and the AWS of the environment."""

    screen: DemoScreen
    evidence: Evidence
    queue: QueueClient
    speed: float
    began: float = 0.0
    jobs: dict[str, JobView] = field(default_factory=dict)
    shown: list[object] = field(default_factory=list)

    def play(self) -> dict[str, JobView]:
        """Play the story. Returns every job at its end, with its attempts. Raises TookTooLong, and
        KeyboardInterrupt on Ctrl-C."""
        with (
            as_file(files("slotq.demo") / "job") as source,
            tempfile.TemporaryDirectory(prefix="slotq-demo-") as folder,
        ):
            session, evicted = self._session(), Path(folder) / "evicted"
            estimators = {
                part.name: self._estimator(part, session, source, evicted) for part in PARTS
            }
            self.began = time.monotonic()
            for part in PARTS:
                self._wait_for(part)
                self.screen.submits(self._at(), part)
                estimators[part.name].fit(job_name=part.name, wait=False)
                if estimators[part.name].latest_training_job is None:
                    raise KeyboardInterrupt  # The SDK's telemetry swallows it, and fit() returns.
                self._look()
            self._wait_for(EVICTION)
            evicted.touch()
            while not self._all(_ENDED, (part.name for part in PARTS)):
                time.sleep(POLL)
                self._look()
        return {part.name: self.queue.jobs.view(part.name) for part in PARTS}

    def _session(self) -> QueueTrainingJobSession:
        return QueueTrainingJobSession(boto3.Session(), queue=self.queue, say=lambda _: None)

    def _estimator(
        self, part: StoryJob, session: QueueTrainingJobSession, source: Path, evicted: Path
    ) -> Estimator:
        """An estimator of the part's job, which ends only after the file `evicted` exists."""
        bucket = session.default_bucket()
        return Estimator(
            IMAGE,
            role=ROLE,
            instance_count=1,
            instance_type=INSTANCE_TYPE,
            source_dir=str(source),
            entry_point="train.py",
            hyperparameters={
                "steps": part.steps,
                "step-seconds": 1 / self.speed,
                "last-step-after": str(evicted),
            },
            checkpoint_s3_uri=f"s3://{bucket}/{part.name}/checkpoints",
            output_path=f"s3://{bucket}/models",
            tags=[{"Key": "priority", "Value": str(part.priority)}],
            max_run=3600,
            sagemaker_session=session,
        )

    def _wait_for(self, part: StoryMoment) -> None:
        """Wait until the moment has come and the other jobs are in the states that it
        requires."""
        patience = time.monotonic() + part.at / self.speed + PATIENCE
        while self._at() < part.at / self.speed or not self._ready(part):
            if time.monotonic() > patience:
                return
            time.sleep(POLL)
            self._look()

    def _ready(self, part: StoryMoment) -> bool:
        there = all(
            name in self.jobs and self.jobs[name].state == state
            for name, state in part.after.items()
        )
        if not (there and part.after_checkpoint):
            return there
        return self.evidence.checkpoint(EVICTED) is not None

    def _look(self) -> None:
        """Ask the queue, and show the changes."""
        jobs, at = self.queue.jobs(), self._at()
        if at > LONGEST:
            raise TookTooLong(f"the demo has not ended after {LONGEST:g} s")
        for job in jobs:
            before = self.jobs.get(job.name)
            if before is None or before.state != job.state:
                self.screen.changed(at, before, job)
                self.evidence.look(job)
            self.jobs[job.name] = job
        states: list[object] = [(job.name, job.state, job.place) for job in jobs]
        if states != self.shown and not any(job.state in _IN_MOTION for job in jobs):
            self.screen.settled(at, jobs)
            self.shown = states

    def _all(self, states: set[JobState], names: Iterable[str]) -> bool:
        return all(name in self.jobs and self.jobs[name].state in states for name in names)

    def _at(self) -> float:
        return time.monotonic() - self.began


try:
    from sagemaker.telemetry import telemetry_logging
except ImportError:  # The first versions have no telemetry.
    telemetry_logging = None


@contextmanager
def quiet() -> Iterator[None]:
    """Switch telemetry off. `slotq.cli.machine.demo_command` silences the SDK's logs before the
    import.

    The function replaces the telemetry sender instead of using the SDK's own opt-out. The opt-out
    is a configuration, and the SDK validates a configuration some seventy times in each fit, which
    takes five seconds.
    """
    if telemetry_logging is None:
        yield
        return
    sender = telemetry_logging._send_telemetry_request  # noqa: SLF001 - see above
    telemetry_logging._send_telemetry_request = _send_nothing  # noqa: SLF001
    try:
        yield
    finally:
        telemetry_logging._send_telemetry_request = sender  # noqa: SLF001


def _send_nothing(*_: object, **__: object) -> None:
    pass

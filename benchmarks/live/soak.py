"""A soak: thousands of jobs through the real handler on DynamoDB Local, in four processes that are
killed at random and started again. Events get lost, come twice and come late.

    PYTHONPATH=functions/queue_manager python -m benchmarks.live.soak --jobs 10000

At every CreateTrainingJob, and in the raw items all the time, no slot may be used twice. At the end
every accepted job has completed or was cancelled, and the table holds nothing else.

Time runs ten times as fast as the wall clock, but stands still while a handler takes longer than
half of a Lambda's lifetime: so a slow machine breaks no assumption.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from benchmarks.live.account import LIMITS
from benchmarks.live.shift import Shift, Trigger
from benchmarks.live.watch import Watch
from benchmarks.live.worker import LIFETIME, SharedClock
from slotq.local.training.knobs import Knobs
from slotq.local.training.plane import Plane
from slotq.local.training.virtual_runner import VirtualRunner, Work
from slotq_core.adapters.dynamodb.store import table_definition
from tests.contract import dynamodb_local
from tests.functional.account import LETTERS, NOW, TABLE, add_job, sample
from tests.functional.test_burst import client_of

PROCESSES = 4
SPEED = 10.0
MINUTE = 60_000
POOLS = {"ml.p4d.24xlarge": 120, "ml.p5.48xlarge": 60}
"""Slots by instance type; each type is one pool."""
IN_QUEUE = 1_000
"""Submissions wait while so many jobs are on their way."""
COUNT_EVERY = 10.0
"""The time (s) between two counts of the ended jobs."""
STALLED = 600.0
"""The soak gives up after so long (s) without a job that ends."""
ENDED = {"completed", "cancelled"}


@dataclass
class Faults:
    """How often what goes wrong. Shares are of 1."""

    lost: float = 0.02
    twice: float = 0.02
    late: float = 0.05
    throttled: float = 0.002
    no_answer: float = 0.002
    killed: float = 0.01
    """Handlers that die at their work."""


@dataclass
class Soak:
    """The soak's own process: users, SageMaker, EventBridge, and a chaotic operator."""

    jobs: int
    endpoint: str
    rng: random.Random
    faults: Faults = field(default_factory=Faults)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.clock = SharedClock(multiprocessing.get_context("spawn").Value("q", NOW))
        self.plane = Plane(
            clock=self.clock,
            runner=VirtualRunner(clock=self.clock, work_of=self._work),
            emit=self._emit,
            knobs=Knobs(start_seconds=5.0),
        )
        self.client = client_of(self.endpoint)
        self.client.create_table(**table_definition(TABLE))
        self.watch = Watch(self.client, self.plane, POOLS)
        self.shift = Shift(self, PROCESSES, self.faults.killed)
        self.accepted: set[str] = set()
        self.announced: set[str] = set()
        """The jobs that have ended, as announced. A killed handler announces nothing."""
        self._submitted = self._ended = 0

    @property
    def environment(self) -> dict[str, str]:
        pools = [f"pool-{n}={slots}@{kind}" for n, (kind, slots) in enumerate(POOLS.items())]
        return {
            "AWS_LAMBDA_FUNCTION_NAME": "slotq-queue-manager",
            "SLOTQ_TABLE": TABLE,
            "SLOTQ_DEAD_LETTERS": LETTERS,
            "SLOTQ_POOLS": ",".join(pools),
            "SLOTQ_LIMITS": LIMITS,
            "SLOTQ_ANNOUNCE": "1",
        }

    # --- what happens by itself

    def _work(self, job: str, _request: Any) -> Work:
        """Between 20 s and 4 min."""
        own = random.Random(job)
        return Work(runtime=own.randrange(20_000, 240_000), stop=2_000, checkpoint=True)

    def _emit(self, event: dict[str, Any]) -> None:
        """EventBridge, on a bad day."""
        self.counts["events"] += 1
        if self.rng.random() < self.faults.lost:
            self.counts["events lost"] += 1
            return
        for _ in range(1 + (self.rng.random() < self.faults.twice)):
            late = self.rng.random() < self.faults.late
            delay = self.rng.uniform(0, 3) if late else 0.0
            self.shift.add(Trigger("event", event), after=delay)

    def call(self, service: str, operation: str, request: Any) -> Any:
        """Answer a handler's call to another service than DynamoDB."""
        if service == "sagemaker":
            for knob, share in (
                ("throttle", self.faults.throttled),
                ("lose_answers", self.faults.no_answer),
            ):
                if self.rng.random() < share:
                    setattr(self.plane.knobs, knob, 1)
            return self.watch.called(operation, request)
        self.counts[f"{service} calls"] += 1
        if service == "lambda":
            self.shift.add(Trigger("pass", request))
        if service == "events":
            details = [json.loads(entry["Detail"]) for entry in request]
            self.announced |= {each["job"] for each in details if each["to"] in ENDED}
        return None

    # --- what users do

    def submit_more(self) -> None:
        """Keep some jobs on their way, and cancel one in a hundred."""
        while self._submitted < self.jobs and self._on_their_way() < IN_QUEUE:
            name = f"job-{self._submitted:06d}"
            self._submitted += 1
            self.shift.add(Trigger("submission", self._request(name), name=name))
            if self.rng.random() < 0.01:
                cancel = {**sample("cancel-job"), "path": f"/jobs/{name}"}
                self.shift.add(Trigger("cancel", cancel), after=self.rng.uniform(0, 20))

    def _on_their_way(self) -> int:
        return self._submitted - max(self._ended, len(self.announced))

    def _request(self, name: str) -> dict[str, Any]:
        kind = self.rng.choices([*POOLS], weights=[*POOLS.values()])[0]
        tags = [{"Key": "priority", "Value": str(self.rng.choice((0, 0, 1, 1, 2, 9)))}]
        count = self.rng.choice((1, 1, 1, 2, 4))
        return add_job(
            TrainingJobName=name,
            Tags=tags,
            ResourceConfig={"InstanceType": kind, "InstanceCount": count, "VolumeSizeInGB": 10},
        )

    def answered(self, trigger: Trigger, outcome: str, answer: Any) -> None:
        """What a handler has answered. Failed and unanswered triggers come again, as in Lambda; a
        user asks again."""
        self.counts[f"{trigger.kind} {outcome}"] += 1
        if outcome != "done":
            self.shift.add(trigger, after=self.rng.uniform(0.1, 2))
            return
        status = answer.get("statusCode", 200)
        if trigger.kind == "submission":
            if status >= 500 or status == 429:
                self.shift.add(trigger, after=0.5)
                return
            # Asked again after it has ended, a name is taken: the first time was accepted.
            if status not in {200, 202, 409}:
                self.watch.wrong.append(f"{trigger.name}: {answer['body']}")
            self.accepted.add(trigger.name)

    # --- the run

    def run(self) -> dict[str, Any]:
        began = time.time()
        self.watch.start()
        self.shift.start()
        self._go_on()
        self.shift.drain()
        self.watch.stop()
        return self._report(time.time() - began)

    def _go_on(self) -> None:
        """Until every job has ended and nothing trains, or nothing moves any more."""
        minute, count, last = self.clock.now(), time.time() + COUNT_EVERY, time.time()
        moved = time.time()
        while self._ended < self.jobs or self.plane.live():
            time.sleep(0.02)
            now = time.time()
            if self.shift.longest() < LIFETIME / 2:
                self.clock.advance(int((now - last) * 1000 * SPEED))
            last = now
            self.submit_more()
            self.plane.advance()
            if self.clock.now() >= minute:
                minute += MINUTE
                self.shift.add(Trigger("tick", sample("tick")))
            if now >= count:
                count = now + COUNT_EVERY
                before, self._ended = self._ended, self.watch.ended()
                moved = now if self._ended != before else moved
                print(
                    f"{self._ended} of {self.jobs} jobs have ended, after "
                    f"{(self.clock.now() - NOW) // MINUTE} min of their time",
                    file=sys.stderr,
                    flush=True,
                )
            if now - moved > STALLED:
                self.watch.wrong.append(f"nothing has moved for {STALLED:.0f} s")
                self.watch.wrong += self.shift.at_work()
                return

    def _report(self, seconds: float) -> dict[str, Any]:
        states = self.watch.states()
        missing = self.accepted - states.keys()
        wrong = [*self.watch.wrong, *self.watch.left_over()]
        wrong += [f"{name} was accepted and is nowhere" for name in sorted(missing)]
        wrong += [f"{name} is {state}" for name, state in states.items() if state not in ENDED]
        if len(self.accepted) != self.jobs:
            wrong.append(f"{self.jobs - len(self.accepted)} submissions were never answered")
        return {
            "jobs": self.jobs,
            "seconds": round(seconds),
            "states": dict(Counter(states.values())),
            "kills": self.shift.kills,
            "looks_at_items": self.watch.looks,
            "sagemaker_calls": dict(self.plane.calls),
            "counts": dict(sorted(self.counts.items())),
            "wrong": wrong,
        }


def soak(jobs: int, *, seed: int = 0) -> dict[str, Any]:
    """Run it. Raises dynamodb_local.NotHere."""
    with dynamodb_local.running() as endpoint:
        return Soak(jobs, endpoint, random.Random(seed)).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    result = soak(options.jobs, seed=options.seed)
    print(json.dumps({**result, "wrong": result["wrong"][:20]}, indent=2))
    print(f"{len(result['wrong'])} things wrong")
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    sys.exit(main())

"""The AWS usage of a job's life: invocations, calls, read and write units, counted with the real
handler over a table in memory and the emulator's training plane.

    make counts                   prints the counts
    make counts ARGS=--write      and keeps them for `slotq cost`

The cost of a step is the cost of a script with the step, less that of the same script without it.
Nothing is timed: the counts are the same on every machine, and a test compares the saved counts
with the code.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

import app
from benchmarks.live.account import handler_over, silence
from benchmarks.live.engine import Engine
from slotq.cost.bill import FILE, Counts
from slotq_core.adapters.deployment_settings import PROJECT_METRICS_VARIABLE
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.model.callers import Access
from slotq_core.model.pools import CapacityKind, NodeRules
from slotq_core.model.projects import Project
from slotq_core.model.sharing import Sharing
from slotq_core.names import training_job_name
from slotq_core.wire.nodes.documents import (
    AttemptPhase,
    Gpu,
    NodePhase,
    NodeReport,
    ReportedAttempt,
    read_orders,
    written_report,
)
from tests.cloudformation import template
from tests.contract.test_dynamodb_cost import fill
from tests.contract.worlds import a_job
from tests.functional.account import (
    NODES_BUCKET,
    NOW,
    TABLE,
    Account,
    add_job,
    context,
    forget,
    sample,
)

BEHIND = 1000
"""The number of jobs that wait before the measured one."""
LISTED = 20
BATCH = 50
MINUTE = 60_000
EVENTS = ("training-starting", "training-in-progress", "training-completed")
"""The events of an attempt that can change something."""
BOTH = {"ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2}}
SPOT = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 86_400, "MaxWaitTimeInSeconds": 86_400},
}
URGENT = {"Tags": [{"Key": "priority", "Value": "9"}]}


class Customer:
    """Runs a script's steps and counts the invocations."""

    def __init__(self, account: Account, engine: Engine) -> None:
        self.account, self.engine = account, engine
        self.requests = self.invocations = 0

    def send(self, event: dict[str, Any] | str) -> dict[str, Any]:
        event = sample(event) if isinstance(event, str) else event
        self.invocations += 1
        self.requests += "httpMethod" in event
        answer: dict[str, Any] = app.handler(event, context())
        assert answer.get("statusCode", 200) < 300, answer
        while self.account.lambda_.events:
            self.send(self.account.lambda_.events.pop(0))
        return answer

    def submit(self, name: str, **changes: Any) -> None:
        self.send(add_job(**{"TrainingJobName": name, "Tags": [], **changes}))

    def look(self, name: str) -> None:
        self.send({**sample("get-job"), "path": f"/jobs/{name}"})

    def deliver(self, training_job: str, *events: str) -> None:
        for each in events:
            event = sample(each)
            event["detail"].pop("Tags", None)
            event["detail"]["TrainingJobName"] = training_job
            self.send(event)

    def crowd(self, project: str = "") -> None:
        """Add a thousand waiting jobs of two slots each. Their arrival costs nothing."""
        bare = a_job("any", slots=2, priority=0, pools=("main",), project=project)
        entered = [NOW - BEHIND + n for n in range(BEHIND)]
        jobs = [
            replace(bare, name=f"waiting-{at}", entry_time=at, changed_at=at, version=1)
            for at in entered
        ]
        fill(self.engine, TABLE, jobs)

    def minutes(self, number: int) -> None:
        for _ in range(number):
            self.account.clock.set(self.account.clock.now() + MINUTE)
            self.send("tick")


Script = Callable[[Customer], None]


@contextmanager
def nodes_kept() -> Iterator[None]:
    """A container of a queue that may keep nodes, for the duration of the context."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLOTQ_NODES", NODES_BUCKET)
        patch.setenv("SLOTQ_ROUTE", "https://queue/prod")
        forget()
        yield
        forget()


def nothing(_: Customer) -> None:
    pass


def simple(customer: Customer) -> None:
    customer.submit("job")
    customer.deliver("job", *EVENTS)


def simple_of_two(customer: Customer) -> None:
    customer.submit("urgent", **BOTH, **URGENT)
    customer.deliver("urgent", *EVENTS)


def evicted(customer: Customer) -> None:
    customer.submit("job", **BOTH)
    customer.deliver("job", *EVENTS[:2])
    customer.submit("urgent", **BOTH, **URGENT)
    customer.deliver("job", "training-stopping", "training-stopped")
    customer.deliver("urgent", *EVENTS)
    customer.deliver(training_job_name("job", 2), *EVENTS)


def beside(customer: Customer) -> None:
    """Two jobs run and a thousand jobs of two slots wait. One of the two ends, and nothing can
    start."""
    customer.submit("keeper")
    customer.submit("filler")
    customer.crowd()
    customer.deliver("filler", *EVENTS)


def behind(customer: Customer) -> None:
    """The same, with a job of one slot behind the thousand. It fits when one of the two has
    ended."""
    customer.submit("keeper")
    customer.submit("filler")
    customer.crowd()
    customer.submit("job")
    customer.deliver("filler", *EVENTS)
    customer.deliver("job", *EVENTS)


def two_run(customer: Customer) -> None:
    customer.submit("keeper")
    customer.submit("filler")


def running(customer: Customer) -> None:
    two_run(customer)
    customer.look("keeper")


def an_event_more(customer: Customer) -> None:
    two_run(customer)
    customer.deliver("keeper", "training-starting", "training-starting")


def an_event(customer: Customer) -> None:
    two_run(customer)
    customer.deliver("keeper", "training-starting")


def one_waits(customer: Customer) -> None:
    two_run(customer)
    customer.submit("job")


def batch_waits(customer: Customer) -> None:
    two_run(customer)
    body = json.loads(add_job(Tags=[])["body"])
    del body["TrainingJobName"]
    jobs = [{"TrainingJobName": f"job-{number}"} for number in range(BATCH)]
    customer.send({**sample("submit-jobs"), "body": json.dumps({"template": body, "jobs": jobs})})


def waiting(customer: Customer) -> None:
    one_waits(customer)
    customer.look("job")


def one_waits_behind(customer: Customer) -> None:
    two_run(customer)
    customer.crowd()
    customer.submit("job")


def waiting_behind(customer: Customer) -> None:
    one_waits_behind(customer)
    customer.look("job")


def many(customer: Customer) -> None:
    for n in range(LISTED):
        customer.submit(f"job-{n}")


def listed(customer: Customer) -> None:
    many(customer)
    customer.send("list-jobs")


def quiet(customer: Customer) -> None:
    customer.minutes(5)


def five_more_minutes(customer: Customer) -> None:
    customer.minutes(10)


def crowded(customer: Customer) -> None:
    two_run(customer)
    customer.crowd()
    customer.minutes(5)


def crowded_for_longer(customer: Customer) -> None:
    two_run(customer)
    customer.crowd()
    customer.minutes(10)


def shared(customer: Customer) -> None:
    """Two jobs of two projects run."""
    customer.minutes(1)
    store = DynamoStore(customer.engine, TABLE)
    everyone = Access(members=("*",))
    projects = tuple(Project(name=name, access=everyone) for name in ("vision", "speech"))
    store.configuration.change(sharing=Sharing(projects=projects), who="test", now=NOW)
    for name in ("vision", "speech"):
        customer.submit(name, Tags=[{"Key": "slotq:project", "Value": name}])


def many_beside_another_project(customer: Customer) -> None:
    """Of two projects, one has a thousand waiting jobs, the other twenty."""
    shared(customer)
    customer.crowd("speech")
    for n in range(LISTED):
        customer.submit(f"job-{n}", Tags=[{"Key": "slotq:project", "Value": "vision"}])


def listed_by_project(customer: Customer) -> None:
    many_beside_another_project(customer)
    query = {"state": ["pending,preempted,held,running"], "project": ["vision"]}
    customer.send({**sample("list-jobs"), "multiValueQueryStringParameters": query})


def projects_measured(customer: Customer) -> None:
    shared(customer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PROJECT_METRICS_VARIABLE, "50")
        customer.minutes(5)


def projects_measured_for_longer(customer: Customer) -> None:
    shared(customer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PROJECT_METRICS_VARIABLE, "50")
        customer.minutes(10)


def a_spot_pool(customer: Customer) -> None:
    customer.minutes(1)
    store = DynamoStore(customer.engine, TABLE)
    pools = [replace(pool, capacity_kind=CapacityKind.SPOT) for pool in store.configuration.pools()]
    store.configuration.change(pools, who="test", now=NOW)


def on_spot(customer: Customer) -> None:
    """SageMaker takes the instances back once, and the job goes on."""
    a_spot_pool(customer)
    customer.submit("job", **SPOT)
    customer.deliver("job", *EVENTS[:2])
    passed = sample(EVENTS[1])["detail"]["SecondaryStatusTransitions"]
    for status in ("Interrupted", "Restarting", "Training"):
        customer.account.clock.set(customer.account.clock.now() + MINUTE)
        passed = [*passed, {"Status": status, "StartTime": customer.account.clock.now()}]
        event = sample(EVENTS[1])
        detail = event["detail"]
        detail.pop("Tags")
        detail |= {"TrainingJobName": "job", "SecondaryStatus": status}
        detail["SecondaryStatusTransitions"] = passed
        customer.send(event)
    customer.deliver("job", EVENTS[2])


class NodeOf:
    """A node on which `kept` runs, and its agent's side of the documents."""

    def __init__(self, customer: Customer) -> None:
        self._customer, self._number = customer, 0
        customer.minutes(1)
        store = DynamoStore(customer.engine, TABLE)
        (pool,) = store.configuration.pools()
        pools = [replace(pool, nodes=NodeRules(gpus=8))]
        store.configuration.change(pools, who="test", now=NOW)
        self.submit("kept")
        (self._node,) = store.worlds.load(NOW).snapshot.nodes
        self.report()
        self.runs("kept")

    def submit(self, name: str) -> None:
        algorithm = json.loads(add_job()["body"])["AlgorithmSpecification"]
        self._customer.submit(
            name,
            AlgorithmSpecification={**algorithm, "ContainerEntrypoint": ["python3", "train.py"]},
            Tags=[{"Key": "slotq:gpus", "Value": "1"}],
        )

    def runs(self, *names: str) -> None:
        self.report(*(_reported(name, AttemptPhase.RUNNING) for name in names))

    def report(self, *attempts: ReportedAttempt, wakes: bool = True) -> None:
        """Write a report, and if it has news have it read."""
        self._number += 1
        orders = self._customer.account.s3.objects.get(
            (NODES_BUCKET, f"{self._folder}/orders.json")
        )
        report = NodeReport(
            node=self._node.name,
            generation=self._node.generation,
            number=self._number,
            orders=read_orders(orders).number if orders else 0,
            uptime_ms=60_000 * self._number,
            state=NodePhase.READY,
            uids=True,
            gpus=tuple(Gpu(index=index, id=str(index)) for index in range(8)),
            attempts=attempts,
        )
        written = written_report(report, self._node.token)
        self._customer.account.s3.objects[NODES_BUCKET, f"{self._folder}/report.json"] = written
        if wakes:
            path = f"/nodes/{self._node.pool}/{self._node.name}/report"
            self._customer.send({**sample("look-at-node"), "path": path, "body": "{}"})

    @property
    def _folder(self) -> str:
        return f"nodes/{self._node.pool}/{self._node.name}/{self._node.generation}"


def _reported(name: str, phase: AttemptPhase) -> ReportedAttempt:
    ended = 2 if phase.ended else None
    return ReportedAttempt(attempt=name, state=phase, began_ms=1, ended_ms=ended)


def a_node(customer: Customer) -> None:
    with nodes_kept():
        NodeOf(customer)


def another_on_it(customer: Customer) -> None:
    with nodes_kept():
        node = NodeOf(customer)
        node.submit("job")
        node.runs("kept", "job")
        kept = _reported("kept", AttemptPhase.RUNNING)
        node.report(kept, _reported("job", AttemptPhase.COMPLETED))


def a_node_for(customer: Customer, minutes: int) -> None:
    with nodes_kept():
        node = NodeOf(customer)
        for _ in range(minutes):
            node.report(_reported("kept", AttemptPhase.RUNNING), wakes=False)
            customer.minutes(1)


MEASURED: dict[str, tuple[Script, Script, int]] = {
    # name: (script with the step, script without it, number of times the step occurs)
    "job": (simple, nothing, 1),
    "job, evicted once": (evicted, simple_of_two, 1),
    "job, behind 1,000": (behind, beside, 1),
    "job, on a node": (another_on_it, a_node, 1),
    "job, on spot, interrupted once": (on_spot, a_spot_pool, 1),
    "submission of a job that waits": (one_waits, two_run, 1),
    "one of 50 in a batch": (batch_waits, two_run, BATCH),
    "event that changes nothing": (an_event_more, an_event, 1),
    "look at a job that runs": (running, two_run, 1),
    "look at a job that waits": (waiting, one_waits, 1),
    "look at a job behind 1,000": (waiting_behind, one_waits_behind, 1),
    "listing of 20 jobs": (listed, many, 1),
    "listing of a project's 20 jobs among 1,000": (
        listed_by_project,
        many_beside_another_project,
        1,
    ),
    "minute": (five_more_minutes, quiet, 5),
    "minute, projects measured": (projects_measured_for_longer, projects_measured, 5),
    "minute, 1,000 wait": (crowded_for_longer, crowded, 5),
    "minute, a job on a node": (partial(a_node_for, minutes=10), partial(a_node_for, minutes=5), 5),
}


@cache
def cost_of(script: Script) -> Counts:
    engine, limits = Engine(), template()["Parameters"]["Limits"]["Default"]
    with handler_over(engine, "main=2@ml.p4d.24xlarge", limits=limits) as account:
        customer = Customer(account, engine)
        with engine.meter.counting() as usage, silence():
            script(customer)
        return Counts(
            requests=customer.requests,
            invocations=customer.invocations,
            dynamodb_calls=len(usage.calls),
            read_units=usage.read_units,
            write_units=usage.write_units,
            sagemaker_calls=sum(account.plane.calls.values()),
            invoke_calls=len(account.lambda_.calls),
            events_put=len(account.announced.entries),
        )


def measure() -> dict[str, Counts]:
    return {
        name: (cost_of(with_it) - cost_of(without)) / times
        for name, (with_it, without, times) in MEASURED.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep them for `slotq cost`")
    asked = parser.parse_args()
    counts = {name: each.as_json() for name, each in measure().items()}
    text = json.dumps(counts, indent=2) + "\n"
    if asked.write:
        FILE.write_text(text)
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

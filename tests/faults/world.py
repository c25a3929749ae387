"""A whole queue on a virtual clock, in which every call to AWS goes through a gate.

The manager, the store and the SageMaker adapter are real; DynamoDB is `fake_dynamodb`, and
SageMaker is the emulator's training plane. Each trigger (request, event, requested pass, tick) is a
separate invocation with a new manager, as in a fresh Lambda. As in a warm one, all of them remember
the lines that were touched lately.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slotq.local.services.expressions import Item
from slotq.local.training.knobs import Knobs
from slotq.local.training.plane import Plane
from slotq.local.training.training_job import TrainingJob
from slotq.local.training.virtual_runner import VirtualClock, Work
from slotq_core.adapters.dynamodb.configuration import DynamoConfiguration
from slotq_core.adapters.dynamodb.layout.items import write_restore
from slotq_core.adapters.dynamodb.layout.table import job_key, restored_key
from slotq_core.adapters.dynamodb.layout.validation import whole_job
from slotq_core.adapters.dynamodb.line_bounds import TouchedLines
from slotq_core.adapters.dynamodb.reading.in_parallel import one_by_one
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.adapters.nodes.documents import S3NodeDocuments, lease_of
from slotq_core.adapters.notifiers import AsynchronousPass, MessageAlarm
from slotq_core.adapters.receivers.callbacks import AwsAnswers
from slotq_core.adapters.sagemaker.observations import observation_of
from slotq_core.adapters.sagemaker.service import SageMakerTraining
from slotq_core.adapters.scripts import S3Scripts
from slotq_core.admission.groups import NewGroup
from slotq_core.api.job_changes import amendment_of
from slotq_core.errors import LimitReached, NameTaken, Refused, SlotQError
from slotq_core.manager import QueueManager
from slotq_core.model.attempts import Restore
from slotq_core.model.callers import NO_LIMITS, Limits
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Submission
from slotq_core.model.notices import CallbackKind
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import NO_SHARING, Sharing
from slotq_core.operations.amend import Amendment, ChangeRequest, Retry
from slotq_core.operations.bulk import ChangeOutcome, NotReached
from slotq_core.operations.jobs.batches import NewMember
from slotq_core.wire.job_changes import parse_amendment
from slotq_core.wire.submission import parse_submission
from slotq_core.wire.training.processing_request import job_name
from tests.faults.agents import BUCKET, AgentRules, Agents, Bucket, NodeRunner
from tests.faults.clients import (
    SOON,
    Container,
    GatedClient,
    LambdaClient,
    LeaselessStore,
    S3Client,
    SqsClient,
    WatchedPlane,
    no_time_passes,
)
from tests.faults.fake_dynamodb import FakeDynamo, Table
from tests.faults.gate import Gate, Invocation, Killed
from tests.faults.promises import CONVERGENT, LOST, Watch
from tests.faults.tasks import Tasks
from tests.queue_world import request

logging.getLogger("slotq_core.adapters.notifiers").disabled = True

START = 1_790_000_000_000
TABLE = "queue"
WAKES = "https://sqs.us-east-1.amazonaws.com/123456789012/wakes"
TYPES = {"p": "ml.m5.large", "q": "ml.c5.xlarge", "r": "ml.r5.large", "h": "ml.m4.xlarge"}
"""Each pool has a different instance type, so that the plane's count distinguishes them."""
ENTRYPOINT = ["python3", "train.py"]
TICK = 60_000
LAG = 1_000
"""How far an index may lag behind (ms)."""
AGAIN = " again"
RETRIES = (60_000, 120_000)
"""When Lambda retries a failed asynchronous invocation."""


def pool(name: str = "p", slots: int = 1, **fields: Any) -> Pool:
    return Pool(name=name, instance_type=TYPES[name], capacity=Demand(slots=slots), **fields)


make_dynamo: Callable[[], FakeDynamo] = FakeDynamo
"""Makes each new world's table; `real_dynamodb` puts the real engine here."""

EventPolicy = Callable[[Mapping[str, Any]], Iterable[int]]
"""The delays (ms) after which an event is delivered: none, one or several."""


def delivered(_: Mapping[str, Any]) -> Iterable[int]:
    return (SOON,)


@dataclass(order=True)
class _Due:
    at: int
    number: int
    label: str = field(compare=False)
    body: Callable[[], None] = field(compare=False)


class World:
    def __init__(
        self,
        *pools: Pool,
        work: Mapping[str, Work] | None = None,
        knobs: Knobs | None = None,
        gate: Gate | None = None,
        events: EventPolicy = delivered,
        runtime: int = 200_000,
        retries: tuple[int, ...] = RETRIES,
        leases: bool = True,
        most_actions: int | None = None,
        history: int | None = None,
        limits: Limits = NO_LIMITS,
        sharing: Sharing = NO_SHARING,
        agents: AgentRules | None = None,
        answers: bool = False,
    ) -> None:
        """`runtime`: of each job that `work` does not name (ms). `answers`: whether the queue
        answers the tasks of state machines. `most_actions`: in one transaction of a decision.
        `leases=False`: each lease is over as soon as it is taken, so that passes run beside each
        other: it must do no harm. `agents`: those of nodes; None: none ever reports."""
        self.pools = pools or (pool(),)
        self.gate = gate or Gate()
        self.event_policy = events
        self.retries = retries
        self.leases = leases
        settings = {"history": history, "most_actions": most_actions}
        self._settings = {name: value for name, value in settings.items() if value is not None}
        self.clock = VirtualClock(START)
        self.watch = Watch(self)
        self.ours: set[str] = set()
        """Training jobs created by the queue."""
        self.history: list[str] = []
        """The history, a line each, for people to read when something breaks."""
        self.refused: set[str] = set()
        """The labels of what users were refused."""
        self.limited: set[str] = set()
        """Those of them that have met a limit."""
        self.accepted: set[str] = set()
        self.groups: dict[str, NewGroup] = {}
        """The groups that users have submitted or tried to."""
        self.users_ask_again = True
        self.calls = 0
        """The handlers' calls to AWS."""
        self._touched = TouchedLines()
        self._copy, self._copied_at = Table({}), 0
        """The table as it was once, and when (ms)."""
        self._idle: list[Container] = []
        """Containers that serve no invocation now, the last used one last."""
        default = Work(runtime=runtime)
        self.runner = NodeRunner(self, work_of=lambda job, _: (work or {}).get(job, default))
        self.bucket, self.agents = Bucket(self), Agents(self, agents)
        self.tasks, self._answers = Tasks(self), answers
        self.marked: set[str] = set()
        """The training jobs whose scripts the queue knows to have asked to release their slots."""
        self.reported: dict[str, int] = {}
        """When (ms) the scripts of these jobs have reported something, for the last time."""
        self.stopped: dict[str, int] = {}
        """When (ms) the queue first asked to stop each training job."""
        self.plane = self._new_plane(knobs)
        self.dynamo = self._new_dynamo()
        self._services = {
            "dynamodb": self.dynamo,
            "sagemaker": WatchedPlane(self),
            "lambda": LambdaClient(self),
            "s3": S3Client(self),
            "sqs": SqsClient(self),
            "stepfunctions": self.tasks,
        }
        self._due: list[_Due] = []
        self._numbers = itertools.count()
        self._invocations = itertools.count(1)
        self._tokens = itertools.count(1)
        self._running = 0
        """How many invocations run."""
        store = DynamoStore(self.dynamo, TABLE)
        store.configuration.change(
            self.pools, limits=limits, sharing=sharing, who="campaign", now=START
        )
        self.after(TICK, "tick", self._tick)

    def _new_plane(self, knobs: Knobs | None) -> Plane:
        return Plane(clock=self.clock, runner=self.runner, emit=self._emit, knobs=knobs)

    def _new_dynamo(self) -> FakeDynamo:
        """With the queue's table, and watched."""
        dynamo = make_dynamo()
        dynamo.create_table(**table_definition(TABLE))
        dynamo.on_write = self.watch.wrote
        dynamo.now, dynamo.lag = self.clock.now, LAG
        return dynamo

    # --- what the outside does

    def submit(self, name: str, *, tries: int = 3, **fields: Any) -> None:
        """A user's request. A user without an answer asks again after five seconds."""
        kind = fields.pop("instance_type", self.pools[0].instance_type)
        limit = fields.pop("max_runtime", None)
        body = request(name, **fields)
        body["ResourceConfig"]["InstanceType"] = kind
        if limit:
            body["StoppingCondition"]["MaxRuntimeInSeconds"] = limit
        self.submit_body(body, tries=tries)

    def submit_body(self, body: Mapping[str, Any], *, tries: int = 3, by: str = "ann") -> None:
        submission, wanted = parse_submission(json.dumps(body))
        name = submission.name

        def ask(manager: QueueManager, _: Invocation) -> None:
            try:
                manager.submissions.submit(submission, wanted, submitter=by)
            except LimitReached:
                if name in self.watch.jobs:
                    self.watch.note(LOST, f"{name} has met a limit and is kept all the same")
                raise
            self.accepted.add(name)
            if submission.callback and submission.callback.token not in self.tasks.accepted:
                self.tasks.accepted.append(submission.callback.token)
            if name not in self.watch.jobs:
                self.watch.note("1 nothing lost", f"{name} was accepted and is not kept")

        self._user(f"submit {name}", ask, tries)

    def submit_for_node(self, name: str, gpus: float = 1, *, tries: int = 3, **fields: Any) -> None:
        """A user's request for GPUs of a node."""
        body = request(name, gpus=str(gpus), **fields)
        body["AlgorithmSpecification"]["ContainerEntrypoint"] = ENTRYPOINT
        self.submit_body(body, tries=tries)

    def submit_batch(self, *jobs: str, tries: int = 3) -> None:
        """A user's batch. Each job is written `<name>`, `<name>@<pool>` or `<name> after <job>`;
        `<name>!` is another job of that name."""
        members = [self._member(job) for job in jobs]

        def ask(manager: QueueManager, _: Invocation) -> None:
            batch = [
                NewMember(name=submission.name, read=(submission, body))
                for submission, body in members
            ]
            outcomes = manager.batches.submit(batch, submitter="ann")
            for member, outcome in zip(members, outcomes, strict=True):
                self._take_in(member[0], outcome)
            errors = [outcome.error for outcome in outcomes if outcome.error is not None]
            untried = [error for error in errors if isinstance(error, NotReached)]
            for error in (*untried, *errors):
                raise error

        self._user(f"submit batch {' '.join(jobs)}", ask, tries)

    def _member(self, job: str) -> tuple[Submission, dict[str, Any]]:
        job, _, after = job.partition(" after ")
        place = job.removesuffix("!")
        name, _, pool = place.partition("@")
        tags = {"after": after} if after else {}
        body = request(name, priority=int(job != place), **tags)
        body["ResourceConfig"]["InstanceType"] = TYPES[pool or self.pools[0].name]
        return parse_submission(json.dumps(body))

    def _take_in(self, submission: Submission, outcome: ChangeOutcome) -> None:
        """The answer for one job of a batch."""
        name, error = submission.name, outcome.error
        # The table, and not the watch: it is a transaction behind one that becomes visible.
        kept = whole_job(self.table.items.get(job_key(name)))
        if error is None:
            self.accepted.add(name)
            if kept is None:
                self.watch.note(LOST, f"{name} was accepted and is not kept")
            elif kept.digest != submission.digest:
                self.watch.note(LOST, f"{name} was accepted, and another job is kept")
        elif isinstance(error, LimitReached):
            if kept is not None:
                self.watch.note(LOST, f"{name} has met a limit and is kept all the same")
        elif not isinstance(error, NotReached | NameTaken):
            self.watch.note(LOST, f"{name} was refused: {error}")

    def submit_group(
        self, name: str, *jobs: str, max_parallel: int | None = None, tries: int = 3, **rules: Any
    ) -> None:
        """A user's group: a sweep, or with no `max_parallel` a gang with these rules. Each job is
        written `<name>` or `<name>@<pool>`."""
        wanted = self.group_of(name, *jobs, max_parallel=max_parallel, **rules)

        def ask(manager: QueueManager, _: Invocation) -> None:
            manager.groups.submit(wanted, submitter="ann")
            self.accepted |= {submission.name for submission, _ in wanted.members}

        self._user(f"submit group {name}", ask, tries)

    def group_of(
        self,
        name: str,
        *jobs: str,
        max_parallel: int | None = None,
        priority: int = 0,
        gpus: int = 0,
        after: str = "",
        **rules: Any,
    ) -> NewGroup:
        """A group that a user wants, from now on watched. `priority`: of each member. `gpus`: of a
        node, for each. `after`: a job or a group that all come after."""
        members = []
        for job, _, pool in (each.partition("@") for each in jobs):
            place = f"s3://bucket/{job}" if "heartbeat" in rules else ""
            tags = {"gpus": str(gpus)} if gpus else {}
            body = request(job, priority=priority, checkpoints=place, **tags)
            body["ResourceConfig"]["InstanceType"] = TYPES[pool or self.pools[0].name]
            if gpus:
                body["AlgorithmSpecification"]["ContainerEntrypoint"] = ENTRYPOINT
            submission, parsed = parse_submission(json.dumps(body))
            members.append(
                (replace(submission, group=name, after=(after,) if after else ()), parsed)
            )
        wanted = NewGroup(
            name=name,
            max_parallel=max_parallel,
            members=tuple(members),
            digest=hashlib.sha256(repr([*jobs, rules, max_parallel]).encode()).hexdigest(),
            **rules,
        )
        self.groups[name] = wanted
        return wanted

    def cancel(self, name: str, *, tries: int = 3) -> None:
        self._user(
            f"cancel {name}", lambda manager, _: manager.changes.cancel(name, by="ann"), tries
        )

    def retry(self, name: str, *, tries: int = 3) -> None:
        """A user's request of one change, by the hundred's way; one who gets no answer asks
        again."""

        def renamed(body: Mapping[str, Any], new_name: str) -> tuple[Submission, dict[str, Any]]:
            return parse_submission({**body, "TrainingJobName": new_name})

        def ask(manager: QueueManager, _: Invocation) -> None:
            wish = ChangeRequest(name=name, amendment=None, retry=Retry(renamed=renamed))
            (outcome,) = manager.bulk.run([wish], by="ann")
            if outcome.error is not None:
                raise outcome.error
            assert outcome.status is not None
            self.accepted.add(outcome.status.job.name)

        self._user(f"retry {name}", ask, tries)

    def amend(self, name: str, tags: Mapping[str, str], *, tries: int = 3) -> None:
        """A user's change of tags. A user without an answer asks again."""
        wish = amendment_of(parse_amendment(json.dumps({"tags": tags})))
        self._user(
            f"amend {name} {[*tags.values()]}",
            lambda manager, _: manager.changes.amend(name, wish, by="ann"),
            tries,
        )

    def requeue(self, name: str, attempt: int, *, tries: int = 3) -> None:
        """A user's requeue of this attempt. A user without an answer asks again."""
        wish = Amendment(give_up=attempt)
        self._user(
            f"requeue {name}", lambda manager, _: manager.changes.amend(name, wish, by="ann"), tries
        )

    def _user(
        self, label: str, verb: Callable[[QueueManager, Invocation], object], tries: int
    ) -> None:
        if not self.invoke(label, verb) and tries > 1 and self.users_ask_again:
            self.after(5_000, label + AGAIN, lambda: self._user(label, verb, tries - 1))

    def tick(self) -> None:
        self._asynchronous("tick", on_tick)

    def _tick(self) -> None:
        self.after(TICK, "tick", self._tick)
        self._sweep()
        self.tick()

    @property
    def table(self) -> Table:
        return self.dynamo.tables[TABLE]

    def _sweep(self) -> None:
        """DynamoDB removes expired items."""
        now = self.clock.now() // 1000
        for key, item in list(self.table.items.items()):
            if "expiresAt" in item and int(item["expiresAt"]["N"]) <= now:
                self.table.put(key, None)
                self.watch.swept(key)

    def configure(self, *pools: Pool) -> None:
        """An operator changes the pools."""
        self.pools = pools
        store = DynamoStore(self.dynamo, TABLE)
        store.configuration.change(pools, who="campaign", now=self.clock.now())
        store.scheduler.bump()

    def configure_in_parts(self, *pools: Pool, tries: int = 3) -> None:
        """An operator changes the pools, by a handler whose transactions have few actions."""

        def ask(manager: QueueManager, _: Invocation) -> None:
            store = manager._store
            assert isinstance(store, DynamoStore)
            configuration = DynamoConfiguration(store.configuration._calls, most_actions=4)
            configuration.change(pools, who="campaign", now=self.clock.now())
            store.scheduler.bump()

        self._user("configure in parts", ask, tries)

    def share(self, sharing: Sharing) -> None:
        """An operator changes the projects."""
        store = DynamoStore(self.dynamo, TABLE)
        store.configuration.change(sharing=sharing, who="campaign", now=self.clock.now())
        store.scheduler.bump()

    def doctor(self, *, tries: int = 3) -> None:
        """An operator lets the queue mend itself."""
        self._user("doctor", lambda manager, _: manager.doctor.examine(fix=True), tries)

    def by_hand(self, key: tuple[str, str], change: Callable[[Item], Item]) -> None:
        """Somebody edits an item of the table, as no code of ours would."""
        names = dict(zip(("pk", "sk"), ({"S": part} for part in key), strict=True))
        item = change(dict(self.table.items.get(key, {})))
        self.dynamo.put_item(TableName=TABLE, Item={**item, **names})

    def copy_table(self) -> None:
        """The table as it is now, for a later restore."""
        self._copy, self._copied_at = self.table.copy(), self.clock.now()

    def restore_table(self) -> None:
        """An operator has stopped the queue, restores the copy, and lets the queue go on."""
        restore = Restore(copied_at=self._copied_at, restored_at=self.clock.now())
        pk, sk = restored_key()
        copy = self._copy.copy()
        copy.put((pk, sk), {"pk": {"S": pk}, "sk": {"S": sk}, **write_restore(restore)})
        self.dynamo.tables[TABLE] = copy
        self.dynamo.forget_what_was()
        self._idle.clear()
        self._touched = TouchedLines()
        self.watch.restored(copy.items)
        self.bump()

    def bump(self) -> None:
        """Pretend that there is news, so that the next pass runs."""
        DynamoStore(self.dynamo, TABLE).scheduler.bump()

    def run_pass(self) -> None:
        self._asynchronous("pass", on_pass)

    def wake(self) -> None:
        """A moment has come that a pass has named. SQS delivers such a message again if its
        handler fails, after six minutes."""
        self._asynchronous("wake", on_wake)

    def deliver(self, event: Mapping[str, Any]) -> None:
        self._asynchronous(_named(event), on_event(event, self.clock.now))

    def _asynchronous(
        self, label: str, body: Callable[[QueueManager, Invocation], object], tried: int = 0
    ) -> None:
        """As Lambda does: a failed asynchronous invocation is retried twice."""
        if not self.invoke(label, body) and tried < len(self.retries):
            self.after(
                self.retries[tried],
                label + AGAIN,
                lambda: self._asynchronous(label, body, tried + 1),
            )

    # --- time

    def after(self, delay: int, label: str, body: Callable[[], None]) -> None:
        entry = _Due(self.clock.now() + delay, next(self._numbers), label, body)
        heapq.heappush(self._due, entry)

    def take_due(self, label: str) -> list[Callable[[], None]]:
        """Remove and return what is due under that label."""
        taken = [due.body for due in self._due if due.label == label]
        self._due = [due for due in self._due if due.label != label]
        heapq.heapify(self._due)
        return taken

    def next_due(self) -> int:
        dues = [self._due[0].at] if self._due else []
        return min([*dues, *filter(None, [self.plane.next_due()])])

    def step(self) -> None:
        """Go to the next moment with an event, and let that one happen."""
        at = max(self.clock.now(), self.next_due())
        self.clock.set(at)
        self._advance()
        if self._due and self._due[0].at <= at:
            heapq.heappop(self._due).body()
        self.look()

    def go(self, seconds: float) -> None:
        until = self.clock.now() + round(seconds * 1000)
        while self.next_due() <= until and not self.watch.broken:
            self.step()
        self.clock.set(max(self.clock.now(), until))

    def go_until_over(self, *, hours: float = 3) -> None:
        """Until every job and every node has ended, each end is handed on and only ticks remain, or
        a promise is broken. Moments of agents that are no more may remain, too."""
        until = self.clock.now() + round(hours * 3_600_000)
        while not self.watch.broken and self.clock.now() < until and not self.over:
            self.step()

    @property
    def over(self) -> bool:
        jobs = self.watch.jobs.values()
        quiet = all(due.label in {"tick", "agent"} for due in self._due)
        ended = all(job.terminal and not job.followed for job in jobs)
        if not (quiet and ended) or self.watch.openings or self.tasks.kept():
            return False
        return not (self.ours_live() or self.watch.nodes())

    def forget_retries(self) -> None:
        """Drop all retries and every event that is in flight."""
        self.retries = ()
        lost = {"event", "pass", "wake"}
        self._due = [
            due for due in self._due if not due.label.endswith(AGAIN) and due.label not in lost
        ]
        heapq.heapify(self._due)
        self.users_ask_again = False

    def _advance(self) -> None:
        self.plane.advance()
        self.look()

    def look(self) -> None:
        self.watch.look_at_plane()

    # --- what runs

    def invoke(self, label: str, body: Callable[[QueueManager, Invocation], object]) -> bool:
        """Run the handler once. Returns whether it got to its end."""
        invocation = Invocation(next(self._invocations), label)
        self.say(f"[{invocation.number}] {label}")
        container = self._idle.pop() if self._idle else Container(self)
        container.invocation = invocation
        self.begins(invocation)
        self._running += 1
        announced = False
        try:
            failure = _failure_of(body, container.manager, invocation)
            announced = self.announce(container.manager)
            if failure is not None:
                raise failure
            self._idle.append(container)
        except Killed:
            self.say(f"[{invocation.number}] killed")
            return False
        except Refused as error:
            self._idle.append(container)
            self.refused.add(label.removesuffix(AGAIN))
            if isinstance(error, LimitReached):
                self.limited.add(label.removesuffix(AGAIN))
            self.say(f"[{invocation.number}] refused: {error}")
        except SlotQError as error:
            self._idle.append(container)
            self.say(f"[{invocation.number}] {type(error).__name__}: {error}")
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a bug
            self.watch.note(CONVERGENT, f"{label}: a bug: {error!r}"[:300])
            return False
        finally:
            self._running -= 1
            self.watch.look_at_version(announced=announced, quiet=not self._running)
        return True

    def announce(self, manager: QueueManager) -> bool:
        """Let the changes of an invocation be seen, as the function does whatever came of it.
        Returns whether that is known to be done."""
        try:
            manager.passes.announce()
        except SlotQError:
            return False
        return True

    def begins(self, invocation: Invocation) -> None:
        """Do nothing; called as each invocation begins."""

    def new_manager(self, client: Callable[[str], Any]) -> QueueManager:
        """The manager of a new container. `client` makes the client of a service."""
        kind = DynamoStore if self.leases else LeaselessStore
        sagemaker, lambdas, s3, sqs = map(client, ("sagemaker", "lambda", "s3", "sqs"))
        training = SageMakerTraining(queue=TABLE, clock=self.clock, make_client=lambda: sagemaker)
        store = kind(
            client("dynamodb"),
            TABLE,
            pause=no_time_passes,
            in_parallel=one_by_one,
            clock=self.clock.now,
            **self._settings,
        )
        store.jobs._touched = self._touched
        return QueueManager(
            store=store,
            training=training,
            clock=self.clock,
            notifier=AsynchronousPass(
                lambda: lambdas, "slotq", MessageAlarm(lambda: sqs, WAKES, self.clock)
            ),
            scripts=S3Scripts(clock=self.clock, make_client=lambda: s3),
            documents=S3NodeDocuments(
                bucket=BUCKET, route="", lease=lease_of(""), make_client=lambda: s3
            ),
            new_token=lambda: f"token {next(self._tokens)}",
            callback_kinds=frozenset({CallbackKind.TASK} if self._answers else ()),
            answers=lambda: AwsAnswers({CallbackKind.TASK: client("stepfunctions")}),
        )

    def wire(self, invocation: Invocation, service: str) -> Any:
        """A client of that service whose calls belong to this invocation and go through the
        gate."""
        return GatedClient(self, invocation, service, self._services[service])

    def say(self, what: str) -> None:
        self.history.append(f"{(self.clock.now() - START) / 1000:9.3f} s  {what}")

    # --- SageMaker's own view

    def live_training_jobs(self) -> Mapping[str, TrainingJob]:
        return self.plane.live()

    def ours_live(self) -> set[str]:
        return self.ours & set(self.plane.live())

    def since_start(self) -> int:
        """How long (ms) the story has lasted."""
        return self.clock.now() - START

    def status_of(self, training_job: str) -> str:
        """The status of a training job, or of an attempt on a node."""
        there = self.plane.job(training_job)
        return there.status if there else self.agents.status_of(training_job) or "not there"

    def _emit(self, event: Mapping[str, Any]) -> None:
        for delay in self.event_policy(event):
            self.after(delay, "event", lambda: self.deliver(event))


def _failure_of(
    body: Callable[[QueueManager, Invocation], object],
    manager: QueueManager,
    invocation: Invocation,
) -> Exception | None:
    try:
        body(manager, invocation)
    except Exception as error:  # noqa: BLE001 - raised by the caller
        return error
    return None


def on_pass(manager: QueueManager, invocation: Invocation) -> None:
    manager.passes.run(holder=f"invocation-{invocation.number}", only_news=True)


def on_wake(manager: QueueManager, invocation: Invocation) -> None:
    manager.passes.run(holder=f"invocation-{invocation.number}", bump=True)


def on_tick(manager: QueueManager, invocation: Invocation) -> None:
    tick = getattr(manager, "tick", manager.passes.run)
    tick(holder=f"invocation-{invocation.number}")


def on_event(
    event: Mapping[str, Any], now: Callable[[], int]
) -> Callable[[QueueManager, Invocation], None]:
    def take_in(manager: QueueManager, invocation: Invocation) -> None:
        if manager.observe(observation_of(event["detail"], at=now())).calls_for_pass:
            manager.passes.run(holder=f"invocation-{invocation.number}", bump=True)

    return take_in


def _named(event: Mapping[str, Any]) -> str:
    detail = event["detail"]
    status = detail.get("SecondaryStatus") or detail["ProcessingJobStatus"]
    return f"event {job_name(detail)} {status}"

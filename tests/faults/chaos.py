"""Chaos: a thousand jobs through the whole Lambda, with everything going wrong at once.

The real handler (`functions/queue_manager/app.py`) is invoked with API requests, training events,
asked-for passes and ticks, on the virtual clock. Of the training events some are lost, doubled, and
late by minutes; of the calls to AWS some are throttled and some time out after having taken effect
(and are tried again as boto3 tries them: three times, a transaction under one token); SageMaker has
no capacity now and then, fails by itself, keeps a job Pending; and now and then the handler is
killed in the middle of everything.
"""

from __future__ import annotations

import json
import os
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from botocore.exceptions import ClientError, ReadTimeoutError

from slotq.local.training.knobs import Knobs
from slotq.local.training.virtual_runner import Work
from slotq_core.adapters.dynamodb.reading.in_parallel import one_by_one
from slotq_core.manager import QueueManager
from slotq_core.model.jobs import JobState
from tests.faults.clients import HOSTILE
from tests.faults.crashes import AFTER, BEFORE, THROTTLED, finish_quietly, strike
from tests.faults.gate import Call, Gate, Invocation, Killed
from tests.faults.scenarios import hostile
from tests.faults.world import START, TABLE, TYPES, World, pool
from tests.queue_world import request

_HANDLER = str(Path(__file__).parents[2] / "functions" / "queue_manager")
if _HANDLER not in sys.path:
    sys.path.insert(0, _HANDLER)

S = JobState
CLIENT_TRIES = 3
FOR_EVER = 1_000
HORIZON = 7 * 24 * 3_600_000
POOLS = (pool("p", slots=8, pending_timeout=300_000), pool("q", slots=6), pool("r", slots=4))
PATIENCE = 1_800
"""Each request has SageMaker itself end a training job that is Pending for this long (s). A pool
without `pending_timeout` needs this: otherwise the job waits for instances for ever."""


@dataclass(frozen=True)
class Odds:
    """Percentages."""

    lost: float = 30
    doubled: float = 30
    throttled: float = 10
    no_answer: float = 5
    killed: float = 0.3
    refused: float = 4
    no_instances: float = 3
    fault: float = 2
    stuck: float = 1


HOSTILE_EVERY = 40
"""One in this many users sends a request as odd as the queue accepts."""

OUTAGES = (
    frozenset({"create_training_job"}),
    frozenset({"stop_training_job"}),
    frozenset({"describe_training_job", "list_training_jobs", "list_tags"}),
    frozenset({"sagemaker"}),
    frozenset({"dynamodb"}),
    frozenset({"sagemaker", "dynamodb", "lambda"}),
)
"""Operations and services that the queue has no right to for a while."""

PERIOD, SHORTEST_OUTAGE, LONGEST_OUTAGE = 600_000, 30_000, 400_000
"""The interval between outages, and their length (ms)."""


@dataclass(frozen=True)
class Outage:
    since: int
    until: int
    refused: frozenset[str]


def outages(seed: int) -> Iterator[Outage]:
    """Endless outages, one after the other."""
    rng, since = random.Random(f"outages-{seed}"), START
    while True:
        since += PERIOD // 2 + rng.randrange(PERIOD)
        length = rng.randrange(SHORTEST_OUTAGE, LONGEST_OUTAGE)
        yield Outage(since, since + length, rng.choice(OUTAGES))
        since += length


@dataclass(frozen=True)
class UserRequest:
    """A job that a user submits, and perhaps cancels."""

    name: str
    at: int
    fields: Mapping[str, Any]
    work: Work
    cancel_after: int | None

    @property
    def hostile(self) -> bool:
        return self.name.startswith(HOSTILE)

    @property
    def allowed(self) -> frozenset[JobState]:
        if self.hostile:
            return frozenset({S.FAILED})
        own = S.FAILED if self.work.exit_code else S.COMPLETED
        return frozenset({own} if self.cancel_after is None else {own, S.CANCELLED})


def user_requests(seed: int, count: int) -> list[UserRequest]:
    rng = random.Random(f"wishes-{seed}")
    found, at = [], 0
    for number in range(count):
        if number % HOSTILE_EVERY == HOSTILE_EVERY // 2:
            found.append(UserRequest(f"{HOSTILE}-{number:04d}", at, {}, Work(), None))
        at += round(rng.expovariate(1 / 13_000))
        pools = rng.choice(("p", "p", "q", "r", "p,q", "q,r"))
        work = Work(
            runtime=rng.randrange(20_000, 400_000),
            stop=rng.choice((0, 5_000, 60_000)),
            exit_code=int(rng.random() < 0.05),
            checkpoint=rng.random() < 0.9,
        )
        found.append(
            UserRequest(
                name=f"job-{number:04d}",
                at=at,
                fields={
                    "priority": rng.choice((0, 0, 0, 1, 2)),
                    "slots": rng.choice((1, 1, 2)),
                    "pools": pools,
                    "instance_type": TYPES[pools[0]],
                },
                work=work,
                cancel_after=rng.randrange(1_000, 600_000) if rng.random() < 0.1 else None,
            )
        )
    return found


class Weather(Gate):
    """Decides each call's fate at random, while the storm lasts."""

    def __init__(self, rng: random.Random, odds: Odds, lost_rights: Iterator[Outage]) -> None:
        self._rng, self._odds = rng, odds
        self._outages = lost_rights
        self._outage = next(lost_rights)
        self.raging = True
        self.now: Callable[[], int] = lambda: START
        self.count: Counter[str] = Counter()

    def happens(self, percent: float) -> bool:
        return self.raging and self._rng.random() * 100 < percent

    def refuses(self, call: Call) -> bool:
        """Whether the queue lacks the right to that call just now."""
        while self._outage.until <= self.now():
            self._outage = next(self._outages)
        lost = self.raging and self._outage.since <= self.now()
        return lost and bool(self._outage.refused & {call.service, call.operation})

    def through(self, call: Call) -> Any:
        """As boto3 does: three tries; the caller gets the last error."""
        self.count["calls"] += 1
        effected = False
        for attempt in range(CLIENT_TRIES):
            if self.happens(self._odds.killed):
                self.count["killed"] += 1
                return strike(self._rng.choice((BEFORE, AFTER)), call)
            if effected and call.operation == "transact_write_items":
                return {}  # The token is known: this is the first try's answer.
            last = attempt == CLIENT_TRIES - 1
            if self.refuses(call):
                self.count["refused_rights"] += 1
                raise access_denied(call)
            if self.happens(self._odds.throttled):
                self.count["throttled"] += 1
                if last:
                    return strike(THROTTLED, call)
            elif self.happens(self._odds.no_answer):
                self.count["no_answer"] += 1
                with suppress(Exception):  # Refused or done, its outcome stays unknown.
                    call.do()
                    effected = True
                if last:
                    raise ReadTimeoutError(endpoint_url=call.service)
            else:
                return call.do()
        raise AssertionError


def access_denied(call: Call) -> ClientError:
    action = f"{call.service}:{''.join(map(str.capitalize, call.operation.split('_')))}"
    said = {
        "Error": {
            "Code": "AccessDeniedException",
            "Message": "User: arn:aws:sts::123456789012:assumed-role/slotq/slotq is not authorized "
            f"to perform: {action} on resource: * because no identity-based policy allows the "
            f"{action} action",
        },
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    return ClientError(said, call.operation)


class ChaosWorld(World):
    """A world in which everything goes through the real handler."""

    def __init__(
        self, rng: random.Random, odds: Odds, wanted: Sequence[UserRequest], lost: Iterator[Outage]
    ) -> None:
        self.weather = Weather(rng, odds, lost)
        self._rng, self._odds = rng, odds
        self.wanted = [submission.name for submission in wanted]
        self._current: Invocation | None = None
        super().__init__(
            *POOLS,
            work={submission.name: submission.work for submission in wanted},
            knobs=Knobs(start_seconds=8),
            gate=self.weather,
            events=self._arrives,
        )
        self.weather.now = self.clock.now
        for submission in wanted:
            self.after(submission.at, "submission", partial(self._ask_for, submission))

    def _arrives(self, _: Mapping[str, Any]) -> Iterable[int]:
        self.weather.count["events"] += 1
        if self.weather.happens(self._odds.lost):
            self.weather.count["events_lost"] += 1
            return ()
        doubled = self.weather.happens(self._odds.doubled)
        self.weather.count["events_doubled"] += doubled
        return [self._rng.randrange(50, 180_000) for _ in range(1 + doubled)]

    def _ask_for(self, submission: UserRequest) -> None:
        if submission.hostile:
            self._post(hostile(submission.name, hyperparameters=150), FOR_EVER)
        else:
            self.submit(submission.name, tries=FOR_EVER, **submission.fields)
        if submission.cancel_after is not None:
            self.after(
                submission.cancel_after,
                "cancel",
                lambda: self.cancel(submission.name, tries=FOR_EVER),
            )

    def trouble_in_sagemaker(self) -> None:
        """Before each create, decide the training job's fate."""
        knobs = self.plane.knobs
        knobs.refuse_creates = int(self.weather.happens(self._odds.refused))
        knobs.fail_provisioning += self.weather.happens(self._odds.no_instances)
        knobs.fail_internally += self.weather.happens(self._odds.fault)
        knobs.stick_pending += self.weather.happens(self._odds.stuck)

    # --- the handler

    def begins(self, invocation: Invocation) -> None:
        self._current = invocation

    def new_manager(self, client: Callable[[str], Any]) -> QueueManager:
        return None  # type: ignore[return-value] # The handler makes its own.

    def announce(self, manager: QueueManager) -> bool:
        return False  # The handler has tried to.

    def submit(self, name: str, *, tries: int = 3, **fields: Any) -> None:
        fields = dict(fields)
        kind = fields.pop("instance_type")
        body = request(name, **fields)
        body["ResourceConfig"]["InstanceType"] = kind
        body["StoppingCondition"]["MaxPendingTimeInSeconds"] = PATIENCE
        self._post(body, tries)

    def _post(self, body: Mapping[str, Any], tries: int) -> None:
        name, event = body["TrainingJobName"], _api("POST", "/add-job", body=body)

        def ask(*_: Any) -> None:
            if self._answered(event) == 202:
                self.accepted.add(name)

        self._user(f"submit {name}", ask, tries)

    def cancel(self, name: str, *, tries: int = 3) -> None:
        event = _api("DELETE", f"/jobs/{name}", name=name)
        if name not in self.accepted:  # A user cancels only an accepted job.
            self.after(30_000, "cancel", lambda: self.cancel(name, tries=tries))
            return
        self._user(f"cancel {name}", lambda *_: self._answered(event), tries)

    def tick(self) -> None:
        event = {"source": "aws.events", "detail-type": "Scheduled Event", "id": "tick"}
        self._asynchronous("tick", lambda *_: self._handled(event))

    def run_pass(self) -> None:
        event = {"source": "slotq", "detail-type": "pass"}
        self._asynchronous("pass", lambda *_: self._handled(event))

    def deliver(self, event: Mapping[str, Any]) -> None:
        self._asynchronous("event", lambda *_: self._handled(event))

    def _answered(self, event: Mapping[str, Any]) -> int:
        """Send an API request. Without an answer, or after a 5xx, the user asks again."""
        status = int(self._handled(event)["statusCode"])
        if status >= 500:
            raise _NoAnswer
        self.weather.count[f"http_{status}"] += 1
        return status

    def _handled(self, event: Mapping[str, Any]) -> Any:
        import app

        number = self._current.number if self._current else 0
        context = SimpleNamespace(
            aws_request_id=f"invocation-{number}", get_remaining_time_in_millis=lambda: 60_000
        )
        try:
            return app.handler(event, context)
        except app.Failed:
            raise _NoAnswer from None
        except Killed:
            _forget(app)  # The sandbox is gone too.
            raise

    def client(self, service: str) -> Any:
        return _Current(self, service)


class _Current:
    """A client that lives as long as the sandbox. Its calls belong to the current invocation."""

    def __init__(self, world: ChaosWorld, service: str) -> None:
        self._world, self._service = world, service

    def __getattr__(self, method: str) -> Any:
        def ask(**body: Any) -> Any:
            world = self._world
            assert world._current is not None
            if method == "create_training_job":
                world.trouble_in_sagemaker()
            return getattr(world.wire(world._current, self._service), method)(**body)

        return ask


class _NoAnswer(Killed):
    """The invocation has failed: there is no answer, and Lambda or the user tries again."""


def _forget(app: Any) -> None:
    app.manager.cache_clear()
    app.routes.cache_clear()


@contextmanager
def _quiet(logger: Any) -> Iterator[None]:
    """Run without the handler's log; other tests of the process get it back afterwards."""
    level = logger.log_level
    logger.setLevel("CRITICAL")
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _lambda_of(world: ChaosWorld) -> Iterator[None]:
    """The handler's module, in this world."""
    environment = {
        "SLOTQ_TABLE": TABLE,
        "SLOTQ_POOLS": json.dumps(
            [
                {
                    "name": each.name,
                    "instance_type": each.instance_type,
                    "slots": each.capacity.slots,
                    **(
                        {"pending_timeout": each.pending_timeout // 1000}
                        if each.pending_timeout
                        else {}
                    ),
                }
                for each in POOLS
            ]
        ),
        "AWS_LAMBDA_FUNCTION_NAME": "slotq",
        "AWS_DEFAULT_REGION": "us-east-1",
        "POWERTOOLS_TRACE_DISABLED": "true",
    }
    with patch.dict(os.environ, environment):
        import app

        _forget(app)
        with (
            _quiet(app.logger),
            Path(os.devnull).open("w") as nowhere,
            redirect_stdout(nowhere),  # The metrics.
            warnings.catch_warnings(action="ignore"),
            patch.object(app, "client", world.client),
            patch.object(app, "clock", world.clock),
            patch.object(app, "in_parallel", lambda: one_by_one),
            patch.object(app, "sagemaker_client", lambda: world.client("sagemaker")),
        ):
            yield
        _forget(app)


def run(seed: int, count: int, odds: Odds | None = None, *, only: Sequence[str] = ()) -> ChaosWorld:
    """Run all requests, from the first to the last job's end."""
    wanted = [
        submission
        for submission in user_requests(seed, count)
        if not only or submission.name in only
    ]
    rng, lost = random.Random(f"chaos-{seed}"), outages(seed)
    world = ChaosWorld(rng, odds or Odds(), wanted, lost)
    with _lambda_of(world):
        while not world.watch.broken and not world.over and world.clock.now() < START + HORIZON:
            world.step()
        world.weather.raging = False
        world.watch.look_at_end({submission.name: submission.allowed for submission in wanted})
        finish_quietly(world)
    return world


def fewest(seed: int, count: int, *, tries: int = 40) -> ChaosWorld:
    """The broken run with the fewest jobs, found in this many tries."""
    tries = min(tries, max(4, 4_000 // count))  # A run of a thousand jobs takes long.
    names = [submission.name for submission in user_requests(seed, count)]
    world = run(seed, count)
    parts = 2
    while tries > 0 and len(names) > 1:
        size = max(1, len(names) // parts)
        for start in range(0, len(names), size):
            fewer = names[:start] + names[start + size :]
            tries -= 1
            if fewer and (other := run(seed, count, only=fewer)).watch.broken:
                names, world, parts = fewer, other, max(parts - 1, 2)
                break
            if tries <= 0:
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(names))
    return world


def _api(method: str, path: str, *, name: str = "", body: Any = None) -> dict[str, Any]:
    return {
        "httpMethod": method,
        "path": path,
        "resource": path.replace(name, "{name}") if name else path,
        "pathParameters": {"name": name} if name else None,
        "headers": {"Content-Type": "application/json"},
        "multiValueHeaders": {},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "requestContext": {
            "identity": {"userArn": "arn:aws:iam::123456789012:user/ann"},
            "path": path,
            "httpMethod": method,
            "requestId": "r",
            "stage": "prod",
        },
        "body": None if body is None else json.dumps(body),
        "isBase64Encoded": False,
    }

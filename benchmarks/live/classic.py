"""The classic design, for comparison: one item a job; each trigger scans the table, sorts what
waits, lists the training jobs and starts what fits.

Written as teams write it, without its worst mistakes: a condition keeps names apart, a condition
keeps a job from being started twice, and ended jobs leave the table. Still it reads all jobs with
their requests for each trigger and lists training jobs (two calls a second for the whole account),
and nothing keeps two handlers from using the same free slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import Any

from botocore.exceptions import ClientError

from benchmarks.live.engine import Engine
from slotq_core.adapters.dynamodb.layout.table import table_definition
from tests.functional.account import add_job

TABLE = "classic"
LISTED = 100
"""Training jobs on one page of ListTrainingJobs."""
WAITING = (200, 2_000, 20_000, 50_000)
SHORT = (200, 2_000)
RUNNING = 100
REQUEST = add_job(Tags=None)["body"]
"""The request that every job keeps: the sample's, 1.3 KB."""


@dataclass
class SageMaker:
    """Training jobs by name."""

    running: dict[str, int] = field(default_factory=dict)
    """Slots by training job."""
    lists: int = 0
    """Calls of ListTrainingJobs."""

    def create(self, name: str, slots: int) -> None:
        self.running[name] = slots

    def listed(self) -> list[int]:
        self.lists += max(1, -(-len(self.running) // LISTED))
        return [*self.running.values()]

    def one_ends(self) -> str:
        name = next(iter(self.running))
        del self.running[name]
        return name


class ClassicQueue:
    """The handler of the classic design."""

    def __init__(self, dynamodb: Any, sagemaker: SageMaker, capacity: int) -> None:
        self._dynamodb, self._sagemaker, self._capacity = dynamodb, sagemaker, capacity

    def submit(self, name: str, request: str, *, priority: int, slots: int, at: int) -> None:
        item = {**_key(name), **_attributes(request, priority, slots, at)}
        self._dynamodb.put_item(
            TableName=TABLE, Item=item, ConditionExpression="attribute_not_exists(pk)"
        )
        self.schedule()

    def ended(self, name: str) -> None:
        self._dynamodb.delete_item(TableName=TABLE, Key=_key(name))
        self.schedule()

    def schedule(self) -> None:
        self.start(self.choose())

    def choose(self) -> list[Mapping[str, Any]]:
        """The waiting jobs that fit now, in order."""
        waiting = [item for item in self._scan() if item["state"]["S"] == "waiting"]
        waiting.sort(key=lambda item: (-int(item["priority"]["N"]), int(item["entered"]["N"])))
        free, chosen = self._capacity - sum(self._sagemaker.listed()), []
        for item in waiting:
            if (slots := int(item["slots"]["N"])) <= free:
                chosen.append(item)
                free -= slots
        return chosen

    def start(self, chosen: list[Mapping[str, Any]]) -> None:
        """Start each job that no other handler has claimed."""
        for item in chosen:
            with suppress(ClientError):
                self._claim(item)
                self._sagemaker.create(item["pk"]["S"], int(item["slots"]["N"]))

    def _claim(self, item: Mapping[str, Any]) -> None:
        self._dynamodb.update_item(
            TableName=TABLE,
            Key={"pk": item["pk"], "sk": item["sk"]},
            UpdateExpression="SET #state = :running",
            ConditionExpression="#state = :waiting",
            ExpressionAttributeNames={"#state": "state"},
            ExpressionAttributeValues={":running": {"S": "running"}, ":waiting": {"S": "waiting"}},
        )

    def _scan(self) -> Iterator[Mapping[str, Any]]:
        request: dict[str, Any] = {"TableName": TABLE}
        while True:
            page = self._dynamodb.scan(**request)
            yield from page["Items"]
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def measure(*, short: bool = False) -> dict[str, Mapping[str, object]]:
    """What a submission and an event cost behind so many waiting jobs, and two handlers at once."""
    costs = {f"{waiting:,} waiting": _costs(waiting) for waiting in (SHORT if short else WAITING)}
    return {**costs, "two handlers at once": over_capacity()}


def _costs(waiting: int) -> dict[str, dict[str, float]]:
    engine, sagemaker = _queue(waiting)
    queue = ClassicQueue(engine, sagemaker, RUNNING)
    with engine.meter.counting() as submission:
        queue.submit("new", REQUEST, priority=1, slots=1, at=waiting)
    listed, sagemaker.lists = sagemaker.lists, 0
    with engine.meter.counting() as event:
        queue.ended(sagemaker.one_ends())
    return {
        "submission": {**submission.figures(), "lists": listed},
        "one decision": {**event.figures(), "lists": sagemaker.lists},
    }


class Interrupted:
    """Lets somebody else act before the n-th call of those that go through it."""

    def __init__(self, at: int, action: Callable[[], None]) -> None:
        self.left, self._action = at, action

    def through(self, service: Any) -> Any:
        return _Through(service, self._step)

    def _step(self) -> None:
        self.left -= 1
        if self.left == -1:
            self._action()


class _Through:
    def __init__(self, service: Any, step: Callable[[], None]) -> None:
        self._service, self._step = service, step

    def __getattr__(self, name: str) -> Any:
        self._step()
        return getattr(self._service, name)


def over_capacity() -> dict[str, int]:
    """Let one handler take in an urgent job before each call of another, whose job has ended.
    Counts these moments, and those that end with more slots in use than there are."""
    ends = [*takewhile(lambda used: used is not None, map(_used_after, count()))]
    return {"moments": len(ends), "over_capacity": sum((used or 0) > RUNNING for used in ends)}


def _used_after(moment: int) -> int | None:
    """The slots in use if the other handler acts at that moment. None: there is no such moment."""
    engine, sagemaker = _queue(10)
    other = ClassicQueue(engine, sagemaker, RUNNING)
    interrupted = Interrupted(
        moment, lambda: other.submit("urgent", REQUEST, priority=99, slots=1, at=0)
    )
    first = ClassicQueue(interrupted.through(engine), interrupted.through(sagemaker), RUNNING)
    first.ended(sagemaker.one_ends())
    return None if interrupted.left >= 0 else sum(sagemaker.running.values())


def _queue(waiting: int) -> tuple[Engine, SageMaker]:
    """A full pool and so many waiting jobs of one slot."""
    engine, sagemaker = Engine(), SageMaker()
    engine.create_table(**table_definition(TABLE))
    jobs = {f"running-{n:05d}": _attributes(REQUEST, 1, 1, n) for n in range(RUNNING)}
    sagemaker.running = dict.fromkeys(jobs, 1)
    for item in jobs.values():
        item["state"] = {"S": "running"}
    jobs |= {f"waiting-{n:06d}": _attributes(REQUEST, n % 50, 1, n) for n in range(waiting)}
    for name, item in jobs.items():
        engine.tables[TABLE].put((name, "JOB"), {**_key(name), **item})
    return engine, sagemaker


def _attributes(request: str, priority: int, slots: int, at: int) -> dict[str, Any]:
    return {
        "state": {"S": "waiting"},
        "priority": {"N": str(priority)},
        "entered": {"N": str(at)},
        "slots": {"N": str(slots)},
        "request": {"S": request},
    }


def _key(name: str) -> dict[str, Any]:
    return {"pk": {"S": name}, "sk": {"S": "JOB"}}

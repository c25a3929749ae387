"""The stories that are broken off at every call. Each is short: a few users' requests, what goes
wrong on SageMaker's side, and how it must end, whatever happens to the handlers meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from slotq.local.training.call_errors import PlaneError
from slotq.local.training.knobs import Knobs
from slotq.local.training.virtual_runner import Work
from slotq_core.adapters.dynamodb.layout.table import CALLERS, use_key
from slotq_core.adapters.sagemaker.observations import TOKEN_TAG
from slotq_core.adapters.sagemaker.service import JOB_TAG, QUEUE_TAG
from slotq_core.model.jobs import JobState
from slotq_core.model.limits import NO_LIMITS, CallerLimits, Limits
from slotq_core.model.pools import Pool
from tests.faults.world import TABLE, EventPolicy, Gate, World, delivered, pool
from tests.queue_world import request

S = JobState
Act = Callable[[World], None]
Ends = Mapping[str, frozenset[JobState | None]]


@dataclass(frozen=True)
class Step:
    """Somebody does something `at` seconds after the start."""

    at: float
    label: str
    act: Act
    verb: str = ""
    """`submit` or `cancel`, where a user does it, who may get no answer."""
    job: str = ""


@dataclass(frozen=True)
class Scenario:
    name: str
    steps: tuple[Step, ...]
    ends: Mapping[str, JobState]
    pools: tuple[Pool, ...] = (pool(),)
    work: Mapping[str, Work] = field(default_factory=dict)
    knobs: Mapping[str, Any] = field(default_factory=dict)
    runtime: int = 200_000
    per_commit: int | None = None
    """Jobs in one transaction; None: as many as usual."""
    history: int | None = None
    """How long ended jobs are kept (ms); None: as usual."""
    limits: Limits = NO_LIMITS
    or_else: Mapping[str, frozenset[JobState | None]] = field(default_factory=dict)
    """How else a job may end, where a fault has put somebody else's deed before or after it."""
    then: Callable[[World], str] = lambda _: ""
    """What else must hold in the end: says what does not."""

    def world(
        self, gate: Gate | None = None, *, events: EventPolicy = delivered, **more: Any
    ) -> World:
        world = World(
            *self.pools,
            work=self.work,
            knobs=Knobs(**self.knobs),
            gate=gate,
            events=events,
            runtime=self.runtime,
            per_commit=self.per_commit,
            history=self.history,
            limits=self.limits,
            **more,
        )
        for step in self.steps:
            world.after(round(step.at * 1000), step.label, partial(step.act, world))
        return world

    def without(self, index: int) -> Scenario:
        """The same story without one of its steps; for finding the shortest."""
        left = tuple(step for number, step in enumerate(self.steps) if number != index)
        return replace(self, steps=left)

    def allowed(self, world: World, *, unanswered: Iterable[Step] = ()) -> Ends:
        """How each job may end. A request that was never answered, nor asked again, may have come
        to nothing."""
        submitted = {step.job for step in self.steps if step.verb == "submit"}
        ends: dict[str, set[JobState | None]] = {
            name: {state} for name, state in self.ends.items() if name in submitted
        }
        for name, others in self.or_else.items():
            ends.get(name, set()).update(others)
        for step in unanswered:
            if step.verb == "submit" and step.job not in world.accepted:
                ends[step.job].add(None)
            if step.verb == "cancel":
                ends[step.job].add(S.COMPLETED)
        for step in self.steps:
            if step.verb == "cancel" and step.label in world.refused:
                ends[step.job].add(S.COMPLETED)  # It came before its submit had got through.
            if step.label in world.limited and step.job not in world.accepted:
                ends[step.job].add(None)
        return {name: frozenset(states) for name, states in ends.items()}


def submit(at: float, job: str, **fields: Any) -> Step:
    def act(world: World) -> None:
        world.submit(job, **fields)

    return Step(at, f"submit {job}", act, "submit", job)


def submit_hostile(at: float, **settings: str) -> Step:
    def act(world: World) -> None:
        world.submit_body(hostile(**settings), by="eve")

    return Step(at, "submit hostile", act, "submit", "hostile")


def retry(at: float, job: str, becomes: str) -> Step:
    return Step(at, f"retry {job}", lambda world: world.retry(job), "submit", becomes)


def requeue(at: float, job: str, attempt: int = 1) -> Step:
    return Step(at, f"requeue {job}", lambda world: world.requeue(job, attempt))


def cancel(at: float, job: str) -> Step:
    return Step(at, f"cancel {job}", lambda world: world.cancel(job), "cancel", job)


def plane(at: float, operation: str, **body: Any) -> Step:
    """Somebody uses SageMaker itself, past the queue."""

    def act(world: World) -> None:
        with suppress(PlaneError):  # It may not be there (yet): then it is nobody's fault.
            world.plane.handle(operation, body)

    return Step(at, operation, act)


def knobs(at: float, **values: Any) -> Step:
    """From then on SageMaker answers otherwise."""
    return Step(at, f"knobs {values}", lambda world: world.plane.knobs.turn(values))


def hostile(name: str = "hostile", hyperparameters: int = 300, **settings: str) -> dict[str, Any]:
    """A request as odd as the door lets in: long keys and values, each of them a fragment of the
    others and of what SageMaker answers, in every script."""
    odd = ("Could not assume role ", "not authorized to perform: iam:PassRole ", "é😀")
    body = request(name, priority=-1_000_000, **settings)
    body["HyperParameters"] = {
        f"{'k' * (n % 200)}{n}": odd[n % len(odd)] * (1 + n % 9) for n in range(hyperparameters)
    }
    body["Environment"] = {f"E{n}": "x" * 512 for n in range(40)}
    return body


def beside_a_hostile_job(scenario: Scenario) -> Scenario:
    """The same story, while SageMaker refuses another user's request at length, in a pool of its
    own: it fails, and changes nothing for the others."""
    if "hostile" in scenario.ends:
        return scenario
    return replace(
        scenario,
        steps=(submit_hostile(0.25, pools="h"), *scenario.steps),
        ends={**scenario.ends, "hostile": S.FAILED},
        pools=(*scenario.pools, pool("h")),
    )


def until(at: float) -> Step:
    """The story is not over before."""
    return Step(at, "time goes by", lambda _: None)


def ghost(name: str) -> dict[str, Any]:
    """A training job that bears the queue's tags and that no job expects."""
    body = request(name)
    tags = {QUEUE_TAG: TABLE, JOB_TAG: name, TOKEN_TAG: "unknown"}
    body["Tags"] += [{"Key": key, "Value": value} for key, value in tags.items()]
    return body


def is_now(training_job: str, status: str) -> Callable[[World], str]:
    def look(world: World) -> str:
        now = world.status_of(training_job)
        return "" if now == status else f"{training_job} is {now}, not {status}"

    return look


def started_first(job: str) -> Callable[[World], str]:
    """Of all training jobs that came to be."""

    def look(world: World) -> str:
        there = world.plane.jobs()
        first = there[0].tags.get(JOB_TAG, "") if there else ""
        return "" if first == job else f"{first} has started before {job}"

    return look


def nothing_left_of(job: str) -> Callable[[World], str]:
    def look(world: World) -> str:
        keys = [key for key in world.table.items if job in key[0].split("#") + key[1].split("#")]
        return f"of {job} there is still {keys}" if keys else ""

    return look


def counters_converge(world: World) -> str:
    """Once all has ended and two ticks have passed, nobody's jobs are counted as waiting."""
    world.go(130)
    items = [item for key, item in world.table.items.items() if key[0] == CALLERS]
    items += [world.table.items[use_key()]] if use_key() in world.table.items else []
    left = [item["waiting"]["N"] for item in items if item["waiting"]["N"] != "0"]
    return f"nobody waits, and {left} are counted" if left else ""


def done(*names: str) -> dict[str, JobState]:
    return dict.fromkeys(names, S.COMPLETED)


def minutes(count: float) -> Work:
    return Work(runtime=round(count * 60_000), stop=30_000)


EVERY_RIGHT = ",".join(
    f"sagemaker:{action}"
    for action in (
        "CreateTrainingJob",
        "StopTrainingJob",
        "DescribeTrainingJob",
        "ListTrainingJobs",
        "ListTags",
    )
)
WRONG_ROLE = "arn:aws:iam::123456789012:role/wrong"
"""SageMaker cannot assume it for a while."""

STORIES: tuple[Scenario, ...] = (
    Scenario("submit_and_complete", (submit(1, "a"),), done("a")),
    Scenario(
        "third_of_two_waits",
        (submit(1, "a"), submit(2, "b"), submit(3, "c")),
        done("a", "b", "c"),
        pools=(pool(slots=2),),
    ),
    Scenario(
        "preempt_chain",
        (
            submit(1, "low", priority=1),
            submit(20, "mid", priority=2),
            submit(90, "high", priority=3),
        ),
        done("low", "mid", "high"),
        work={name: minutes(2) for name in ("low", "mid", "high")},
    ),
    Scenario(
        "two_slots_four_jobs",
        (
            submit(1, "job1", priority=1),
            submit(2, "job2", priority=2),
            submit(20, "job3", priority=1),
            submit(40, "job4", priority=3),
        ),
        done("job1", "job2", "job3", "job4"),
        pools=(pool(slots=2),),
        work={f"job{n}": minutes(1.5) for n in (1, 2, 3, 4)},
    ),
    Scenario(
        "cancel_waiting",
        (submit(1, "a"), submit(2, "b"), cancel(10, "b")),
        {"a": S.COMPLETED, "b": S.CANCELLED},
        runtime=500_000,
    ),
    Scenario(
        "cancel_at_once",
        (submit(1, "a"), cancel(1, "a")),
        {"a": S.CANCELLED},
        runtime=2_000_000,
    ),
    Scenario(
        "requeue_while_running",
        (submit(1, "a"), submit(2, "b"), requeue(40, "a")),
        done("a", "b"),
        work={"a": Work(runtime=100_000, stop=20_000)},
        pools=(pool(slots=2),),
    ),
    Scenario(
        "cancel_while_starting",
        (submit(1, "a"), submit(2, "b"), cancel(10, "a")),
        {"a": S.CANCELLED, "b": S.COMPLETED},
        knobs={"start_seconds": 30},
        work={"a": Work(runtime=9_000_000)},
    ),
    Scenario(
        "cancel_running",
        (submit(1, "a"), submit(2, "b"), cancel(30, "a")),
        {"a": S.CANCELLED, "b": S.COMPLETED},
        work={"a": Work(runtime=9_000_000, stop=20_000)},
    ),
    Scenario(
        "cancel_while_stopping",
        (submit(1, "low"), submit(20, "high", priority=1), cancel(35, "low")),
        {"low": S.CANCELLED, "high": S.COMPLETED},
        work={"low": Work(runtime=9_000_000, stop=60_000)},
    ),
    Scenario(
        "cancel_the_claimant",
        (submit(1, "low"), submit(20, "high", priority=1), cancel(35, "high")),
        {"low": S.COMPLETED, "high": S.CANCELLED},
        work={"low": Work(runtime=120_000, stop=60_000), "high": Work(runtime=9_000_000)},
    ),
    Scenario(
        "no_capacity_at_create",
        (submit(1, "a"), submit(2, "b", priority=1)),
        done("a", "b"),
        knobs={"refuse_creates": 2},
    ),
    Scenario(
        "no_capacity_later",
        (submit(1, "a"), submit(2, "b")),
        done("a", "b"),
        knobs={"fail_provisioning": 1, "start_seconds": 10},
    ),
    Scenario(
        "second_choice_pool",
        (
            submit(1, "a", pools="p,q"),
            submit(2, "b", pools="p,q"),
            submit(20, "c", pools="p,q", priority=5),
        ),
        done("a", "b", "c"),
        pools=(pool("p"), pool("q")),
        knobs={"refuse_creates": 1},
        work={name: minutes(2) for name in "abc"},
    ),
    Scenario(
        "one_evicts_three",
        (
            submit(1, "s1"),
            submit(2, "s2"),
            submit(3, "s3"),
            submit(4, "other", priority=9),
            submit(30, "big", slots=3, priority=5),
        ),
        done("s1", "s2", "s3", "big", "other"),
        pools=(pool(slots=4),),
        work={
            "s1": Work(runtime=100_000, stop=5_000),
            "s2": Work(runtime=100_000, stop=15_000),
            "s3": Work(runtime=100_000, stop=25_000),
            "big": Work(runtime=100_000),
        },
        runtime=150_000,
    ),
    Scenario(
        "fault_then_back_off",
        (submit(1, "a"), submit(5, "b")),
        done("a", "b"),
        knobs={"fail_internally": 1, "start_seconds": 5},
        runtime=100_000,
    ),
    Scenario(
        "completes_while_stopping",
        (submit(1, "low"), submit(30, "high", priority=1)),
        done("low", "high"),
        work={"low": Work(runtime=45_000, stop=60_000), "high": minutes(1)},
    ),
    Scenario(
        "max_runtime_over_attempts",
        (submit(1, "low", max_runtime=100), submit(61, "high", priority=1)),
        {"low": S.FAILED, "high": S.COMPLETED},
        work={"low": Work(runtime=9_000_000), "high": minutes(1)},
    ),
    Scenario(
        "fails_and_tries_again",
        (submit(1, "a", retries="1"),),
        {"a": S.FAILED},
        work={"a": Work(runtime=40_000, exit_code=1, checkpoint=False)},
    ),
    Scenario(
        "pending_too_long",
        (submit(1, "a", pools="p,q"), submit(2, "b", pools="p")),
        done("a", "b"),
        pools=(pool("p", pending_timeout=60_000), pool("q")),
        knobs={"stick_pending": 1, "start_seconds": 5},
        runtime=100_000,
    ),
    Scenario(
        "account_limit_is_smaller",
        (submit(1, "a"), submit(2, "b")),
        done("a", "b"),
        pools=(pool(slots=2),),
        knobs={"limits": {"ml.m5.large": 1}},
        runtime=100_000,
    ),
    Scenario(
        "name_is_taken",
        (
            submit(1, "first"),
            submit(2, "a"),
            plane(3, "CreateTrainingJob", **request("a")),
            submit(5, "b"),
        ),
        {"first": S.COMPLETED, "a": S.FAILED, "b": S.COMPLETED},
        runtime=70_000,
        or_else={"a": frozenset({S.COMPLETED, None})},
    ),
    Scenario(
        "stopped_by_others",
        (submit(1, "a"), submit(2, "b"), plane(30, "StopTrainingJob", TrainingJobName="a")),
        {"a": S.STOPPED, "b": S.COMPLETED},
        runtime=100_000,
        or_else={"a": frozenset({S.COMPLETED})},
    ),
    Scenario(
        "large_eviction_in_two_transactions",
        (
            *(submit(1 + n, f"s{n}") for n in range(5)),
            submit(30, "big", slots=5, priority=5),
        ),
        done("big", *(f"s{n}" for n in range(5))),
        pools=(pool(slots=5),),
        work={f"s{n}": Work(runtime=60_000, stop=5_000 * n) for n in range(5)},
        runtime=40_000,
        per_commit=3,
    ),
    Scenario(
        "an_orphan_is_stopped",
        (submit(1, "a"), plane(10, "CreateTrainingJob", **ghost("ghost")), until(1_700)),
        done("a"),
        work={"ghost": Work(runtime=None)},
        runtime=100_000,
        then=is_now("ghost", "Stopped"),
    ),
    Scenario(
        "foreign_training_jobs_count",
        (
            plane(0.5, "CreateTrainingJob", **request("theirs")),
            submit(61, "a"),
            submit(62, "b"),
            until(480),
        ),
        done("a", "b"),
        pools=(pool(slots=2, count_foreign=True),),
        work={"theirs": Work(runtime=400_000)},
        runtime=100_000,
        then=is_now("theirs", "Completed"),
    ),
    Scenario(
        "history_goes_and_the_name_comes_again",
        (
            submit(1, "a"),
            plane(320, "DeleteTrainingJob", TrainingJobName="a"),
            submit(330, "a"),
            until(2_100),
        ),
        done("a"),
        runtime=40_000,
        history=200_000,
        # Deleted in SageMaker before the queue has heard of its end.
        or_else={"a": frozenset({S.STOPPED})},
        then=nothing_left_of("a"),
    ),
    Scenario(
        "the_right_to_create_vanishes",
        (
            submit(1, "a"),
            knobs(1.5, denied="sagemaker:CreateTrainingJob"),
            submit(21, "b", priority=3),
            knobs(130, denied=""),
        ),
        done("a", "b"),
        pools=(pool(slots=2),),
        work={"a": Work(runtime=150_000), "b": Work(runtime=20_000)},
    ),
    Scenario(
        "every_right_vanishes",
        (
            submit(1, "low"),
            submit(20, "high", priority=1),
            knobs(20.5, denied=EVERY_RIGHT),
            submit(30, "later"),
            cancel(40, "low"),
            knobs(80, denied=""),
        ),
        {"low": S.CANCELLED, "high": S.COMPLETED, "later": S.COMPLETED},
        work={"low": Work(runtime=9_000_000, stop=5_000)},
        runtime=20_000,
    ),
    Scenario(
        "a_role_is_wrong_for_a_while",
        (
            knobs(0.5, lost_roles=WRONG_ROLE),
            submit(1, "a", role=WRONG_ROLE, priority=2),
            submit(2, "b", role=WRONG_ROLE, priority=2),
            submit(3, "c"),
            knobs(40, lost_roles=""),
        ),
        done("a", "b", "c"),
        runtime=20_000,
    ),
    Scenario(
        "a_failed_job_is_retried",
        (submit(1, "a"), retry(60, "a", "a-r2"), retry(200, "a-r2", "a-r3")),
        {"a": S.FAILED, "a-r2": S.FAILED, "a-r3": S.COMPLETED},
        work={name: Work(runtime=20_000, exit_code=1) for name in ("a", "a-r2")},
        # Where a fault has kept the first from failing before it is retried.
        or_else={"a-r2": frozenset({None}), "a-r3": frozenset({None})},
    ),
    Scenario(
        "submissions_meet_the_limit_of_what_waits",
        (
            submit(1, "a"),
            submit(5, "b"),
            submit(12, "c"),
            submit(25, "crowd"),
            submit(225, "later"),
        ),
        {**done("a", "b", "c", "later"), "crowd": S.COMPLETED},
        runtime=100_000,
        limits=Limits(each=CallerLimits(waiting=2), waiting_in_all=10),
        then=counters_converge,
    ),
    Scenario(
        "submissions_meet_the_limit_of_a_minute",
        (
            submit(1, "a"),
            submit(5, "b"),
            submit(12, "c"),
            submit(45, "c"),
            submit(65, "d"),
        ),
        done("a", "b", "c", "d"),
        pools=(pool(slots=2),),
        runtime=60_000,
        limits=Limits(each=CallerLimits(submissions=2)),
        then=counters_converge,
    ),
    Scenario(
        "a_hostile_submission",
        (
            submit_hostile(0.5),
            submit(1, "a"),
            submit(2, "b"),
        ),
        {**done("a", "b"), "hostile": S.FAILED},
        pools=(pool(slots=2),),
        runtime=60_000,
    ),
)

SCENARIOS = tuple(beside_a_hostile_job(story) for story in STORIES)

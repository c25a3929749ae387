"""Interleavings: several handlers at once, switched at every call to AWS.

The handlers are threads of which exactly one runs at a time. Before each call, in the middle of
each transaction and while a transaction becomes visible, a schedule says who goes on. Small cases
are tried exhaustively up to a number of preemptions (a switch away from a handler that could have
gone on), large ones by chance, from a seed.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from slotq.local.training.knobs import Knobs
from slotq.local.training.virtual_runner import Work
from slotq_core.adapters.dynamodb.layout.lines import GRACE, LINE_KEPT
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.manager import QueueManager
from slotq_core.model.groups import Sweep
from slotq_core.model.jobs import JobState
from slotq_core.model.pools import Pool
from slotq_core.operations.jobs.groups import FINISHED_WITHIN
from slotq_core.policy.lines import line_of
from tests.faults.agents import AgentRules
from tests.faults.clients import SOON
from tests.faults.crashes import LEFTOVER
from tests.faults.gate import Call, Gate, Invocation, Killed
from tests.faults.lines.cases import a_pass
from tests.faults.promises import CONVERGENT
from tests.faults.scenarios import (
    NODES,
    RELEASE,
    all_have_heard,
    hostile,
    no_create_is_refused,
    one_has_heard,
    planned,
    plans,
    submit_for_task,
)
from tests.faults.world import TYPES, World, delivered, pool

S = JobState
ENDED = frozenset({S.COMPLETED, S.CANCELLED})
Choices = tuple[int, ...]


class Schedule:
    """The handler that goes on at each choice; where none is given, the running handler."""

    def __init__(
        self, choices: Sequence[int] | Mapping[int, int], rng: random.Random | None = None
    ) -> None:
        self._given = dict(choices if isinstance(choices, Mapping) else enumerate(choices))
        self._rng = rng
        self.taken: list[int] = []
        self.could: list[tuple[int, ...]] = []
        """The handlers that could have gone on at each point; the running one comes first if it
        still could."""
        self.was: list[int | None] = []

    def choose(self, able: Sequence[int], current: int | None) -> int:
        point = len(self.taken)
        usual: int = able[0] if current is None or current not in able else current
        if self._given.get(point) in able:
            chosen = self._given[point]
        elif self._rng and self._rng.random() < 0.3:
            chosen = self._rng.choice(able)
        else:
            chosen = usual
        self.taken.append(chosen)
        self.could.append(tuple(able))
        self.was.append(current if current in able else None)
        return chosen

    def preemptions(self, upto: int) -> int:
        pairs = zip(self.taken[:upto], self.was, strict=False)
        return sum(was is not None and taken != was for taken, was in pairs)


class Baton(Gate):
    """Runs bodies in threads, one at a time. Outside of that it lets every call through."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._turns: list[threading.Semaphore] = []
        self._alive: list[int] = []
        self._over = threading.Semaphore(0)
        self._me = threading.local()
        self._committing: set[int] = set()
        self._refused: int | None = None
        """The handler that has just met another's transaction."""
        self._refusals: Counter[int] = Counter()
        """By handler, how often in a row it has met one."""
        self.errors: list[BaseException] = []
        self.switches: list[str] = []

    def run(self, bodies: Sequence[Callable[[], object]]) -> None:
        self._turns = [threading.Semaphore(0) for _ in bodies]
        self._alive = list(range(len(bodies)))
        threads = [
            threading.Thread(target=self._work, args=(number, body), daemon=True)
            for number, body in enumerate(bodies)
        ]
        for thread in threads:
            thread.start()
        self._turns[self._schedule.choose(self._alive, None)].release()
        self._over.acquire()
        for thread in threads:
            thread.join()

    def _work(self, number: int, body: Callable[[], object]) -> None:
        self._me.number = number
        self._turns[number].acquire()
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - told to the one who waits for all
            self.errors.append(error)
        self._alive.remove(number)
        if self._alive:
            self._turns[self._schedule.choose(self._alive, None)].release()
        else:
            self._over.release()

    def switch(self) -> None:
        me: int | None = getattr(self._me, "number", None)
        if me is None or len(self._alive) < 2:
            return
        if self._refused == me:
            # A transaction ends within milliseconds, so a handler that has met it tries once more
            # meanwhile at most.
            self._refused = None
            ends_first = self._refusals[me] > 1 and self._committing - {me}
            able = sorted(
                ends_first or self._alive, key=lambda n: (n not in self._committing, n == me)
            )
            chosen = self._schedule.choose(able, None)
        else:
            chosen = self._schedule.choose(list(self._alive), me)
        if chosen != me:
            self._turns[chosen].release()
            self._turns[me].acquire()

    def _commit(self) -> None:
        """Called while a transaction is in flight."""
        self._committing.add(self._me.number)
        self.switch()
        self._committing.discard(self._me.number)

    def through(self, call: Call) -> Any:
        if getattr(self._me, "number", None) is None:
            return call.do()
        self.switch()
        self.switches.append(f"[{call.invocation.number}] {call}")
        more = {"during": self._commit} if call.operation == "transact_write_items" else {}
        try:
            answer = call.do(**more)
        except ClientError as error:
            if "TransactionConflict" in str(error):
                self._refused = self._me.number
                self._refusals[self._me.number] += 1
            raise
        if more:
            self._refusals[self._me.number] = 0
        return answer


Handler = Callable[[World], None]


@dataclass(frozen=True)
class Case:
    """Handlers that run at once, in a world prepared by earlier steps."""

    name: str
    before: Callable[[World], None]
    handlers: tuple[tuple[str, Handler], ...]
    ends: Mapping[str, frozenset[JobState]]
    pools: tuple[Pool, ...] = (pool(),)
    work: Mapping[str, Work] = field(default_factory=dict)
    knobs: Mapping[str, Any] = field(default_factory=dict)
    bound: int = 2
    """The number of preemptions tried exhaustively."""
    leases: bool = True
    """False: every lease is over at once, so passes run beside each other."""

    most_actions: int | None = None
    """Actions in one transaction of a decision; None: as many as DynamoDB takes."""
    agents: AgentRules | None = None
    """The agents of nodes; None: none ever reports."""
    answers: bool = False
    """Whether the queue answers the tasks of state machines."""
    soon: tuple[str, ...] = ()
    """Jobs that have started a few seconds after the handlers' end, before any tick or event."""
    then: Callable[[World], str] = lambda _: ""
    """A further check of the end: yields what does not hold."""

    def without(self, index: int) -> Case:
        left = tuple(h for number, h in enumerate(self.handlers) if number != index)
        return replace(self, handlers=left)


def run(case: Case, schedule: Schedule) -> World:
    gate = Baton(schedule)
    world = World(
        *case.pools,
        work=case.work,
        knobs=Knobs(**case.knobs),
        gate=gate,
        runtime=200_000,
        leases=case.leases,
        most_actions=case.most_actions,
        events=(lambda _: ()) if case.soon else delivered,
        agents=case.agents,
        answers=case.answers,
    )
    case.before(world)
    if not world.watch.broken:
        gate.run([partial(act, world) for _, act in case.handlers])
        world.history += [f"      {line}" for line in gate.switches]
        for error in gate.errors:
            world.watch.note(CONVERGENT, f"a handler ended with {error!r}")
    world.look()
    if case.soon and not world.watch.broken:
        world.go(3)
        for name in case.soon:
            if world.watch.jobs[name].waits:
                world.watch.note(CONVERGENT, f"{name} waits for the tick: a wake-up was lost")
    world.event_policy = delivered
    world.go_until_over()
    if not world.watch.broken:
        world.watch.look_for_leftovers(LEFTOVER)
        world.watch.look_at_end(case.ends)
        if wrong := case.then(world):
            world.watch.note(CONVERGENT, wrong)
    return world


def exhaustively(
    case: Case, most: int | None = None, rng: random.Random | None = None
) -> Iterator[tuple[Schedule, World]]:
    """Every schedule with at most `case.bound` preemptions, each once, up to a maximum; few
    switches first. With `rng`, in an order by chance."""
    waiting: deque[Choices] = deque([()])
    count = 0
    while waiting and (most is None or count < most):
        if rng:
            waiting.rotate(-rng.randrange(len(waiting)))
        given = waiting.popleft()
        schedule = Schedule(given)
        world = run(case, schedule)
        count += 1
        yield schedule, world
        for point in range(len(given), len(schedule.taken)):
            spent = schedule.preemptions(point)
            for other in schedule.could[point]:
                if other == schedule.taken[point]:
                    continue
                costs = schedule.was[point] is not None
                if spent + costs <= case.bound:
                    waiting.append((*schedule.taken[:point], other))


def by_chance(case: Case, seed: int, count: int) -> Iterator[tuple[Schedule, World]]:
    for number in range(count):
        schedule = Schedule((), random.Random(f"{case.name}-{seed}-{number}"))
        yield schedule, run(case, schedule)


def shortest(case: Case, schedule: Schedule) -> tuple[Case, Schedule, World]:
    """The broken case with the fewest handlers and switches that still break it."""
    found = case, schedule, run(case, Schedule(schedule.taken))
    for index in reversed(range(len(case.handlers))):
        if len(found[0].handlers) < 2:
            break
        fewer = replace(found[0].without(index), bound=2)
        for each, world in exhaustively(fewer, 3000):
            if world.watch.broken:
                found = fewer, each, world
                break
    return _fewest_switches(*found)


def _fewest_switches(case: Case, schedule: Schedule, world: World) -> tuple[Case, Schedule, World]:
    for bound in range(3):
        for each, other in exhaustively(replace(case, bound=bound), 1500):
            if other.watch.broken:
                return case, each, other
    return case, schedule, world


# --- what a handler does


def a_submit(name: str, **fields: Any) -> tuple[str, Handler]:
    return f"submit {name}", lambda world: world.submit(name, **fields)


def a_submit_for_task(job: str, number: int) -> tuple[str, Handler]:
    step = submit_for_task(0, job, number)
    return step.label, step.act


def its_execution_is_stopped(world: World) -> None:
    """The job runs, and the execution that waits for it has just been stopped."""
    submit_for_task(0, "a").act(world)
    world.go(20)
    world.tasks.stopped.add("a-1")


def it_has_ended(world: World) -> None:
    """The job has ended, and the task that waits for it has heard of nothing yet."""
    submit_for_task(0, "a").act(world)
    world.go(50)


def a_group(name: str, *jobs: str, max_parallel: int = 1) -> tuple[str, Handler]:
    return f"submit group {name}", lambda world: world.submit_group(
        name, *jobs, max_parallel=max_parallel
    )


def a_batch(*jobs: str) -> tuple[str, Handler]:
    return f"submit batch {' '.join(jobs)}", lambda world: world.submit_batch(*jobs)


def a_batch_and_its_pass(*jobs: str) -> tuple[str, Handler]:
    """The pass that the batch requests runs while other handlers still work."""
    label, act = a_batch(*jobs)
    return f"{label} and its pass", and_its_pass(act)


def begun_in_part(name: str, *jobs: str) -> Handler:
    """Almost an hour ago a handler died after it had stored the first member of this group."""

    def act(world: World) -> None:
        wanted = world.group_of(name, *jobs, max_parallel=1)

        def dies(manager: QueueManager, _: Invocation) -> None:
            store_of(manager).groups.open(
                name,
                digest=f"{wanted.digest} ann",
                now=world.clock.now(),
                members=jobs,
            )
            submission, body = wanted.members[0]
            manager.submissions.stored(submission, body, "ann")
            raise Killed

        world.invoke(f"submit group {name}", dies)
        world.clock.set(world.clock.now() + FINISHED_WITHIN - 1_000)

    return act


def a_cancel(name: str) -> tuple[str, Handler]:
    return f"cancel {name}", lambda world: world.cancel(name)


def a_requeue(name: str, attempt: int = 1) -> tuple[str, Handler]:
    return f"requeue {name}", lambda world: world.requeue(name, attempt)


FOUR_POOLS = tuple(map(pool, "pqrh"))
A_CHANGE_IN_PARTS: tuple[str, Handler] = (
    "three pools go",
    lambda world: world.configure_in_parts(pool(slots=2), tries=1),
)
ANOTHER_CHANGE_IN_PARTS: tuple[str, Handler] = (
    "all pools grow",
    lambda world: world.configure_in_parts(*(pool(name, 3) for name in "pqrh"), tries=1),
)
A_PASS: tuple[str, Handler] = ("pass", lambda world: world.run_pass())
A_WAKE: tuple[str, Handler] = ("wake", lambda world: world.wake())
A_TICK: tuple[str, Handler] = ("tick", lambda world: world.tick())


def a_raise(world: World) -> None:
    """A pass that decides nothing, but raises the lines' bounds and removes empty lines."""
    world.invoke("raise", lambda manager, _: a_pass(store_of(manager), world.clock.now))


A_RAISE: tuple[str, Handler] = ("raise", a_raise)


def store_of(manager: QueueManager) -> DynamoStore:
    store = manager._store
    assert isinstance(store, DynamoStore)
    return store


def a_return_that_dies(name: str) -> tuple[str, Handler]:
    """A handler that is about to return the job to its line, and dies before its transaction."""

    def touch_and_die(manager: QueueManager, _: Invocation) -> None:
        store = store_of(manager)
        job = store.jobs.get(name)
        assert job is not None
        store.decisions._bounds.returned([line_of(job)])
        raise Killed

    return f"return {name} and die", lambda world: ignored(world.invoke("return", touch_and_die))


def ignored(_: object) -> None: ...


def a_pass_with_news(world: World) -> None:
    world.bump()
    world.run_pass()


A_PASS_WITH_NEWS: tuple[str, Handler] = ("pass with news", a_pass_with_news)


def a_submit_and_its_pass(name: str, **fields: Any) -> tuple[str, Handler]:
    """The pass that the submission requests runs while other handlers still work."""

    label, act = a_submit(name, **fields)
    return f"{label} and its pass", and_its_pass(act)


def and_its_pass(act: Handler) -> Handler:
    def both(world: World) -> None:
        act(world)
        world.clock.set(world.clock.now() + SOON)
        for run_pass in world.take_due("pass"):
            run_pass()

    return both


def later(seconds: float, handler: tuple[str, Handler]) -> tuple[str, Handler]:
    """The other handlers have been stalled for this long when it begins. (No handler lives for a
    minute.)"""
    label, act = handler

    def run_late(world: World) -> None:
        world.clock.set(world.clock.now() + round(seconds * 1000))
        world.plane.advance()
        act(world)

    return f"{label} {seconds} s later", run_late


def an_event(training_job: str, status: str) -> tuple[str, Handler]:
    """The plane's event about this training job, whether the plane sends it or not."""

    def act(world: World) -> None:
        there = world.plane.job(training_job)
        if there is not None and (status in {there.status, there.secondary}):
            world.deliver(there.event(account="123456789012", region="us-east-1"))

    return f"event {training_job} {status}", act


def begun(*steps: Callable[[World], None], seconds: float = 5) -> Callable[[World], None]:
    """Five seconds after each step, and this long after the last one, everything has settled."""

    def before(world: World) -> None:
        for step in steps:
            step(world)
            world.go(5)
        world.go(seconds)

    return before


def one_runs_on_a_node(world: World) -> None:
    """And its agent has reported since the last tick, when another job comes."""
    world.submit_for_node("a")
    world.go(125)
    world.submit_for_node("b")


def parts_on_two_nodes(world: World) -> None:
    """Half a GPU of each node is in use when a job comes for which one of the two has to move."""
    for name, gpus in (("a", 0.5), ("short", 1), ("shorter", 0.5), ("b", 0.5)):
        world.submit_for_node(name, gpus)
    world.go(290)
    world.submit_for_node("large", 2, priority=10)


def one_is_kept_warm(world: World) -> None:
    """The only instance of the pool is warm after a job."""
    world.submit("a")
    world.go(50)


def one_is_released(world: World) -> None:
    """That instance is being released for a job of another role, and no look has found it gone."""
    one_is_kept_warm(world)
    world.submit("b", role=ANOTHER_ROLE)
    world.go(58)


def unseen_ends(*names: str) -> Callable[[World], None]:
    """These jobs have run to their ends, of which no event told; the next tick reconciles."""

    def before(world: World) -> None:
        world.event_policy = lambda _: ()
        for name in names:
            world.submit(name)
        world.go(350)
        for name in ("w1", "w2"):
            world.submit(name)
        world.clock.set(world.clock.now() + 11_000)
        world.plane.advance()

    return before


def stored(*names: str, **fields: Any) -> Callable[[World], None]:
    """Submitted, without any pass."""

    def before(world: World) -> None:
        for name in names:
            world.submit(name, **fields)

    return before


def after_a_while(world: World) -> None:
    """Bounds may pass what has been submitted until now."""
    world.go(GRACE // 1000 + 120)


def left_empty_long_ago(world: World) -> None:
    """The line of a job that waited there, with no pass since."""
    world.submit("old")
    world.cancel("old")
    world.clock.set(world.clock.now() + LINE_KEPT + 60_000)


def ends(**states: Any) -> dict[str, frozenset[JobState]]:
    return {
        name: frozenset(each) if isinstance(each, (set, frozenset)) else frozenset({each})
        for name, each in states.items()
    }


def a_plan(world: World) -> None:
    """A job runs on a plan of two instances, which the queue has read."""
    plans(0, (-3600, 90_000, 2)).act(world)
    world.go(61)
    world.submit("a")
    world.go(3)


def a_plan_that_has_broken(world: World) -> None:
    """Then one of the instances breaks, which the next tick reads."""
    a_plan(world)
    plans(0, (-3600, 90_000, 2), unhealthy=1).act(world)


def a_plan_that_is_gone(world: World) -> None:
    a_plan(world)
    plans(0).act(world)


LONG = Work(runtime=9_000_000, stop=20_000)
GOOD_ENOUGH = Sweep(metric="loss", goal=0.2)
DONE_WELL = Work(runtime=25_000, metrics={"loss": 0.1})
GRACEFUL = begun(
    lambda world: world.submit("low", checkpoints="s3://bucket/low"),
    lambda world: world.submit("high", priority=5),
)
"""Ten seconds after its eviction, the low job is still in its grace."""
C, X = S.COMPLETED, S.CANCELLED
ANOTHER_ROLE = "arn:aws:iam::123456789012:role/another"
AN_INSTANCE_IS_RELEASED: dict[str, Any] = {
    "bound": 1,
    "leases": False,
    "pools": (pool(keep_warm=21_600_000),),
    "work": dict.fromkeys(("a", "b", "like"), Work(runtime=20_000)),
    "knobs": {"limits": {TYPES["p"]: 1}, "release_seconds": 40},
    "then": no_create_is_refused,
}
"""A case in a pool of one slot. SageMaker's limit counts its kept instance until the release."""


def beside_a_hostile_job(case: Case) -> Case:
    """The same case, where the passes also meet another user's request that SageMaker refuses at
    length, in a pool of its own."""

    def before(world: World) -> None:
        case.before(world)
        world.submit_body(hostile(pools="h"), by="eve")

    return replace(
        case,
        name=f"{case.name}_beside_a_hostile_job",
        before=before,
        ends={**case.ends, **ends(hostile=S.FAILED)},
        pools=(*case.pools, pool("h")),
    )


ALONE: tuple[Case, ...] = (
    Case("submit_and_pass", stored("a"), (a_submit("b"), A_PASS), ends(a=C, b=C)),
    Case(
        "submit_beside_a_pass_that_ends",
        stored("a"),
        (A_PASS, a_submit_and_its_pass("b")),
        ends(a=C, b=C),
        pools=(pool(slots=2),),
        soon=("a", "b"),
    ),
    Case(
        "event_beside_a_pass_that_ends",
        begun(lambda world: world.submit("a"), lambda world: world.submit("b"), seconds=20),
        (("pass with news", a_pass_with_news), an_event("a", "Completed")),
        ends(a=C, b=C),
        work={"a": Work(runtime=20_000)},
        soon=("b",),
    ),
    Case(
        "submit_beside_a_pass_that_removes_its_line",
        left_empty_long_ago,
        (A_PASS, a_submit("new")),
        ends(old=X, new=C),
    ),
    Case(
        "the_same_submit_twice",
        lambda _: None,
        (a_submit("a"), a_submit("a")),
        ends(a=C),
    ),
    Case(
        "a_newer_token_beside_a_refused_heartbeat",
        its_execution_is_stopped,
        (A_TICK, a_submit_for_task("a", 2)),
        ends(a=frozenset({S.COMPLETED, S.CANCELLED})),
        answers=True,
        then=all_have_heard("a"),
    ),
    Case(
        "a_newer_token_beside_the_answer_to_the_old_one",
        it_has_ended,
        (A_TICK, a_submit_for_task("a", 2)),
        ends(a=C),
        work={"a": Work(runtime=20_000)},
        answers=True,
        then=all_have_heard("a"),
    ),
    Case(
        "two_newer_tokens",
        begun(submit_for_task(0, "a").act),
        (a_submit_for_task("a", 2), a_submit_for_task("a", 3)),
        ends(a=C),
        answers=True,
        then=one_has_heard("a"),
    ),
    Case(
        "two_ticks_answer_one_task",
        it_has_ended,
        (A_TICK, A_TICK),
        ends(a=C),
        work={"a": Work(runtime=20_000)},
        answers=True,
        then=all_have_heard("a"),
    ),
    Case("cancel_and_pass", stored("a"), (a_cancel("a"), A_PASS), ends(a=X), work={"a": LONG}),
    Case("cancel_twice", stored("a"), (a_cancel("a"), a_cancel("a")), ends(a=X)),
    Case(
        "two_passes",
        stored("a", "b"),
        (A_PASS, A_PASS),
        ends(a=C, b=C),
        leases=False,
    ),
    Case(
        "two_passes_decide_differently",
        stored("a"),
        (A_PASS, a_submit_and_its_pass("b", priority=5)),
        ends(a=C, b=C),
        leases=False,
    ),
    Case(
        "two_passes_under_the_lease",
        stored("a", "b"),
        (A_PASS, later(41, A_PASS)),
        ends(a=C, b=C),
    ),
    Case(
        "two_passes_evict",
        begun(stored("low"), seconds=20),
        (a_submit("high", priority=5), A_PASS),
        ends(low=C, high=C),
        work={"low": Work(runtime=100_000, stop=10_000)},
        leases=False,
    ),
    Case(
        "completed_and_cancelled",
        begun(stored("a"), seconds=10),
        (later(20, an_event("a", "Completed")), a_cancel("a")),
        ends(a={C, X}),
        work={"a": Work(runtime=25_000)},
    ),
    Case(
        "evicted_and_cancelled",
        begun(stored("low"), lambda w: w.submit("high", priority=5)),
        (later(15, an_event("low", "Stopped")), a_cancel("low")),
        ends(low=X, high=C),
        work={"low": LONG},
    ),
    Case(
        "cancel_the_victim_in_the_eviction",
        begun(stored("low"), seconds=20),
        (a_submit("high", priority=5), A_PASS, a_cancel("low")),
        ends(low=X, high=C),
        work={"low": LONG},
        bound=1,
        leases=False,
    ),
    Case(
        "the_same_event_twice",
        begun(stored("a", "b"), seconds=10),
        (later(20, an_event("a", "Completed")), an_event("a", "Completed")),
        ends(a=C, b=C),
        work={"a": Work(runtime=25_000)},
        leases=False,
    ),
    Case(
        "running_and_completed_out_of_order",
        begun(stored("a"), seconds=10),
        (later(20, an_event("a", "Completed")), an_event("a", "Training")),
        ends(a=C),
        work={"a": Work(runtime=25_000)},
    ),
    Case(
        "tick_and_submit_and_cancel",
        stored("a"),
        (A_TICK, a_submit("b", priority=5), a_cancel("a")),
        ends(a=X, b=C),
        work={"a": LONG},
        bound=1,
    ),
    Case(
        "three_passes",
        stored("a", "b", "c"),
        (A_PASS, A_PASS, A_PASS),
        ends(a=C, b=C, c=C),
        pools=(pool(slots=2),),
        bound=1,
        leases=False,
    ),
    Case(
        "capacity_error_beside_a_pass",
        stored("a", "b"),
        (A_PASS, A_PASS),
        ends(a=C, b=C),
        knobs={"refuse_creates": 1},
        leases=False,
    ),
    Case(
        "cancel_the_claimant_beside_its_start",
        begun(stored("low"), lambda w: w.submit("high", priority=5)),
        (later(15, an_event("low", "Stopped")), a_cancel("high")),
        ends(low=C, high=X),
        work={"low": Work(runtime=100_000, stop=20_000), "high": LONG},
    ),
    Case(
        "submit_after_a_job_that_ends",
        begun(stored("a"), seconds=10),
        (
            a_submit("b", after="a"),
            later(20, an_event("a", "Completed")),
            A_PASS_WITH_NEWS,
        ),
        ends(a=C, b=C),
        work={"a": Work(runtime=25_000)},
    ),
    Case(
        "submit_after_a_job_that_is_cancelled",
        begun(stored("a", "other"), seconds=10),
        (a_submit("b", after_any="other"), a_cancel("other"), A_PASS),
        ends(a=C, other=X, b=C),
        leases=False,
    ),
    Case(
        "cancel_beside_the_end_that_it_waits_for",
        begun(stored("a"), stored("b", after="a"), seconds=5),
        (
            later(20, an_event("a", "Completed")),
            ("pass with news", a_pass_with_news),
            a_cancel("b"),
        ),
        ends(a=C, b=X),
        work={"a": Work(runtime=25_000), "b": LONG},
    ),
    Case(
        "two_passes_hand_one_end_on",
        begun(
            stored("a"), lambda w: w.submit("b", after="a"), lambda w: w.submit("c", after="a,b")
        ),
        (later(20, an_event("a", "Completed")), A_PASS, A_PASS),
        ends(a=C, b=C, c=C),
        work={"a": Work(runtime=25_000)},
        bound=1,
        leases=False,
    ),
    Case(
        "submit_after_a_group_that_ends",
        begun(lambda w: w.submit_group("grid", "a", max_parallel=1), seconds=10),
        (
            a_submit("b", after="group:grid"),
            later(20, an_event("a", "Completed")),
            A_PASS_WITH_NEWS,
        ),
        ends(a=C, b=C),
        work={"a": Work(runtime=25_000)},
    ),
    Case(
        "two_ends_of_a_group_at_once",
        begun(
            lambda w: w.submit_group("grid", "a", "b", max_parallel=2),
            lambda w: w.submit("c", after="group:grid"),
        ),
        (later(20, an_event("a", "Completed")), later(20, an_event("b", "Completed"))),
        ends(a=C, b=C, c=C),
        pools=(pool(slots=2),),
        work={"a": Work(runtime=25_000), "b": Work(runtime=25_000)},
        bound=1,
        leases=False,
    ),
    Case(
        "the_same_batch_twice",
        begun(),
        (a_batch("a", "b", "c"), a_batch("a", "b", "c"), A_TICK),
        ends(a=C, b=C, c=C),
        pools=(pool(slots=2),),
        bound=1,
        leases=False,
        most_actions=8,
    ),
    Case(
        "two_batches_with_a_common_name",
        begun(),
        (a_batch("a", "b"), a_batch("c", "b!", "d after c")),
        ends(a=C, b=C, c=C, d=C),
        pools=(pool(slots=3),),
        leases=False,
    ),
    Case(
        "a_batch_beside_a_pass_that_ends",
        stored("x"),
        (A_PASS, a_batch_and_its_pass("a", "b")),
        ends(x=C, a=C, b=C),
        pools=(pool(slots=3),),
        soon=("x", "a", "b"),
    ),
    Case(
        "the_same_group_twice",
        begun(),
        (a_group("grid", "a", "b"), a_group("grid", "a", "b"), A_TICK),
        ends(a=C, b=C),
        bound=1,
        leases=False,
    ),
    Case(
        "two_groups_of_one_name",
        begun(),
        (a_group("grid", "a", "b", "c"), a_group("grid", "d"), A_TICK),
        {},
        bound=1,
        leases=False,
        most_actions=8,
    ),
    Case(
        "a_group_is_finished_while_it_is_withdrawn",
        begun_in_part("grid", "a", "b"),
        (later(2, A_TICK), a_group("grid", "a", "b")),
        {name: frozenset({S.COMPLETED, S.CANCELLED}) for name in "a"},
        leases=False,
    ),
    Case(
        "two_passes_start_members_in_two_pools",
        begun(
            lambda w: w.submit("x", instance_type=TYPES["p"]),
            lambda w: w.submit("y", instance_type=TYPES["q"]),
            lambda w: w.submit_group("grid", "a", "b@q", max_parallel=1),
        ),
        (later(20, an_event("x", "Completed")), later(20, an_event("y", "Completed"))),
        ends(x=C, y=C, a=C, b=C),
        pools=(pool("p"), pool("q")),
        work={"x": Work(runtime=25_000), "y": Work(runtime=25_000)},
        leases=False,
    ),
    *(
        Case(
            f"a_goal_is_met_beside_{name}",
            begun(
                lambda w: w.submit_group(
                    "grid", "a", "b@q", "c", "d@q", max_parallel=2, sweep=GOOD_ENOUGH
                ),
                seconds=10,
            ),
            (later(20, an_event("a", "Completed")), beside),
            ends(a=C, b=X, c=X, d=X),
            pools=(pool(slots=2), pool("q", slots=2)),
            work={"a": DONE_WELL, **dict.fromkeys("bcd", LONG)},
            leases=False,
        )
        for name, beside in (
            ("a_pass", A_PASS),
            ("the_same_event", an_event("a", "Completed")),
            ("a_cancel", a_cancel("b")),
        )
    ),
    Case(
        "two_passes_start_a_gang_in_parts",
        begun(
            lambda w: w.submit("x"),
            lambda w: w.submit_group("gang", "a", "b", "c@q", "d"),
        ),
        (later(20, an_event("x", "Completed")), A_PASS),
        ends(x=C, a=C, b=C, c=C, d=C),
        pools=(pool("p", 3), pool("q")),
        work={"x": Work(runtime=25_000)},
        leases=False,
        most_actions=16,
    ),
    Case(
        "a_cancel_while_a_gang_starts_in_parts",
        begun(
            lambda w: w.submit("x"),
            lambda w: w.submit_group("gang", "a", "b", "c@q", "d", min_members=2),
        ),
        (later(20, an_event("x", "Completed")), A_PASS, a_cancel("c")),
        {**ends(x=C), **{name: frozenset({S.COMPLETED}) for name in "abd"}, "c": ENDED},
        pools=(pool("p", 3), pool("q")),
        work={"x": Work(runtime=25_000)},
        leases=False,
        bound=1,
        most_actions=16,
    ),
    Case(
        "a_mandatory_member_is_cancelled_while_its_gang_starts_in_parts",
        begun(
            lambda w: w.submit("x"),
            lambda w: w.submit_group("gang", "a", "b@q", "c", mandatory=("a", "b", "c")),
        ),
        (later(20, an_event("x", "Completed")), a_cancel("c"), A_PASS),
        {**ends(x=C), **dict.fromkeys("abc", ENDED)},
        pools=(pool("p", 2), pool("q")),
        work={"x": Work(runtime=25_000)},
        leases=False,
        bound=1,
        most_actions=12,
    ),
    Case(
        "a_member_runs_while_its_gang_is_evicted_in_parts",
        begun(lambda w: w.submit_group("gang", "a", "b@q", "c")),
        (a_submit("high", priority=5), A_PASS, later(30, an_event("c", "Training"))),
        ends(a=C, b=C, c=C, high=C),
        pools=(pool("p", 2), pool("q")),
        work={name: Work(runtime=100_000, stop=10_000) for name in "abc"},
        knobs={"start_seconds": 30},
        leases=False,
        bound=1,
        most_actions=9,
    ),
    Case(
        "a_member_joins_while_its_elastic_gang_shrinks",
        begun(
            lambda w: w.submit("x"),
            lambda w: w.submit_group(
                "gang", "a", "b", "c", min_members=1, same_pool=True, elastic=True
            ),
            seconds=10,
        ),
        (later(30, an_event("x", "Completed")), a_submit("high", priority=5), A_PASS),
        {**ends(x=C, a=C, high=C), "b": ENDED, "c": ENDED},
        pools=(pool("p", 3),),
        work={"x": Work(runtime=35_000)},
        leases=False,
        bound=1,
    ),
    Case(
        "a_member_joins_while_its_gang_is_evicted",
        begun(
            lambda w: w.submit("x", instance_type=TYPES["q"]),
            lambda w: w.submit_group("gang", "a", "b@q", min_members=1),
            lambda w: w.submit("y", instance_type=TYPES["r"]),
            seconds=10,
        ),
        (later(30, an_event("x", "Completed")), a_submit("high", priority=5), A_PASS),
        {**ends(x=C, y=C, high=C), "a": frozenset({S.COMPLETED}), "b": ENDED},
        pools=(pool("p"), pool("q"), pool("r")),
        work={"x": Work(runtime=35_000)},
        leases=False,
        bound=1,
    ),
    Case(
        "two_passes_evict_a_gang_in_parts",
        begun(lambda w: w.submit_group("gang", "a", "b@q", "c", "d"), seconds=10),
        (a_submit("high", priority=5), A_PASS, A_PASS),
        ends(a=C, b=C, c=C, d=C, high=C),
        pools=(pool("p", 3), pool("q")),
        work={name: Work(runtime=100_000, stop=10_000) for name in "abcd"},
        leases=False,
        bound=1,
        most_actions=10,
    ),
    Case(
        "requeued_and_completed",
        begun(stored("a"), seconds=10),
        (later(20, an_event("a", "Completed")), a_requeue("a")),
        ends(a=C),
        work={"a": Work(runtime=25_000)},
    ),
    Case(
        "requeued_and_cancelled",
        begun(stored("a"), seconds=10),
        (a_requeue("a"), a_cancel("a")),
        ends(a=X),
        work={"a": LONG},
    ),
    Case(
        "requeued_twice_beside_an_eviction",
        begun(stored("low"), seconds=20),
        (a_submit("high", priority=5), A_PASS, a_requeue("low"), a_requeue("low")),
        ends(low=C, high=C),
        work={"low": Work(runtime=100_000, stop=10_000)},
        bound=1,
        leases=False,
    ),
    Case(
        "two_passes_raise_while_a_job_returns",
        begun(stored("low"), after_a_while, lambda w: w.submit("high", priority=5)),
        (later(15, an_event("low", "Stopped")), A_RAISE, A_RAISE),
        ends(low=C, high=C),
        work={"low": Work(runtime=900_000, stop=20_000)},
    ),
    Case(
        "a_return_dies_beside_two_raises",
        begun(stored("low"), after_a_while, lambda w: w.submit("high", priority=5)),
        (a_return_that_dies("low"), A_RAISE, later(15, an_event("low", "Stopped")), A_RAISE),
        ends(low=C, high=C),
        work={"low": Work(runtime=900_000, stop=20_000)},
        bound=1,
    ),
    Case(
        "cancel_of_the_head_beside_two_raises",
        begun(stored("busy"), stored("head"), after_a_while, stored("next")),
        (a_cancel("head"), A_RAISE, A_RAISE),
        ends(busy=C, head=X, next=C),
        work={"busy": Work(runtime=900_000)},
    ),
    Case(
        "released_as_its_grace_ends",
        GRACEFUL,
        (later(12, A_WAKE), an_event("low", "Failed"), A_WAKE),
        ends(low=C, high=C),
        pools=(pool(suspend_grace=20_000),),
        work={"low": Work(runtime=100_000, stop=10_000, release=19_000)},
        leases=False,
    ),
    Case(
        "stopped_as_its_grace_ends",
        GRACEFUL,
        (later(12, A_WAKE), A_WAKE, a_cancel("low")),
        ends(low=X, high=C),
        pools=(pool(suspend_grace=20_000),),
        work={"low": LONG},
        leases=False,
    ),
    Case(
        "released_and_cancelled",
        GRACEFUL,
        (later(12, an_event("low", "Failed")), a_cancel("low")),
        ends(low=X, high=C),
        pools=(pool(suspend_grace=120_000),),
        work={"low": Work(runtime=9_000_000, stop=10_000, release=19_000)},
    ),
    Case(
        "released_and_given_up",
        begun(lambda w: w.submit("low", checkpoints="s3://bucket/low"), seconds=10),
        (later(20, an_event("low", "Failed")), a_requeue("low")),
        ends(low=C),
        work={"low": Work(runtime=40_000, fails_after=30_000, failure=RELEASE)},
    ),
    Case(
        "asked_by_two_passes",
        begun(lambda w: w.submit("low", checkpoints="s3://bucket/low"), seconds=20),
        (a_submit("high", priority=5), A_PASS, A_PASS),
        ends(low=C, high=C),
        pools=(pool(suspend_grace=20_000),),
        work={"low": Work(runtime=100_000, stop=10_000, release=5_000)},
        bound=1,
        leases=False,
    ),
    Case(
        "pools_go_in_parts_beside_a_pass",
        stored("a", "b", pools="q,r"),
        (A_CHANGE_IN_PARTS, A_PASS, A_PASS),
        ends(a={C, S.PENDING}, b={C, S.PENDING}),
        pools=FOUR_POOLS,
        bound=1,
        leases=False,
    ),
    Case(
        "two_changes_in_parts",
        stored("a", pools="q,r"),
        (A_CHANGE_IN_PARTS, ANOTHER_CHANGE_IN_PARTS, A_PASS),
        ends(a={C, S.PENDING}),
        pools=FOUR_POOLS,
        bound=1,
        leases=False,
    ),
    Case(
        "a_change_in_parts_is_taken_back_while_its_handler_sleeps",
        stored("a", pools="q,r"),
        (A_CHANGE_IN_PARTS, later(25, A_TICK)),
        ends(a={C, S.PENDING}),
        pools=FOUR_POOLS,
        leases=False,
    ),
    Case(
        "an_event_beside_a_tick_that_finds_the_end",
        unseen_ends("a", "b"),
        (A_TICK, an_event("a", "Completed")),
        ends(a=C, b=C, w1=C, w2=C),
        pools=(pool(slots=2),),
        bound=1,
        soon=("w1", "w2"),
    ),
    Case(
        "a_doctor_beside_a_tick_that_finds_the_same_ends",
        unseen_ends("a", "b"),
        (A_TICK, ("doctor", lambda world: world.doctor())),
        ends(a=C, b=C, w1=C, w2=C),
        pools=(pool(slots=2),),
        bound=1,
        leases=False,
    ),
    Case(
        "a_cancel_beside_a_pass_that_starts_three",
        stored("a", "b", "c"),
        (A_PASS, a_cancel("b")),
        ends(a=C, b=X, c=C),
        pools=(pool(slots=3),),
        work={"b": LONG},
        soon=("a", "c"),
    ),
    Case(
        "a_cancel_beside_starts_that_are_taken_back",
        stored("a", "b", "c", "d"),
        (A_PASS, a_cancel("d")),
        ends(a=C, b=C, c=C, d=X),
        pools=(pool(slots=4),),
        work={"d": LONG},
        knobs={"limits": {TYPES["p"]: 1}},
    ),
    Case(
        "two_passes_start_three",
        stored("a", "b", "c"),
        (A_PASS, A_PASS),
        ends(a=C, b=C, c=C),
        pools=(pool(slots=2),),
        leases=False,
        bound=1,
    ),
    Case(
        "two_passes_start_a_node_for_a_job_that_is_cancelled",
        lambda world: world.submit_for_node("a"),
        (A_PASS, A_PASS, a_cancel("a")),
        ends(a=X),
        pools=(pool(slots=2, nodes=NODES),),
        work={"node:p/node-1": Work(stop=5_000)},
        bound=1,
        leases=False,
    ),
    Case(
        "a_start_on_a_node_beside_a_cancel_and_a_report",
        one_runs_on_a_node,
        (A_PASS, a_cancel("a"), A_TICK),
        ends(a=X, b=C),
        pools=(pool(nodes=NODES),),
        work={"node:p/node-1": Work(stop=5_000), "a": LONG},
        bound=1,
        agents=AgentRules(),
    ),
    Case(
        "a_move_to_another_node_beside_a_cancel_and_a_report",
        parts_on_two_nodes,
        (A_PASS, a_cancel("b"), A_TICK),
        ends(a=C, b=X, large=C),
        pools=(pool(slots=2, nodes=NODES, consolidate=True),),
        work={
            **{f"node:p/node-{n}": Work(stop=5_000) for n in (1, 2)},
            **{name: Work(runtime=500_000, stop=2_000) for name in "ab"},
        },
        bound=1,
        agents=AgentRules(),
    ),
    Case(
        "a_tick_reads_a_plan_beside_two_passes",
        a_plan_that_has_broken,
        (A_TICK, a_submit_and_its_pass("b"), A_PASS),
        ends(a=C, b=C),
        pools=(planned(slots=2),),
        work={name: Work(runtime=100_000) for name in "ab"},
        bound=1,
        leases=False,
    ),
    Case(
        "two_ticks_find_a_plan_gone_beside_a_start",
        a_plan_that_is_gone,
        (A_TICK, A_TICK, a_submit_and_its_pass("b", pools="p,q")),
        ends(a=C, b=C),
        pools=(planned(slots=2), pool("q")),
        work={name: Work(runtime=100_000) for name in "ab"},
        bound=1,
        leases=False,
    ),
    Case(
        "two_passes_release_for_a_start_beside_a_like_one",
        one_is_kept_warm,
        (
            a_submit("like"),
            a_submit_and_its_pass("b", role=ANOTHER_ROLE, priority=5),
            A_PASS,
        ),
        ends(a=C, b=C, like=C),
        **AN_INSTANCE_IS_RELEASED,
    ),
    Case(
        "two_ticks_find_a_release_over",
        one_is_released,
        (A_TICK, A_TICK),
        ends(a=C, b=C),
        **AN_INSTANCE_IS_RELEASED,
    ),
    Case(
        "two_pools_two_passes",
        stored("a", "b", pools="p,q"),
        (A_PASS, A_PASS, a_cancel("b")),
        ends(a=C, b=X),
        pools=(pool("p"), pool("q")),
        work={"b": LONG},
        bound=1,
        leases=False,
    ),
)

WITH_A_HOSTILE_JOB = (
    "cancel_and_pass",
    "submit_and_pass",
    "two_passes_decide_differently",
    "two_passes_evict",
)
"""Cases that also run beside a hostile job: short ones, in which passes run."""

CASES = ALONE + tuple(
    beside_a_hostile_job(case) for case in ALONE if case.name in WITH_A_HOSTILE_JOB
)

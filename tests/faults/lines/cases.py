"""The cases of the model: what is in the table, which handlers run at once, how time goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.lines import GRACE, LINE_KEPT, line_in
from slotq_core.adapters.dynamodb.layout.validation import Sieve, copy_of
from slotq_core.adapters.dynamodb.line_bounds import LineBounds
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.policy.cycle import plan
from slotq_core.policy.lines import Line, line_of
from slotq_core.policy.plan import Need
from slotq_core.ports.stored import Change
from tests.contract.worlds import (
    NOW,
    REQUEST,
    a_job,
    a_pool,
    a_queue,
    cancelling,
    claiming,
    commit,
    evicted,
    evicting,
    running,
    starting,
    waits,
)
from tests.faults.lines.model import Body, Case, Clock, Handler, Wrong

MINUTE = 60_000
HOUR = 60 * MINUTE
ALMOST_A_LIFE = HANDLER_LIFETIME - 5_000
"""Handlers that have just begun survive this (ms)."""
SKEW = 2 * MINUTE - 1_000
"""Two clocks may differ by twice this (ms): with a handler's life, by less than GRACE."""
MAX_JOBS = 100

Make = Callable[[int], DynamoStore]


# --- what handlers do


def submit(name: str, **fields: Any) -> Body:
    def body(store: DynamoStore, now: Clock) -> None:
        at = now()
        store.jobs.submit(a_job(name, entry_time=at, changed_at=at, **fields), REQUEST)

    return body


def submit_again(name: str, **fields: Any) -> Body:
    """By a process that has touched the line nine minutes ago."""

    def body(store: DynamoStore, now: Clock) -> None:
        store.jobs._touched.note(a_job("gone", entry_time=NOW - 9 * MINUTE, **fields))
        submit(name, **fields)(store, now)

    return body


def change(name: str, of: Callable[[Job], Change]) -> Body:
    """Read the job, and commit a change."""

    def body(store: DynamoStore, _: Clock) -> None:
        job = store.jobs.get(name)
        if job is not None and not job.terminal:
            store.decisions.commit([of(job)])

    return body


def back(name: str) -> Body:
    """The end of an evicted attempt: the job returns to its place."""

    def body(store: DynamoStore, _: Clock) -> None:
        job = store.jobs.get(name)
        if job is not None and job.active:
            store.decisions.commit([evicted(job)])

    return body


def away_and_back(name: str) -> Body:
    """A job starts, fails to start, and returns."""

    def body(store: DynamoStore, _: Clock) -> None:
        job = store.jobs.get(name)
        if job is not None and job.waits:
            store.decisions.commit([evicted(commit(store, starting(job)))])

    return body


def repair(name: str) -> Body:
    """The repair of a job's copies, by a pass that met something odd or by `slotq doctor`."""

    def body(store: DynamoStore, _: Clock) -> None:
        store.jobs._quarantine.copies.check(name, (), mend=True)

    return body


def without_claim(job: Job) -> Change:
    return Change(before=job, after=replace(job, claim=None))


def with_priority(priority: int) -> Callable[[Job], Change]:
    return lambda job: Change(before=job, after=replace(job, priority=priority))


def a_pass(store: DynamoStore, now: Clock) -> None:
    """The load, plan and bounds of a pass that commits nothing. It removes empty lines, and moves
    the jobs of other versions' lines."""
    began = now()
    world = store.worlds.load(began)
    plan(world.snapshot, began, more=world.more)
    world.keep_bounds()


def an_audit(store: DynamoStore, now: Clock) -> None:
    for found in store.repair.audit(now=now()):
        if found.kind != "unreadable":
            raise Wrong(f"the audit finds what is not so: {found.subject} {found.text}")


def loads(**fields: Any) -> Body:
    """Load twice. Each time before and after the second load, the line of such jobs is read: who
    waits there both times waits in the load, too, and who has left before does not."""
    partition = expressions.partition(table.waiting_partition(line_of(a_job("any", **fields))))

    def body(store: DynamoStore, now: Clock) -> None:
        def there() -> set[Job]:
            return set(Sieve().read(store._calls.query(partition), copy_of))

        first, before = _waiting(store, now), there()
        second, after = _waiting(store, now), there()
        if missed := (before & after) - second:
            raise Wrong(f"a load overlooks {sorted(job.name for job in missed)}")
        if gone := (first & second) - before:
            raise Wrong(f"a load sees {sorted(job.name for job in gone)}, gone before it began")

    return body


def _waiting(store: DynamoStore, now: Clock) -> set[Job]:
    """All that a load gives, with what is behind."""
    world = store.worlds.load(now())
    jobs = {job.name: job for job in world.snapshot.waiting}
    for name in world.snapshot.behind:
        more = world.more(Need(after=jobs[name], count=MAX_JOBS))
        jobs |= {job.name: job for job in more.jobs}
    return set(jobs.values())


PASSES = Handler("pass", a_pass), Handler("other pass", a_pass)


# --- an earlier version


@contextmanager
def before_bounds() -> Iterator[None]:
    """The version before bounds: it touches lines of another name, and only touches."""
    key, parse = Line.key, Line.parse

    def old_key(line: Line) -> str:
        return json.dumps(json.loads(key.fget(line))[1:], separators=(",", ":"))  # type: ignore[attr-defined]

    def old_parse(text: str) -> Line:
        form = json.loads(key.fget(Line.of(a_job("any"))))[0]  # type: ignore[attr-defined]
        return parse(json.dumps([form, *json.loads(text)]))

    with (
        patch.object(Line, "key", property(old_key)),
        patch.object(Line, "parse", staticmethod(old_parse)),
        patch.object(LineBounds, "returned", only_touched),
    ):
        yield


def only_touched(bounds: LineBounds, lines: Any, *, now: int | None = None) -> None:
    at = bounds._clock() if now is None else now
    for line in sorted(set(lines)):
        bounds._calls.update(
            table.line_key(line), expressions.touch_line(at, known=False, arriving=0)
        )


def an_old_pass(store: DynamoStore, now: Clock) -> None:
    """It moves the jobs of lines that are not its own, as any version does."""
    began = now()
    items = [*store._calls.query(expressions.partition(table.LINES))]
    for line in (line_in(item, began) for item in items):
        if not line.own:
            store.worlds._others.move_to_own_lines(line.name, Sieve(), now=began)
        elif not [*store._calls.query(expressions.partition(table.waiting_partition(line.name)))]:
            store.decisions._bounds.remove(line, now=began)


# --- what is in the table


def queue(make: Make) -> None:
    a_queue(make(NOW - 3 * HOUR), a_pool("p5", MAX_JOBS))


def enter(make: Make, name: str, ago: int, **fields: Any) -> Job:
    """Submit a job that long ago (ms)."""
    at = NOW - ago
    return waits(make(at), name, entry_time=at, changed_at=at, **fields)


def bounded(make: Make, ago: int = 2 * GRACE) -> None:
    """That long ago (ms), and long after the last return, a pass has raised the bounds."""
    a_pass(make(NOW - ago), lambda: NOW - ago)


def empty(make: Make) -> None:
    """A line of one job, which was cancelled two hours ago; its bound is low."""
    queue(make)
    commit(make(NOW - 2 * HOUR), cancelling(enter(make, "gone", 2 * HOUR)))
    bounded(make, 90 * MINUTE)


def lately_touched(make: Make) -> None:
    """An empty line, touched nine minutes ago."""
    queue(make)
    commit(make(NOW - 9 * MINUTE), cancelling(enter(make, "gone", 9 * MINUTE)))


def one_runs(make: Make, *, head: bool = True) -> None:
    """The oldest job is being evicted, another waits, and the bound has passed the oldest."""
    queue(make)
    store = make(NOW - 2 * HOUR)
    started = commit(store, starting(enter(make, "old", 2 * HOUR)))
    commit(store, evicting(commit(store, running(started)), "x"))
    if head:
        enter(make, "head", HOUR // 2)
    bounded(make)


def one_runs_alone(make: Make) -> None:
    one_runs(make, head=False)


def unseen(before: Callable[[Make], None]) -> Callable[[Make], None]:
    """The same, where no pass has raised a bound yet."""

    def without_bounds(make: Make) -> None:
        with patch(f"{__name__}.bounded", lambda *_: None):
            before(make)

    return without_bounds


def two_wait(make: Make) -> None:
    """Two jobs wait, an hour apart."""
    queue(make)
    enter(make, "old", 2 * HOUR)
    enter(make, "head", HOUR)
    bounded(make)


def one_waits_long(make: Make) -> None:
    """Since longer than an empty line is kept, and no pass has seen it."""
    queue(make)
    enter(make, "old", 2 * HOUR)


def one_claims(make: Make) -> None:
    """The older of two jobs has a claim."""
    two_wait(make)
    store = make(NOW - HOUR)
    job = store.jobs.get("old")
    assert job is not None
    commit(store, claiming(job))


def another_line(make: Make) -> None:
    """One waits, and another line is empty since long."""
    two_wait(make)
    commit(make(NOW - 2 * HOUR), cancelling(enter(make, "high", 2 * HOUR, priority=5)))


def one_is_lost(make: Make) -> None:
    """The first job's copy in its line is lost, and the bound has passed it."""
    two_wait(make)
    store = make(NOW - HOUR)
    job = store.jobs.get("old")
    assert job is not None
    store._calls.delete(table.waiting_key(job))
    bounded(make)


def of_before(make: Make) -> None:
    """The table of the version before bounds."""
    with before_bounds():
        unseen(one_runs)(make)


def of_before_a_pass(make: Make) -> None:
    """The same, where a pass of this version has moved what waited."""
    of_before(make)
    bounded(make)


def broken(make: Make) -> None:
    """Somebody has written what is no bound and no time."""
    one_runs(make)
    store = make(NOW)
    for item in [*store._calls.query(expressions.partition(table.LINES))]:
        wrong = {"bound": {"N": "7"}, "returned": {"S": "long ago"}}
        store._calls.put(table.line_key(item["sk"]["S"]), {**item, **wrong})


WHOLE: dict[str, Any] = {"parts": (("p5", Demand(slots=1)),)}
"""Of jobs whose lines a load reads as a whole."""
COUNTED = {**WHOLE, "project": "vision"}


def whole_line(make: Make) -> None:
    queue(make)
    enter(make, "old", 2 * HOUR, **WHOLE)


def whole_line_lately_touched(make: Make) -> None:
    whole_line(make)
    commit(make(NOW - 9 * MINUTE), cancelling(enter(make, "gone", 9 * MINUTE, **WHOLE)))


def counted_line(make: Make) -> None:
    queue(make)
    enter(make, "old", 2 * HOUR, **COUNTED)
    enter(make, "head", 6 * MINUTE, **COUNTED)


def one_has_just_come(make: Make) -> None:
    queue(make)
    enter(make, "head", MINUTE)


def case(name: str, before: Callable[[Make], None], *handlers: Handler, **more: Any) -> Case:
    time = more.pop("time", (ALMOST_A_LIFE, GRACE + MINUTE))
    return Case(name, before, handlers, time=time, begin=NOW, **more)


def late(handler: Handler) -> Handler:
    return replace(handler, skew=-SKEW)


def early(handler: Handler) -> Handler:
    return replace(handler, skew=SKEW)


def old(handler: Handler) -> Handler:
    version: Callable[[], AbstractContextManager[object]] = before_bounds
    return replace(handler, name=f"old {handler.name}", version=version)


SUBMIT, ANOTHER = Handler("submit a", submit("a")), Handler("submit b", submit("b"))
RETURN = Handler("return old", back("old"))
CANCEL = Handler("cancel head", change("head", cancelling))
CANCEL_OLD = Handler("cancel old", change("old", cancelling))
REPAIR = Handler("repair old", repair("old"))
AUDIT = Handler("audit", an_audit)
LOADS, LOADS_WHOLE = (Handler("two loads", loads(**fields)) for fields in ({}, WHOLE))

CASES: tuple[Case, ...] = (
    case("submissions_beside_a_pass", empty, SUBMIT, ANOTHER, PASSES[0]),
    case("submissions_beside_two_passes", empty, SUBMIT, ANOTHER, *PASSES),
    case("submission_behind_a_cancelled_head", two_wait, SUBMIT, CANCEL_OLD, *PASSES),
    case("cancel_beside_two_passes", unseen(two_wait), CANCEL_OLD, *PASSES),
    case("return_beside_two_passes", one_runs, RETURN, *PASSES, time=(ALMOST_A_LIFE, GRACE, HOUR)),
    case("return_into_a_line_without_a_bound", unseen(one_runs), RETURN, *PASSES),
    case("return_and_cancel_of_the_head", one_runs, RETURN, CANCEL, *PASSES),
    case("return_and_submission", one_runs_alone, RETURN, SUBMIT, *PASSES),
    case(
        "away_and_back",
        two_wait,
        Handler("start and return old", away_and_back("old")),
        *PASSES,
        time=(ALMOST_A_LIFE, GRACE + MINUTE, GRACE + MINUTE),
    ),
    case(
        "a_claim_is_given_up",
        one_claims,
        Handler("give the claim up", change("old", without_claim)),
        CANCEL_OLD,
        CANCEL,
        *PASSES,
    ),
    case(
        "amended_into_another_line",
        another_line,
        Handler("amend old", change("old", with_priority(5))),
        Handler("amend head", change("head", with_priority(5))),
        PASSES[0],
        time=(ALMOST_A_LIFE, HOUR),
    ),
    case(
        "removal_of_the_line",
        empty,
        SUBMIT,
        *PASSES,
        Handler("third pass", a_pass),
        time=(ALMOST_A_LIFE, LINE_KEPT + MINUTE),
    ),
    case("removal_beside_a_raise", one_waits_long, CANCEL_OLD, *PASSES),
    case("return_into_a_removed_line", one_runs_alone, RETURN, *PASSES, time=(HOUR, HOUR)),
    case("clocks_differ", one_runs_alone, late(RETURN), *(map(early, PASSES))),
    case(
        "clocks_differ_the_other_way",
        one_runs_alone,
        early(RETURN),
        *(map(late, PASSES)),
        time=(ALMOST_A_LIFE, 3 * GRACE),
    ),
    case("a_late_clock_submits", empty, late(SUBMIT), early(ANOTHER), *(map(early, PASSES))),
    case(
        "a_remembered_touch",
        lately_touched,
        Handler("submit a", submit_again("a")),
        *PASSES,
        time=(ALMOST_A_LIFE, LINE_KEPT + MINUTE),
    ),
    case("loads_beside_a_return", unseen(one_runs), RETURN, LOADS, raises=False),
    case("loads_beside_a_cancel", whole_line, CANCEL_OLD, LOADS_WHOLE, raises=False),
    case(
        "loads_beside_a_submission",
        whole_line,
        Handler("submit a", submit("a", **WHOLE)),
        LOADS_WHOLE,
        raises=False,
    ),
    case(
        "loads_beside_a_remembered_touch",
        whole_line_lately_touched,
        Handler("submit a", submit_again("a", **WHOLE)),
        LOADS_WHOLE,
        raises=False,
    ),
    case(
        "loads_of_a_counted_line",
        counted_line,
        Handler("submit a", submit("a", **COUNTED)),
        Handler("two loads", loads(**COUNTED)),
        raises=False,
    ),
    case("loads_beside_a_late_clock", one_has_just_come, late(SUBMIT), early(LOADS), raises=False),
    case("an_audit", one_runs, AUDIT, RETURN, CANCEL, PASSES[0]),
    case("two_audits", two_wait, AUDIT, AUDIT, Handler("away", away_and_back("old")), PASSES[0]),
    case("a_repair", one_is_lost, REPAIR, CANCEL, *PASSES),
    case("broken_values", broken, AUDIT, RETURN, SUBMIT, PASSES[0]),
    case("upgrade", of_before, old(RETURN), *PASSES),
    case("upgrade_after_a_pass", of_before_a_pass, old(RETURN), *PASSES),
    case("upgrade_beside_a_submission", of_before, old(RETURN), old(SUBMIT), *PASSES),
    case(
        "upgrade_beside_an_old_pass",
        of_before,
        old(RETURN),
        PASSES[0],
        old(Handler("pass", an_old_pass)),
        time=(ALMOST_A_LIFE, GRACE + MINUTE, GRACE + MINUTE),
    ),
    case(
        "rollback",
        one_runs,
        RETURN,
        old(SUBMIT),
        old(Handler("pass", an_old_pass)),
        PASSES[0],
        time=(GRACE + MINUTE, GRACE + MINUTE),
    ),
)

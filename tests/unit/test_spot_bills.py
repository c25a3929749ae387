"""What SageMaker bills for spot instances, kept with the attempt, and what counts as use where it
was interrupted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq.cost.instance_prices import InstancePrices
from slotq.cost.used import Used, usage_lines
from slotq.output.job_tables import attempts_table
from slotq_core.adapters.sagemaker.observations import observation_of
from slotq_core.adapters.sagemaker.service import SageMakerTraining
from slotq_core.errors import Unavailable
from slotq_core.model.jobs import JobState
from slotq_core.model.projects import Beyond, Budget, Project
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.reconcile import RECONCILE_EVERY
from slotq_core.policy.state.candidates import protection, unsaved
from slotq_core.policy.state.quotas.budgets import budgets_of
from slotq_core.ports.training import Observation
from slotq_core.usage.amounts import Amounts, Totals, UsageGroup
from slotq_core.usage.attempt_use import use_of
from slotq_core.wire.views.jobs import attempt_view
from tests.queue_world import INSTANCE_TYPE, START, QueueWorld, pool
from tests.unit.policy.test_interruptions import ATTEMPT, JOB, POOL, stopped_for_a_while
from tests.unit.test_spot_pools import HOUR, play, spot, submit

PRICES = InstancePrices(usd_per_hour={INSTANCE_TYPE: 36.0})


def ended(*, price: float = 0.25, runtime: int = 100_000) -> QueueWorld:
    """A job on spot that is interrupted for 200 s after 40 s, and has ended."""
    world = QueueWorld(spot("s", 1, spot_wait=HOUR), pool("p"), runtime=runtime)
    world.plane.knobs.turn(
        {"spot_price": price, "interrupt_spot": 1, "interrupt_after": 40, "spot_seconds": 200}
    )
    submit(world, pools="s")
    world.deliver()
    play(world, 200, 40, 200, 60)
    assert world.states() == {"job": "completed"}
    return world


def totals(world: QueueWorld, *by: str) -> Totals:
    return world.manager.usage.page(end=world.clock.now(), by=by).totals


def test_an_attempt_keeps_what_sagemaker_bills():
    world = ended()
    (attempt,) = world.manager.jobs.status("job").attempts
    assert (attempt.trained, attempt.billed) == (100_000, 25_000)
    view = attempt_view(attempt)
    assert (view.capacity_kind, view.trained, view.billed) == ("spot", 100, 25)


def test_an_event_does_not_say_it_so_sagemaker_is_asked_once(monkeypatch):
    world = QueueWorld(spot("s", 1), pool("p"), runtime=100_000)
    asked: list[str] = []
    describe = SageMakerTraining.describe

    def noted(service: SageMakerTraining, name: str) -> Observation | None:
        asked.append(name)
        return describe(service, name)

    monkeypatch.setattr(SageMakerTraining, "describe", noted)
    submit(world, pools="s")
    submit(world, "other", pools="p")
    world.deliver()
    play(world, 100, 0)
    assert world.states() == {"job": "completed", "other": "completed"}
    assert asked == ["job"]


def test_an_end_is_taken_in_where_sagemaker_does_not_answer(monkeypatch):
    world = QueueWorld(spot("s", 1), runtime=100_000)

    def silent(*_: object) -> None:
        raise Unavailable("no answer")

    submit(world, pools="s")
    world.deliver()
    monkeypatch.setattr(SageMakerTraining, "describe", silent)
    play(world, 100, 0)
    assert world.states() == {"job": "completed"}
    (attempt,) = world.manager.jobs.status("job").attempts
    assert (attempt.trained, attempt.billed) == (100_000, None), "the event has one of both"
    (amounts,) = totals(world).values()
    assert (amounts.instance_ms, amounts.saved_ms, amounts.unbilled_ms) == (100_000, 0, 100_000)


def test_news_without_or_with_impossible_times_have_none():
    world = ended()
    described = world.plane.job("job").description()
    seen = observation_of(described, at=0)
    assert (seen.trained, seen.billed) == (100_000, 25_000)
    for wrong in (None, "soon", -1, 10**12):
        seen = observation_of({**described, "BillableTimeInSeconds": wrong}, at=0)
        assert (seen.trained, seen.billed) == (100_000, None)


def test_use_has_no_interruption_and_says_what_was_saved():
    found = totals(ended(), "kind")
    (group, amounts) = next(iter(found.items()))
    assert (len(found), group.kind, group.instance_type) == (1, "spot", INSTANCE_TYPE)
    assert amounts.slot_ms == 300_000, "200 s until the instances came, and 100 s of work"
    assert (amounts.instance_ms, amounts.saved_ms, amounts.unbilled_ms) == (100_000, 75_000, 0)


def test_use_of_an_attempt_that_is_interrupted_stands_still():
    world = QueueWorld(spot("s", 1, spot_wait=HOUR), runtime=100_000)
    world.plane.knobs.turn({"interrupt_spot": 1, "interrupt_after": 40})
    submit(world, pools="s")
    world.deliver()
    world.plane.knobs.turn({"stick_spot": 1})
    for wait in (40, 100, 500):
        play(world, wait)
        (amounts,) = totals(world).values()
        assert (amounts.slot_ms, amounts.instance_ms, amounts.unbilled_ms) == (40_000,) * 3


def test_a_budget_pays_for_no_interruption():
    project = Project(name="a", budget=Budget(slot_ms=100_000, beyond=Beyond.HARD))

    def spent(job, now):
        world = Snapshot(pools=(POOL,), projects=(project,), active=(replace(job, project="a"),))
        status = budgets_of(world, now)["a"]
        return status.spent, status.held

    waits = replace(JOB, attempt=replace(ATTEMPT, running_since=None, interrupted_since=41_000))
    assert spent(JOB, 50_000) == (50_000, 1)
    assert spent(waits, 90_000) == (41_000, 0)
    assert spent(stopped_for_a_while(), 151_000) == (51_000, 1)


def test_only_work_since_the_return_can_be_lost_by_an_eviction():
    job = stopped_for_a_while()
    assert job.attempt is not None
    assert unsaved(job, 151_000) == 10_000
    saved = replace(job, attempt=replace(job.attempt, checkpoint_at=30_000))
    assert unsaved(saved, 151_000) == 10_000
    saved = replace(job, attempt=replace(job.attempt, checkpoint_at=148_000))
    assert unsaved(saved, 151_000) == 3_000
    waits = replace(JOB, attempt=replace(ATTEMPT, interrupted_since=41_000, checkpoint_at=2_000))
    assert unsaved(waits, 90_000) == 0
    evicted = use_of(job, job.attempt)
    assert evicted.used_since == 100_000


@pytest.mark.parametrize(("ran", "protected"), [(49_999, True), (50_000, False)])
def test_an_interrupted_job_is_protected_for_what_it_lacks(ran, protected):
    attempt = replace(ATTEMPT, running_since=None, interrupted_since=90_000, ran_before=ran)
    assert protection(replace(JOB, attempt=attempt), POOL, 0, 100_000) == (protected, None)


HOUR_OF = Amounts(slot_ms=HOUR, instance_ms=HOUR)
BILLED = Amounts(slot_ms=HOUR, instance_ms=HOUR, saved_ms=3 * HOUR // 4)
NOT_BILLED = Amounts(slot_ms=HOUR, instance_ms=HOUR, unbilled_ms=HOUR)
BOUGHT = [
    # kind, amounts, price as spot, and dollars paid and saved
    ("on_demand", HOUR_OF, None, 36, 0),
    ("spot", BILLED, None, 9, 27),
    ("spot", BILLED, 20.0, 9, 27),
    ("spot", NOT_BILLED, None, 36, 0),
    ("spot", NOT_BILLED, 20.0, 20, 16),
]


@pytest.mark.parametrize(("kind", "amounts", "price", "usd", "saved"), BOUGHT)
def test_spot_costs_what_sagemaker_bills(kind, amounts, price, usd, saved):
    prices = replace(PRICES, of_kinds={"spot": {INSTANCE_TYPE: price}} if price else {})
    group = UsageGroup(instance_type=INSTANCE_TYPE, kind=kind)
    used = Used(start="", end="", as_of="", by=("kind",), totals={group: amounts})
    (line,) = usage_lines(used, prices)
    assert (line.group, line.usd, line.saved_usd) == ({"kind": kind}, usd, saved)


def test_kinds_are_one_line_unless_they_are_asked_for():
    groups = [UsageGroup(instance_type=INSTANCE_TYPE, kind=kind) for kind in ("on_demand", "spot")]
    totals = dict(zip(groups, (HOUR_OF, BILLED), strict=True))
    used = Used(start="", end="", as_of="", by=(), totals=totals)
    (line,) = usage_lines(used, PRICES)
    assert (line.instance_hours, line.usd, line.saved_usd) == (2, 45, 27)
    lines = usage_lines(replace(used, by=("kind",)), PRICES)
    assert [line.usd for line in lines] == [36, 9]


def test_the_history_says_that_an_attempt_was_spot_and_what_it_saved():
    (attempt,) = ended().manager.jobs.status("job").attempts

    def remarks(view):
        return attempts_table([view]).columns[-1]._cells[0]

    view = attempt_view(attempt)
    assert remarks(view) == "spot, 75% saved — SageMaker interrupted it once"
    assert remarks(view.model_copy(update={"billed": None})).startswith("spot — ")
    assert remarks(view.model_copy(update={"capacity_kind": "on_demand"})).startswith("SageMaker")


# --- what no event has told ---


def unseen(lost_from: float, lost_until: float, until: float) -> QueueWorld:
    """A job on spot that is interrupted after 40 s, for 900 s, and ends at 3,900 s. Events get lost
    between these moments (s). It has been played until the last."""
    world = QueueWorld(spot("s", 1, spot_wait=HOUR), runtime=3_000_000)
    world.plane.knobs.turn({"interrupt_spot": 1, "interrupt_after": 40})
    submit(world, pools="s")
    world.deliver()
    world.plane.knobs.turn({"spot_seconds": 900})
    for moment in sorted({40, 940, 3_900, lost_from, lost_until, until}):
        if moment > until:
            return world
        play(world, moment - (world.clock.now() - START) / 1000)
        if moment in {lost_from, lost_until}:
            world.plane.knobs.turn({"lose_events": 1_000_000 if moment == lost_from else 0})
    play(world, 0)
    return world


def found(world: QueueWorld) -> list[str]:
    """What the next reconciliation finds."""
    world.clock.set(world.clock.now() + RECONCILE_EVERY)
    return [finding.kind for finding in world.manager.tick().findings]


def test_a_reconciliation_finds_an_interruption_and_the_return():
    world = unseen(39, 9_000, 40)
    assert world.job("job").attempt.interrupted_since is None
    assert found(world) == ["interruption_unseen"]
    assert world.job("job").attempt.interrupted_since == START + 40_000
    assert found(world) == []
    play(world, 300)
    assert world.job("job").attempt.running_since is None
    assert found(world) == ["interruption_unseen"]
    assert world.job("job").attempt.running_since == START + 900_000
    assert found(world) == []


@pytest.mark.parametrize(("lost_from", "lost_until"), [(39, 2_000), (39, 500), (500, 2_000)])
def test_the_end_says_how_long_it_has_run_whatever_was_lost(lost_from, lost_until):
    world = unseen(lost_from, lost_until, 3_900)
    job = world.job("job")
    assert (job.state, job.ran) == (JobState.COMPLETED, 3_000_000)
    (attempt,) = world.manager.jobs.status("job").attempts
    assert (attempt.interruptions > 0, attempt.interrupted_for) == (True, 900_000)
    (amounts,) = totals(world).values()
    assert (amounts.slot_ms, amounts.instance_ms) == (3_000_000, 3_000_000)

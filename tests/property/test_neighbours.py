"""Promise 11: no refusal of one user's job changes what another user's jobs may have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from slotq_core.model.pools import HEALTHY, CapacityKind
from slotq_core.policy.lifecycle.missing_rights import NO_EVICTION_FOR
from slotq_core.wire.submission import parse_submission
from tests.queue_world import INSTANCE_TYPE, QueueWorld, pool, request
from tests.unit.test_plan_pools import LONG, PlanWorld, planned

WARM = f"{INSTANCE_TYPE} for training warm pool usage"
UNREAD = "a limit that nobody knows"
PROCESSING = "Number of instances across all processing jobs"
ON_DEMAND = f"{INSTANCE_TYPE} for training job usage"
SPOT = f"{INSTANCE_TYPE} for spot training job usage"
RULES = [{"RuleConfigurationName": "rule", "RuleEvaluatorImage": "image"}]
FIELDS: dict[str, dict[str, Any]] = {
    SPOT: {
        "EnableManagedSpotTraining": True,
        "StoppingCondition": {"MaxRuntimeInSeconds": 86_400, "MaxWaitTimeInSeconds": 86_400},
    },
    PROCESSING: {"ProfilerRuleConfigurations": RULES},
}
STEP = 20
"""Seconds between two looks at a world."""


class Wanted(NamedTuple):
    """A submission: when (s), by whom, how large, how urgent, and the quota that refuses it."""

    at: int
    slots: int
    priority: int
    quota: str = ""


def _wanted(priorities: st.SearchStrategy[int], quotas: st.SearchStrategy[str]) -> Any:
    one = st.builds(Wanted, st.integers(0, 5), st.integers(1, 2), priorities, quotas)
    return st.lists(one, min_size=1, max_size=4)


ordinary = _wanted(st.integers(1, 3), st.just(""))
refused = _wanted(st.integers(0, 1), st.sampled_from(sorted(FIELDS)))
urgent = _wanted(st.integers(4, 6), st.sampled_from(sorted(FIELDS)))


def _submit(world: QueueWorld, name: str, by: str, wanted: Wanted, **more: str) -> None:
    saved = "s3://bucket/saved" if more else ""  # A spot pool wants checkpoints.
    body = request(name, slots=wanted.slots, priority=wanted.priority, checkpoints=saved, **more)
    submission, parsed = parse_submission({**body, **FIELDS.get(wanted.quota, {})})
    world.manager.submissions.submit(submission, parsed, submitter=by)


def _play(
    bens: list[Wanted], anns: list[Wanted], *, used_up: bool, seconds: int
) -> tuple[QueueWorld, list[dict[str, str]]]:
    """The world after so long, and the states of Ben's jobs at each step. No pool may change.
    `used_up`: Ann's quotas are 4, and no instance is left; else they are 0."""
    world = QueueWorld(pool(slots=3), runtime=70_000)
    world.plane.knobs.quotas = {} if used_up else dict.fromkeys(FIELDS, 0)
    refusing = {"refuse_for_quota": 1_000_000, "match": "ann*"} if used_up else {}
    world.plane.knobs.turn(refusing)
    seen = []
    for step in range(seconds // STEP):
        for owner, jobs in (("ann", anns), ("ben", bens)):
            for number, wanted in enumerate(jobs):
                if wanted.at == step:
                    _submit(world, f"{owner}{number}", owner, wanted)
        world.deliver()
        found = world.store.health.pool("p")
        assert found is not None and found.health == HEALTHY
        states = world.states()
        seen.append({name: state for name, state in states.items() if name.startswith("ben")})
        assert all(world.job(name).attempts for name in states if states[name] == "failed")
        world.later(STEP)
    return world, seen


@given(ordinary, refused, st.booleans())
def test_refused_jobs_of_others_change_nothing(
    bens: list[Wanted], anns: list[Wanted], used_up: bool
) -> None:
    """Ben's jobs are as urgent as Ann's, or more: they run as if she had submitted none."""
    later = [wanted._replace(priority=0) for wanted in anns]
    _, beside = _play(bens, later, used_up=used_up, seconds=400)
    _, alone = _play(bens, [], used_up=used_up, seconds=400)
    assert beside == alone


ELSEWHERE = st.sampled_from(
    [
        *((CapacityKind.ON_DEMAND, quota) for quota in (SPOT, WARM, PROCESSING, UNREAD)),
        *((CapacityKind.SPOT, quota) for quota in (ON_DEMAND, WARM, PROCESSING, UNREAD)),
    ]
)
"""How a pool is bought, and a quota that is not for its instances."""


def _refused_by(
    bens: list[Wanted], anns: list[Wanted], kind: CapacityKind, quota: str
) -> list[dict[str, str]]:
    """The states of Ben's jobs at each step: all share one pool, and the quota refuses each of
    Ann's starts."""
    world = QueueWorld(pool(slots=3, capacity_kind=kind), runtime=70_000)
    refusing = {"refuse_for_quota": 1_000_000, "refused_quota": quota, "match": "ann*"}
    world.plane.knobs.turn(refusing)
    seen = []
    for step in range(400 // STEP):
        for owner, jobs in (("ann", anns), ("ben", bens)):
            for number, wanted in enumerate(jobs):
                if wanted.at == step:
                    _submit(world, f"{owner}{number}", owner, wanted, pools="p")
        world.deliver()
        found = world.store.health.pool("p")
        assert found is not None and found.health == HEALTHY
        states = world.states()
        seen.append({name: state for name, state in states.items() if name.startswith("ben")})
        world.later(STEP)
    return seen


@given(ordinary, _wanted(st.just(0), st.just("")), ELSEWHERE)
def test_a_quota_for_other_instances_concerns_the_refused_job_alone(
    bens: list[Wanted], anns: list[Wanted], of: tuple[CapacityKind, str]
) -> None:
    """Of spot pools as of those on demand, and whatever the sentence names, or does not."""
    assert _refused_by(bens, anns, *of) == _refused_by(bens, [], *of)


ONE_KIND = st.sampled_from([("s", "p", SPOT), ("p", "s", ON_DEMAND)])


def _beside(
    bens: list[Wanted], anns: list[Wanted], pools: tuple[str, str, str]
) -> list[dict[str, str]]:
    """The states of Ben's jobs at each step: his run in one pool, Ann's in the other, which
    is bought in the other way and whose quota is 1."""
    her_pool, his_pool, quota = pools
    spot = pool("s", slots=3, capacity_kind=CapacityKind.SPOT)
    world = QueueWorld(pool("p", slots=3), spot, runtime=70_000)
    world.plane.knobs.quotas = {quota: 1}
    seen = []
    for step in range(400 // STEP):
        for owner, jobs, where in (("ann", anns, her_pool), ("ben", bens, his_pool)):
            for number, wanted in enumerate(jobs):
                if wanted.at == step:
                    _submit(world, f"{owner}{number}", owner, wanted, pools=where)
        world.deliver()
        found = world.store.health.pool(his_pool)
        assert found is not None and found.health == HEALTHY
        states = world.states()
        seen.append({name: state for name, state in states.items() if name.startswith("ben")})
        world.later(STEP)
    return seen


@given(ordinary, ordinary, ONE_KIND)
def test_a_quota_of_one_kind_of_capacity_changes_nothing_in_pools_of_the_other(
    bens: list[Wanted], anns: list[Wanted], pools: tuple[str, str, str]
) -> None:
    """Whatever the priorities: the jobs share no pool."""
    assert _beside(bens, anns, pools) == _beside(bens, [], pools)


class Refusal(NamedTuple):
    """A pool, and what makes its starts refused or cut off while the other pools are well."""

    pool: str
    quotas: dict[str, int]
    windows: tuple[tuple[int, int, int], ...] = LONG
    """Of the training plan: begin and end (s), and instances."""


SHORT = 1_800 + 200
"""An end of a window (s): SageMaker takes the instances half an hour before, after 200 s."""
REFUSALS = (
    Refusal("p", {ON_DEMAND: 1}),
    Refusal("s", {SPOT: 1}),
    Refusal("t", {}, ((0, SHORT, 2),)),
)
THREE_KINDS = st.sampled_from(
    [(hers, his) for hers in REFUSALS for his in "pst" if his != hers.pool]
)
"""Where Ann's jobs run and what troubles them there, and where Ben's run."""


def _beside_a_plan(
    bens: list[Wanted], anns: list[Wanted], hers: Refusal, his: str
) -> list[dict[str, str]]:
    """The states of Ben's jobs at each tick: his run in one pool, Ann's in another, and each of the
    three is bought in another way."""
    bought = (CapacityKind.ON_DEMAND, CapacityKind.SPOT)
    pools = [pool(n, slots=3, capacity_kind=kind) for n, kind in zip("ps", bought, strict=True)]
    world = PlanWorld(*pools, planned("t", slots=3), windows=hers.windows, runtime=70_000)
    world.plane.knobs.quotas = hers.quotas
    world.tick()
    seen = []
    for step in range(12):
        for owner, jobs, where in (("ann", anns, hers.pool), ("ben", bens, his)):
            for number, wanted in enumerate(jobs):
                if wanted.at == step:
                    _submit(world, f"{owner}{number}", owner, wanted, pools=where)
        world.tick(1.5 * STEP)
        found = world.store.health.pool(his)
        assert found is not None and found.health == replace(HEALTHY, plan=found.health.plan)
        states = world.states()
        seen.append({name: state for name, state in states.items() if name.startswith("ben")})
    assert not anns or any(name.startswith("ann") for name in world.states())
    return seen


@given(ordinary, ordinary, THREE_KINDS)
def test_a_plan_and_what_is_bought_otherwise_are_strangers(
    bens: list[Wanted], anns: list[Wanted], of: tuple[Refusal, str]
) -> None:
    """Neither a quota of one kind nor the end of a plan changes anything in pools of the others."""
    assert _beside_a_plan(bens, anns, *of) == _beside_a_plan(bens, [], *of)


@given(ordinary, urgent)
def test_a_refused_job_evicts_once_at_most_in_a_while(
    bens: list[Wanted], anns: list[Wanted]
) -> None:
    """Ann's jobs are more urgent, so each may evict; but not again and again in vain."""
    seconds = NO_EVICTION_FOR // 1000
    world, _ = _play(bens, anns, used_up=True, seconds=seconds)
    attempts = [
        attempt
        for number in range(len(bens))
        for attempt in world.manager.jobs.status(f"ben{number}").attempts
    ]
    evicted_for = [attempt.stop.by for attempt in attempts if attempt.stop is not None]
    for_ann = [name for name in evicted_for if name.startswith("ann")]  # Ben's evict Ben's as well.
    most = sum(wanted.slots for wanted in anns)
    assert len(for_ann) <= most

"""The whole queue as JSON and back: nothing that a decision rests on is lost, and nothing of others
is shown."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from slotq.simulate import load, simulate
from slotq_core.model.attempts import Attempt, StopCause, StopOrder
from slotq_core.model.callers import NO_LIMITS
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Claim, Job, JobState
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import WarmSlot
from slotq_core.model.sharing import NO_SHARING, Settings
from slotq_core.model.snapshot import QueueSnapshot, Snapshot
from slotq_core.model.users import Yielded
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.warm_slots import first_to_go
from slotq_core.privacy.withholding import as_seen
from slotq_core.wire.scenario.pages import (
    group_of,
    health_of,
    job_of,
    node_of,
    spending_of,
    warm_slots_of,
    yielded_of,
)
from slotq_core.wire.scenario.views import ScenarioView, scenario_view

FOLDER = Path(__file__).parents[1] / "scenarios"
SCENARIOS = {path.stem: path for path in sorted(FOLDER.rglob("*.yaml"))}
MOST = 15
"""Snapshots looked at of each scenario."""
NOT_TOLD = {
    "submitter", "digest", "version", "depends_on", "followed", "metrics",
    "literal_paths", "whole_because", "shared_faults",
}  # fmt: skip
"""Fields of a job that no decision rests on."""
NOT_TOLD_OF_ATTEMPTS = {
    "token", "saved_step", "save_took", "step", "steps", "warning", "ended_at", "outcome",
    "message", "artifact", "checkpoints", "node_share", "gpu_bound",
}  # fmt: skip
"""Fields of an attempt that has ended, and what nobody else may know."""


def there_and_back(queue: QueueSnapshot) -> ScenarioView:
    bare = Settings(pools=(), limits=NO_LIMITS, sharing=NO_SHARING)
    text = scenario_view(queue, bare, 1).model_dump_json(exclude_defaults=True)
    return ScenarioView.model_validate_json(text)


def decided(snapshot: Snapshot, now: int) -> list[Any]:
    """What is decided, without what is not told."""
    return [_short(each) for each in plan(snapshot, now).decisions]


def _short(decision: Any) -> tuple[Any, ...]:
    told = (getattr(decision, field.name) for field in fields(decision))
    return type(decision).__name__, *(_named(each) for each in told)


def _named(value: Any) -> Any:
    if isinstance(value, Job):
        return value.name, value.state
    if isinstance(value, Node):
        return value.pool, value.name, value.generation
    if isinstance(value, WarmSlot):
        return value.pool, value.key, value.until
    if isinstance(value, tuple):
        return [_named(each) for each in value]
    return _short(value) if type(value).__name__ == "Start" else value


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_plan_on_what_is_told_is_the_plan(name: str):
    checked = 0

    def watch(snapshot: Snapshot, _: Any, now: int) -> None:
        nonlocal checked
        if checked >= MOST:
            return
        checked += 1
        jobs = (*snapshot.active, *snapshot.waiting, *snapshot.due)
        queue = QueueSnapshot(
            at=now,
            pools=snapshot.pools,
            jobs=tuple(dict.fromkeys(jobs)),
            groups=snapshot.groups,
            yields=snapshot.yields,
            spent=snapshot.spent,
            nodes=snapshot.nodes,
            warm=first_to_go(slot for slot in snapshot.warm if slot.holds),
        )
        view = there_and_back(queue)
        told = {job.name: job for job in map(job_of, view.jobs)}
        assert set(told) == {job.name for job in jobs}
        health = {pool.name: health_of(pool.health) for pool in view.pools}
        again = replace(
            snapshot,
            pools=tuple(replace(pool, health=health[pool.name]) for pool in snapshot.pools),
            active=tuple(told[job.name] for job in snapshot.active),
            waiting=tuple(told[job.name] for job in snapshot.waiting),
            due=tuple(told[job.name] for job in snapshot.due),
            groups=tuple(map(group_of, view.groups)),
            yields=tuple(map(yielded_of, view.yields)),
            spent=spending_of(view.spent),
            nodes=tuple(map(node_of, view.nodes)),
            warm=warm_slots_of(view.warm),
        )
        assert decided(again, now) == decided(snapshot, now)

    simulate(load(SCENARIOS[name]), watch)
    assert checked


JOB = Job(
    name="own",
    state=JobState.STOPPING,
    priority=7,
    entry_time=1_000,
    demand=Demand(slots=2, gpus=16),
    pools=("p", "q"),
    parts=(("p", Demand(slots=1)), ("q", Demand(slots=1, gpus=16))),
    requires=Demand(mem_per_gpu_in_GiB=80),
    preemptible=False,
    min_runtime=1_500,
    runtime_estimate=90_000,
    retries=2,
    gpus=25,
    tenant="a1b2",
    longest_attempt=60_000,
    runtime_bound=70_000,
    evicted_at=(1_000, 2_500),
    warm_key="0123456789ab",
    keep_alive=60_000,
    project="team",
    group="grid",
    after=("first",),
    after_any=("second",),
    priority_class="HIGH",
    ran_before_class=4,
    admitted_class="LOW",
    auto=True,
    checkpoints=False,
    person="arn:me",
    role="arn:role",
    attempts=3,
    evictions=1,
    schedule_attempts=2,
    faults=1,
    refused_in=("p", "q"),
    denied_in=("q",),
    releases=(5, 6),
    ran=9_001,
    reports=True,
    not_before=77_000,
    changed_at=3_000,
    line_by_user=True,
    cause="why",
    message="because",
    claim=Claim(pool="q", amount=Demand(slots=2), since=8, priority_class="LOW", moved=True),
    attempt=Attempt(
        number=3,
        training_job="own-qstamp-3-",
        token="secret",
        pool="p",
        instance_type="ml.p5.48xlarge",
        admitted_at=10,
        node="n1",
        node_generation=3,
        gpu_ids=(0, 2),
        node_gpus=8,
        gpu_part=25,
        waiting_since=11,
        created=True,
        probes=True,
        pending_since=12,
        running_since=13,
        checkpoint_at=14,
        reported=True,
        silent_since=15,
        heartbeat_missed=True,
        stalled_at=16,
        warm_key="0123456789ab",
        keep_warm=90_000,
        stop=StopOrder(cause=StopCause.EVICTED, by="theirs", at=17, sent=True, grace_until=18),
    ),
)


def test_every_field_of_a_job_is_told_or_needs_not_be():
    (view,) = there_and_back(QueueSnapshot(at=0, pools=(), jobs=(JOB,))).jobs
    again = job_of(view)
    different = {f.name for f in fields(Job) if getattr(again, f.name) != getattr(JOB, f.name)}
    assert different == {"attempt"}
    assert again.attempt is not None and JOB.attempt is not None
    for field in fields(Attempt):
        if field.name not in {*NOT_TOLD_OF_ATTEMPTS, "training_job"}:
            told = getattr(again.attempt, field.name)
            assert told == getattr(JOB.attempt, field.name), field.name
    bare = Job(
        name="x", state=JobState.PENDING, priority=0, entry_time=0, demand=Demand(), pools=()
    )
    same = {f.name for f in fields(Job) if getattr(JOB, f.name) == getattr(bare, f.name)}
    assert same == {*NOT_TOLD, "workload"}, "a new field: tell it, and give it a value here"
    group = Group(
        name="grid", members=("own", "x"), min_members=1, mandatory=("x",), same_pool=True,
        elastic=True, ends_with="own", sites={"own": "leader"}, heartbeat=60_000, max_parallel=4,
        ended={"x": JobState.COMPLETED},
    )  # fmt: skip
    blank = Group(name="", members=())
    same = {f.name for f in fields(Group) if getattr(group, f.name) == getattr(blank, f.name)}
    assert not same, "a new field: tell it, and give it a value here"
    (told,) = there_and_back(QueueSnapshot(at=0, pools=(), jobs=(), groups=(group,))).groups
    assert group_of(told) == replace(group, sites={}), "no decision rests on these"


def test_every_field_of_a_node_that_decisions_rest_on_is_told():
    node = Node(
        name="n1",
        pool="p",
        generation=3,
        state=NodeState.DRAINING,
        tenant="a1b2",
        project="team",
        demand=Demand(slots=1, gpus=8),
        contents=Demand(gpus=8),
        training_job="",
        token="",
        started_at=1_000,
        created=True,
        running_since=2_000,
        idle_since=3_000,
        leaves_at=4_000,
    )
    (told,) = there_and_back(QueueSnapshot(at=0, pools=(), jobs=(), nodes=(node,))).nodes
    assert node_of(told) == node


SLOT = WarmSlot(
    pool="p",
    training_job="warm-00000",
    job="",
    number=0,
    instance_type="ml.p5.48xlarge",
    demand=Demand(slots=2),
    key="0123456789ab",
    since=1_000,
    until=2_000,
    released_at=1_500,
    released_for="own",
)


def test_every_field_of_a_warm_slot_that_decisions_rest_on_is_told():
    reused = replace(SLOT, reused_by="theirs", training_job="warm-00001")
    view = there_and_back(QueueSnapshot(at=0, pools=(), jobs=(), warm=(SLOT, reused)))
    first, second = warm_slots_of(view.warm)
    assert first == SLOT
    assert second.reused_by and not second.releasing
    assert "theirs" not in view.model_dump_json()


def test_warm_keys_of_others_are_told_apart_without_the_keys():
    theirs = replace(JOB, name="theirs", project="other", warm_key="ffffffffffff", attempt=None)
    slots = (SLOT, replace(SLOT, key=theirs.warm_key, released_for="theirs"))
    queue = QueueSnapshot(at=0, pools=(), jobs=(JOB, theirs), warm=slots)
    seen = as_seen(queue, lambda job: job is not theirs)
    own, other = seen.jobs
    assert own.attempt is not None
    assert own.warm_key == own.attempt.warm_key != other.warm_key
    assert [slot.key for slot in seen.warm] == [own.warm_key, other.warm_key]
    assert [slot.released_for for slot in seen.warm] == ["own", other.name]
    text = there_and_back(seen).model_dump_json()
    assert not any(word in text for word in ("0123456789ab", "ffffffffffff", "theirs"))


def test_tenants_of_others_are_told_apart_without_their_keys():
    theirs = replace(JOB, name="theirs", project="other", tenant="c3d4")
    queue = QueueSnapshot(at=0, pools=(), jobs=(JOB, replace(JOB, name="own2"), theirs))
    shown = {job.name: job.tenant for job in as_seen(queue, lambda job: job is not theirs).jobs}
    own, again, other = shown.values()
    assert own == again != other
    assert not {"a1b2", "c3d4"} & {*shown.values()}


SHOWN_OF_OTHERS = {"project", "priority_class", "admitted_class", "cause"}
"""The texts of a job on which decisions about others depend. Any other is withheld in
`privacy/withholding.py`."""


def test_nothing_of_others_is_shown():
    texts = {field.name for field in fields(Job) if field.type == "str"} - SHOWN_OF_OTHERS
    hidden = replace(
        JOB,
        **{name: f"their-{name}" for name in texts},
        after=("theirs-too",),
    )
    hidden = replace(hidden, name="theirs", person="arn:them", group="their-grid")
    queue = QueueSnapshot(
        at=0,
        pools=(),
        jobs=(JOB, hidden, replace(hidden, name="theirs-too", entry_time=2_000, attempt=None)),
        groups=(
            Group(
                name="their-grid",
                members=("theirs", "gone"),
                ends_with="theirs",
                sites={"theirs": "their-site"},
                ended={"gone": JobState.FAILED},
            ),
        ),
        yields=(Yielded(user="arn:them", workload=JOB.workload, priority=7, at=3),),
        etas={"theirs": 5, "own": 6},
        limits={"theirs": 7},
    )
    seen = as_seen(queue, lambda job: job.name == "own")
    text = there_and_back(seen).model_dump_json()
    for word in ("their", "them", "gone", "secret"):
        assert word not in text, word
    own, one, two = seen.jobs
    assert own.person == "arn:me" and own.group == "grid" and own.message == "because"
    assert own.attempt is not None and own.attempt.stop is not None
    assert own.attempt.stop.by == one.name == "(withheld 1)"
    assert one.after == (two.name,) and one.demand == JOB.demand and one.priority == 7
    assert seen.yields[0].user == one.person == two.person
    (group,) = seen.groups
    assert group.name == one.group and one.name in group.members
    assert group.ends_with == one.name
    assert set(group.ended) < set(group.members)
    assert seen.withheld == {one.name, two.name}
    assert (seen.etas, seen.limits) == ({"own": 6}, {one.name: 7})


@pytest.mark.parametrize("prefix", ["a", "n", "z"])
def test_the_order_of_the_answer_tells_nothing_of_names(prefix: str):
    """Stores list jobs and groups by name. Whoever chooses names of own jobs could otherwise find
    out, letter by letter, what others are called."""
    plain = replace(JOB, attempt=None, after=(), after_any=())
    theirs = replace(plain, name=f"{prefix}-job", group=f"{prefix}-group", entry_time=2_000)
    jobs = [plain, theirs, replace(plain, name="more", group="more", entry_time=3_000)]
    groups = [Group(name=job.group, members=(job.name,)) for job in jobs]
    queue = QueueSnapshot(
        at=0,
        pools=(),
        jobs=tuple(sorted(jobs, key=lambda job: job.name)),
        groups=tuple(sorted(groups, key=lambda group: group.name)),
    )
    seen = as_seen(queue, lambda job: job.name in {"own", "more"})
    assert [job.name for job in seen.jobs] == ["own", "(withheld 1)", "more"]
    assert [group.name for group in seen.groups] == ["(withheld 3)", "grid", "more"]


def test_who_sees_all_is_shown_all():
    queue = QueueSnapshot(at=0, pools=(), jobs=(JOB,))
    assert as_seen(queue, None) is queue
    assert as_seen(queue, lambda _: True) is queue

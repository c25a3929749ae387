"""The outlook that one waiting job's view adds to its reason."""

from __future__ import annotations

import json
from dataclasses import replace

from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Claim, Job, JobState
from slotq_core.model.pools import PoolHealth
from slotq_core.model.projects import Department, Project
from slotq_core.model.reasons import ShareUsed, codes, outlook
from slotq_core.model.reasons.outlook import Outlook, OwnShareUsed, TimeCause
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.status import looked_into
from slotq_core.policy.cycle import plan
from slotq_core.ports.stored import World
from slotq_core.wire.views.jobs import job_view
from tests.unit.policy.test_reasons import NOW, pool, runs, stops, waits


def asked(job: Job, **world) -> Outlook:
    waiting = (*world.pop("others", ()), job)
    pools = world.pop("pools", (pool(),))
    snapshot = Snapshot(pools=pools, waiting=waiting, **world)
    status = looked_into(job, World(snapshot=snapshot, ledgers={}), NOW)
    assert status.outlook is not None
    return status.outlook


def quota(slots: int) -> dict[str, Demand]:
    return {"": Demand(slots=slots)}


def test_room_is_listed_by_pool_in_the_jobs_order():
    found = asked(
        waits("job", slots=2, pools=("q", "p")),
        pools=(pool("p", slots=3), pool("q", slots=2)),
        active=(runs("a"), runs("b"), stops("c"), runs("d", at="q")),
    )
    assert [room.pool for room in found.rooms] == ["q", "p"]
    assert found.rooms[1] == outlook.Room(pool="p", needed=2, free=0, coming=1, missing=1)
    assert found.rooms[1].sentence() == (
        "pool p has 0 free and 1 coming free of the 2 slots that it needs; 1 missing"
    )


def test_every_holder_of_slots_is_listed_with_the_reason_that_spares_it():
    found = asked(
        waits("job", priority=1, slots=3),
        pools=(pool(slots=4, max_min_runtime=60_000),),
        active=(
            runs("a", priority=1),
            runs("b", priority=3),
            runs("c", preemptible=False),
            replace(
                runs("d", since=5_000), state=JobState.STARTING, attempt=_unanswered(runs("d"))
            ),
        ),
    )
    assert [(each.code, each.jobs, each.slots) for each in found.spared] == [
        ("no_lower_rank", ("a", "b"), 2),
        ("not_preemptible", ("c",), 1),
        ("start_unanswered", ("d",), 1),
    ]
    assert found.spared[0].sentence() == "a, b hold 2 slots of pool p: of equal or higher priority"
    assert found.spared[1].sentence() == "c holds 1 slot of pool p: not preemptible"


def _unanswered(job: Job):
    assert job.attempt is not None
    return replace(job.attempt, created=False, running_since=None)


def test_the_first_holders_are_named_and_the_others_counted():
    found = asked(
        waits("job"), pools=(pool(slots=9),), active=tuple(runs(f"j{i}") for i in range(9))
    )
    (spared,) = found.spared
    assert (spared.count, spared.slots) == (9, 9)
    assert spared.sentence() == (
        "j0, j1, j2, j3, j4 and 4 more hold 9 slots of pool p: of equal or higher priority"
    )


def test_a_gang_is_spared_if_one_member_may_not_be_evicted():
    found = asked(
        waits("job", priority=1),
        active=(runs("a", group="g"), runs("b", group="g", preemptible=False)),
        groups=(Group(name="g", members=("a", "b")),),
    )
    assert [each.code for each in found.spared] == ["gang_stays", "not_preemptible"]
    assert found.spared[0].sentence() == (
        "a holds 1 slot of pool p: gang g is evicted whole, and some of its jobs may not be evicted"
    )


def test_a_reclaim_beyond_the_share_of_the_department_is_named_so():
    """Department d would have twice its share."""
    found = asked(
        waits("job", project="x"),
        pools=(pool(slots=4),),
        active=(
            runs("a", project="y"),
            *(runs(name, project="z") for name in ("b", "c", "e")),
        ),
        projects=(
            Project(name="x", department="d", quota=quota(1)),
            Project(name="y", department="d", quota=quota(1)),
            Project(name="z", department="e", quota=quota(0)),
        ),
        departments=(
            Department(name="d", quota=quota(1), weight=0),
            Department(name="e", quota=quota(1), weight=0),
        ),
    )
    told = {each.code: each.sentence() for each in found.spared}
    assert told["own_share_used"] == (
        "b, c, e hold 3 slots of pool p: project d uses 1 slot of its fair share 1"
    )


def test_a_project_without_a_share_is_told_what_gives_it_one():
    """Not: it uses 0 slots of its fair share 0 (quota 0)."""
    used_up = ShareUsed(pool="p", needed=1, project="a", used=0, share=0, quota=0)
    told = OwnShareUsed(pool="p", jobs=("b",), count=1, slots=1, project="a", used=0, share=0)
    for text in (used_up.sentence(), told.sentence()):
        assert "project a has no share here: a quota or a weight gives it one" in text
        assert "fair share 0" not in text
    some = ShareUsed(pool="p", needed=1, project="a", used=0, share=0, quota=2)
    assert "uses 0 slots of its fair share 0 (quota 2)" in some.sentence()


def test_room_is_reserved_for_a_job_that_moves_here():
    claim = Claim(pool="p", amount=Demand(slots=1), since=NOW, moved=True)
    found = asked(
        waits("job", slots=2, project="a"),
        active=(stops("comes", at="q", since=-5, project="b", claim=claim),),
        projects=(Project(name="a"), Project(name="b")),
    )
    assert found.reserved == (outlook.KeptForAMove(pool="p", job="comes", project="b", slots=1),)
    assert found.reserved[0].sentence() == (
        "1 slot of pool p is kept for comes of project b, which is moving there"
    )


def test_a_job_behind_in_its_line_has_the_first_jobs_outlook():
    first = waits("first", since=10)
    job = waits("job")
    found = asked(job, others=(first,), active=(runs("a"), runs("b")))
    assert found == replace(asked(first, active=(runs("a"), runs("b"))))


def test_a_job_over_several_pools_gets_each_pools_room():
    parts = (("p", Demand(slots=1)), ("q", Demand(slots=2)))
    found = asked(
        waits("job", slots=3, pools=("p", "q"), parts=parts),
        pools=(pool("p"), pool("q")),
        active=(runs("a", at="q"),),
    )
    assert [(room.pool, room.needed, room.missing) for room in found.rooms] == [
        ("p", 1, 0),
        ("q", 2, 1),
    ]


def test_times_are_listed_earliest_first():
    resting = PoolHealth(errors=1, not_before=NOW + 9_000)
    found = asked(
        waits("job", pools=("p", "q"), since=10_000),
        pools=(pool("p", slots=1, health=resting), pool("q", slots=1, reserve_after=12_000)),
        active=(runs("a", at="q"),),
    )
    assert [(each.at - NOW, each.cause) for each in found.times] == [
        (2_000, TimeCause.RESERVE_AFTER),
        (9_000, TimeCause.POOL_BACKOFF),
    ]
    assert found.earliest == NOW + 2_000
    assert found.times[0].sentence() == "at 1970-01-01T00:16:42.000Z pool q drains for it"


def test_the_room_kept_for_a_jobs_own_move_is_not_missing():
    moves = Claim(pool="p", amount=Demand(slots=1), since=0, moved=True)
    found = asked(waits("job", claim=moves), active=(stops("a"), runs("b")))
    assert found.rooms == (outlook.Room(pool="p", needed=1, free=0, coming=1, missing=0),)


def test_a_jobs_own_claim_does_not_use_up_its_projects_share():
    owed = Claim(pool="p", amount=Demand(slots=2), since=0)
    found = asked(
        waits("job", project="a", slots=2, claim=owed),
        pools=(pool(slots=3),),
        projects=(Project(name="a", quota=quota(2)), Project(name="b", quota=quota(1))),
        active=(runs("x", project="b", slots=2), runs("y", project="b")),
    )
    assert [each.code for each in found.spared] == ["would_not_help"]


def test_a_drain_beyond_a_share_says_who_still_starts():
    found = asked(
        waits("job", project="a"),
        pools=(pool(slots=4, reserve_after=0),),
        projects=(Project(name="a", quota=quota(2)), Project(name="b", quota=quota(2))),
        active=(runs("one", project="a"), runs("two", project="b", slots=2)),
        others=(waits("big", project="a", slots=2, since=10_000),),
    )
    drains = outlook.Drains(pool="p", job="big", project="a", slots=2, held_back="a")
    assert found.reserved == (drains,)
    assert drains.sentence() == (
        "2 slots of pool p are reserved for big of project a: nothing of project a behind it "
        "starts there, except what cannot delay it; other projects still start jobs there within "
        "their fair shares"
    )


def test_no_holder_is_listed_when_slots_are_coming_anyway():
    found = asked(waits("job"), active=(stops("a"), runs("b")))
    assert found.spared == ()
    assert found.rooms[0].coming == 1


def test_the_end_of_a_jobs_back_off_is_a_known_time():
    job = replace(waits("job"), state=JobState.BACKOFF, not_before=NOW + 5_000, message="busy")
    snapshot = Snapshot(pools=(pool(),), due=(job,))
    status = looked_into(job, World(snapshot=snapshot, ledgers={}), NOW)
    assert status.outlook is not None
    assert status.outlook.earliest == NOW + 5_000
    assert status.outlook.times[0].sentence() == (
        "at 1970-01-01T00:16:45.000Z it waits for slots again"
    )


def test_a_plan_makes_no_outlook_unasked():
    world = Snapshot(pools=(pool(),), active=(runs("a"), runs("b")), waiting=(waits("job"),))
    assert plan(world, NOW).outlook is None
    told = plan(world, NOW, asked=world.waiting[0])
    assert told.outlook is not None
    assert replace(told, outlook=None) == plan(world, NOW)


def test_the_view_has_the_whole_outlook():
    job = waits("job", slots=2, since=10_000)
    found = asked(job, pools=(pool(reserve_after=60_000),), active=(runs("a"),))
    view = json.loads(job_view(job, outlook=found).model_dump_json())["outlook"]
    assert view["rooms"][0]["numbers"]["missing"] == 1
    assert [each["code"] for each in view["evictions"]] == ["no_lower_rank"]
    assert view["reserved"] == []
    assert view["times"][0]["numbers"]["cause"] == "reserve_after"
    assert view["earliest"] == "1970-01-01T00:17:30.000Z"
    assert job_view(job).outlook is None


def test_all_codes_are_different():
    kinds = [
        kind
        for kind in vars(outlook).values()
        if isinstance(kind, type) and "code" in vars(kind) and kind.__module__ == outlook.__name__
    ]
    assert len({vars(kind)["code"] for kind in kinds}) == len(kinds) == 24
    assert "no_lower_rank" in codes(outlook, outlook.Spared)
    assert "owed" not in codes(outlook, outlook.Spared)

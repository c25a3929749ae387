"""Reservations: how they are written, what is refused where they are set, and what people see."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from slotq.output.pool_tables import health
from slotq_core.adapters.dynamodb.layout.records import read as stored
from slotq_core.adapters.dynamodb.layout.records import write
from slotq_core.errors import InvalidRequest, NoSuchProject, Outdated, ProjectInUse
from slotq_core.model.callers import Access
from slotq_core.model.capacity.reservations import (
    Reservation,
    most_reserved,
    reserved_at,
    reserved_until,
)
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.model.pools import Pool
from slotq_core.model.projects import EVERYWHERE, Project
from slotq_core.model.reasons import SlotsSetAside
from slotq_core.timestamps import iso
from slotq_core.wire.capacity.reservations import MOST, as_json, moment
from slotq_core.wire.capacity.reservations import defined as read_reservations
from slotq_core.wire.configuration import parse_pool
from slotq_core.wire.document.contents import read
from slotq_core.wire.document.writing import pool_entry
from slotq_core.wire.pool_definition import defined, settings_of
from slotq_core.wire.submission import parse_submission
from slotq_core.wire.views.pools import pool_view
from tests.queue_world import INSTANCE_TYPE, QueueWorld, pool, request

SETTINGS = {"slots": 4, "instance_type": INSTANCE_TYPE}
HOUR = 3_600_000
BERLIN = {
    "project": "a",
    "slots": 2,
    "begins": "2026-12-01 20:00",
    "ends": "2026-12-02 08:00",
    "zone": "Europe/Berlin",
}


NAIVE = datetime.fromisoformat("2026-12-01T20:00")


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def reserved(project: str, slots: int, begins: int, ends: int) -> Reservation:
    return Reservation(project=project, slots=slots, begins=begins, ends=ends)


# --- how they are written ---


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-12-01 20:00 Europe/Berlin", "", "2026-12-01T19:00:00.000Z"),
        ("2026-12-01T20:00:30 UTC", "Europe/Berlin", "2026-12-01T20:00:30.000Z"),
        ("2026-12-01 20:00", "Europe/Berlin", "2026-12-01T19:00:00.000Z"),
        ("2026-12-01T20:00+01:00", "", "2026-12-01T19:00:00.000Z"),
        (" 2026-12-01T20:00Z ", "Europe/Berlin", "2026-12-01T20:00:00.000Z"),
        ("2026-12-01", "UTC", "2026-12-01T00:00:00.000Z"),
        (datetime(2026, 12, 1, 20, tzinfo=UTC), "", "2026-12-01T20:00:00.000Z"),
        (NAIVE, "Asia/Tokyo", "2026-12-01T11:00:00.000Z"),
        (3600.5, "", "1970-01-01T01:00:00.500Z"),
        # The clocks skip 02:30, and show it twice.
        ("2026-03-29 02:30 Europe/Berlin", "", "2026-03-29T01:30:00.000Z"),
        ("2026-10-25 02:30 Europe/Berlin", "", "2026-10-25T00:30:00.000Z"),
    ],
)
def test_a_moment(text: object, zone: str, expected: str) -> None:
    assert iso(moment(text, zone)[0]) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-12-01 20:00", "needs a zone"),
        (NAIVE, "needs a zone"),
        ("2026-12-01 20:00 Berlin", "unknown zone 'Berlin'"),
        ("2026-12-01 20:00 ../UTC", "is no time"),
        ("20:00 UTC", "is no time"),
        ("tomorrow", "is no time"),
        (None, "is no time"),
        (True, "is no time"),
        (-1, "is no time"),
        (1e15, "is no time"),
        (float("nan"), "is no time"),
        (["2026-12-01"], "is no time"),
        ("0001-01-01T00:00+14:00", "is no time"),
    ],
)
def test_what_is_no_moment(text: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        moment(text)


def test_the_settings_say_the_same_again() -> None:
    found = defined("p", {**SETTINGS, "reservations": [BERLIN]})
    (one,) = found.reservations
    assert (iso(one.begins), iso(one.ends)) == (
        "2026-12-01T19:00:00.000Z", "2026-12-02T07:00:00.000Z",
    )  # fmt: skip
    assert as_json(one)["begins"] == "2026-12-01T20:00:00+01:00"
    assert defined("p", settings_of(found)) == found
    assert settings_of(defined("p", {"reservations": []}, found))["reservations"] == []
    assert defined("p", {"slots": 5}, found).reservations == (one,)


def test_the_second_of_two_like_times_survives() -> None:
    """02:30 comes twice on 25 October; the offset says which is meant."""
    second = {**BERLIN, "begins": "2026-10-25T02:30+01:00", "ends": "2026-10-25T02:45+01:00"}
    (found,) = read_reservations("p", [second])
    assert iso(found.begins) == "2026-10-25T01:30:00.000Z"
    assert read_reservations("p", [as_json(found)]) == (found,)


def test_the_store_and_the_document_keep_them() -> None:
    found = defined("p", {**SETTINGS, "reservations": [BERLIN]})
    assert Pool(**stored(Pool, write(found))) == found
    assert "reservations" not in write(defined("p", SETTINGS))
    document = {"pools": [pool_entry(found)], "projects": [{"name": "a"}]}
    assert read(document).pools[0].reservations == found.reservations
    assert "reservations" not in pool_entry(defined("p", SETTINGS))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"slots": 5}, "5 slots from 2026-12-01 20:00 Europe/Berlin, and the pool has 4 slots"),
        ({"slots": 0}, "need slots from 1 to"),
        ({"slots": True}, "need slots from 1 to"),
        ({"slots": "2"}, "need slots from 1 to"),
        ({"project": ""}, "need a project"),
        ({"project": 1}, "need a project"),
        ({"ends": "2026-12-01 20:00"}, "must end after they begin"),
        ({"ends": "2026-12-01 19:00"}, "must end after they begin"),
        ({"ends": "2027-12-03 20:00"}, "a year at most"),
        ({"ends": None}, "have a wrong time"),
        ({"zone": ""}, "needs a zone"),
        ({"zone": "Mars"}, "unknown zone 'Mars'"),
        ({"zone": 1}, "unknown zone 1"),
        ({"name": "x"}, "have project, slots, begins, ends, zone, not 'name'"),
    ],
)  # fmt: skip
def test_what_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        defined("p", {**SETTINGS, "reservations": [{**BERLIN, **change}]})
    assert said in refused.value.message
    assert refused.value.field == "reservations"
    assert refused.value.message.startswith("pool 'p': ")


@pytest.mark.parametrize("value", ["a 2 now", {"project": "a"}, [[]], [1], 3])
def test_another_form_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest, match="must be reservations such as"):
        defined("p", {**SETTINGS, "reservations": value})


def test_reservations_together_are_no_more_than_the_pool_has() -> None:
    later = {**BERLIN, "begins": "2026-12-02 08:00", "ends": "2026-12-02 09:00", "slots": 4}
    beside = {**BERLIN, "project": "b", "begins": "2026-12-02 07:59", "slots": 3}
    assert len(read_reservations("p", [later, BERLIN])) == 2
    defined("p", {**SETTINGS, "reservations": [later, BERLIN]})
    with pytest.raises(InvalidRequest, match="5 slots are reserved together when that of project"):
        defined("p", {**SETTINGS, "reservations": [beside, BERLIN]})
    with pytest.raises(InvalidRequest, match="begin twice"):
        defined("p", {**SETTINGS, "reservations": [BERLIN, {**BERLIN, "slots": 1}]})
    found = defined("p", {**SETTINGS, "reservations": [BERLIN]})
    with pytest.raises(InvalidRequest, match=r"the pool has 1 slot$"):
        defined("p", {"slots": 1}, found)


def test_their_number_is_bounded() -> None:
    many = [{**BERLIN, "begins": 60 * n, "ends": 60 * n + 60} for n in range(MOST + 1)]
    defined("p", {**SETTINGS, "reservations": many[:MOST]})
    with pytest.raises(InvalidRequest, match=f"are at most {MOST}"):
        defined("p", {**SETTINGS, "reservations": many})


def test_a_pool_with_nodes_has_none() -> None:
    with pytest.raises(InvalidRequest, match="a pool with nodes has no reservations"):
        defined("p", {**SETTINGS, "nodes": {"gpus": 8}, "reservations": [BERLIN]})


def test_a_body_names_the_fault() -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_pool('{"reservations": [{"project": "a", "slots": 1, "begins": "x", "ends": 1}]}')
    assert refused.value.field == "reservations"
    settings, _ = parse_pool('{"reservations": []}')
    assert [*settings["reservations"]] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"project": "nobody"}, "pools[0].reservations[0]: there is no project 'nobody'"),
        ({"slots": 9}, "pools[0].reservations: pool 'p': project 'a' reserves 9 slots from"),
        ({"slots": 0}, "pools[0].reservations: need slots from 1 to"),
    ],
)
def test_a_document_names_the_place(change: dict[str, Any], said: str) -> None:
    entry = {"name": "p", "capacity": 4, "instance_type": INSTANCE_TYPE}
    document = {
        "pools": [{**entry, "reservations": [{**BERLIN, **change}]}],
        "projects": [{"name": "a"}],
    }
    with pytest.raises(InvalidRequest) as refused:
        read(document)
    assert said in refused.value.message


# --- as a function of time ---


def test_what_is_reserved_at_a_moment() -> None:
    every = (reserved("a", 2, 10, 20), reserved("b", 1, 15, 30), reserved("a", 1, 20, 30))
    assert [reserved_at(every, t) for t in (9, 10, 15, 20, 30)] == [
        {}, {"a": 2}, {"a": 2, "b": 1}, {"b": 1, "a": 1}, {},
    ]  # fmt: skip
    assert [reserved_until(every, "a", 10, end) for end in (20, 21, 30, 31)] == [2, 1, 1, 0]
    assert reserved_until(every, "a", 5, 12) == 0
    assert most_reserved(every) == (3, every[1])
    assert most_reserved(()) is None


# --- in a queue; START is Monday, 21 September 2026, 14:13:20 UTC ---

SOON = {"project": "a", "slots": 1, "begins": "2026-09-21T15:00Z", "ends": "2026-09-21T16:00Z"}


def world(*entries: dict[str, Any], slots: int = 1) -> QueueWorld:
    queue = QueueWorld(pool(slots=slots), runtime=10 * HOUR)
    access, quota = Access(members=("ann",)), {EVERYWHERE: Demand(slots=slots)}
    everyone = (
        Project(name="a", access=access),
        Project(name="b", access=access, quota=quota),
    )

    def shared(now: Any) -> Any:
        return replace(now, sharing=replace(now.sharing, projects=everyone))

    queue.manager.configuration.change(shared, by="ann")
    if entries:
        queue.manager.configuration.set_pool("p", {"reservations": [*entries]}, by="ann")
    return queue


def submit(queue: QueueWorld, name: str, *, longest: int = 86_400, **more: Any) -> Any:
    body = request(name, **more)
    body["StoppingCondition"] = {"MaxRuntimeInSeconds": longest}
    submission, parsed = parse_submission(body)
    return queue.manager.submissions.submit(submission, parsed, submitter="ann")


def test_an_unknown_project_and_the_past_are_refused() -> None:
    queue = world()
    with pytest.raises(NoSuchProject, match="there is no project 'c'; the projects are a, b"):
        queue.manager.configuration.set_pool(
            "p", {"reservations": [{**SOON, "project": "c"}]}, by="ann"
        )
    past = {**SOON, "begins": "2026-09-21T13:00Z", "ends": "2026-09-21T14:13Z"}
    with pytest.raises(InvalidRequest, match="has ended already, at 2026-09-21 14:13 UTC"):
        queue.manager.configuration.set_pool("p", {"reservations": [past]}, by="ann")
    begun = {**past, "ends": "2026-09-21T14:14Z"}
    queue.manager.configuration.set_pool("p", {"reservations": [begun]}, by="ann")


def test_a_project_with_a_reservation_stays() -> None:
    queue = world(SOON)
    with pytest.raises(ProjectInUse, match="project 'a' has a reservation in pool p from"):
        queue.manager.configuration.remove_project("a", by="ann")
    queue.clock.set(at("2026-09-21T16:00"))
    queue.manager.configuration.remove_project("a", by="ann")


def test_ended_ones_go_with_the_next_change() -> None:
    later = {**SOON, "begins": "2026-09-22T15:00Z", "ends": "2026-09-22T16:00Z"}
    queue = world(SOON, later)
    queue.clock.set(at("2026-09-21T15:59"))
    queue.manager.configuration.set_pool("p", {"reserve_after": 60}, by="ann")
    assert len(queue.manager.configuration.settings()[0].pools[0].reservations) == 2
    queue.clock.set(at("2026-09-21T16:00"))
    settings = {"reservations": settings_of(queue.manager.configuration.settings()[0].pools[0])}
    queue.manager.configuration.set_pool("p", settings["reservations"], by="ann")
    assert len(queue.manager.configuration.settings()[0].pools[0].reservations) == 2
    queue.manager.configuration.set_pool("p", {"reserve_after": 30}, by="ann")
    (left,) = queue.manager.configuration.settings()[0].pools[0].reservations
    assert iso(left.begins) == "2026-09-22T15:00:00.000Z"


def test_two_operators_do_not_overwrite_each_other() -> None:
    queue = world()
    seen = queue.manager.configuration.revision()
    queue.manager.configuration.set_pool("p", {"reservations": [SOON]}, by="ann", seen=seen)
    with pytest.raises(Outdated):
        queue.manager.configuration.set_pool("p", {"reservations": []}, by="bob", seen=seen)


def test_the_pass_of_its_begin_takes_the_slots() -> None:
    queue = world(SOON)
    submit(queue, "theirs", project="b", checkpoints="s3://bucket/saved")
    queue.deliver()
    submit(queue, "own", project="a")
    run = queue.manager.passes.run()
    assert run.wake_at == at("2026-09-21T15:00")
    queue.clock.set(at("2026-09-21T15:00"))
    queue.manager.passes.run()
    assert queue.job("theirs").state is JobState.STOPPING


def test_why_names_the_reservation() -> None:
    queue = world(SOON)
    submit(queue, "job", project="b", preemptible="false", longest=7_200)
    why = queue.manager.jobs.status("job").reason
    assert isinstance(why, SlotsSetAside)
    assert why.text() == (
        "1 of the 1 slot of pool p is reserved for project a from 15:00 UTC, 21 Sep to 16:00 UTC, "
        "21 Sep; the job needs 1 slot, may run for 2 h (MaxRuntimeInSeconds) and is not preemptible"
    )
    assert why.numbers()["begins"] == at("2026-09-21T15:00")
    (change,) = queue.manager.jobs.status("job").outlook.times
    assert iso(change.at) == "2026-09-21T16:00:00.000Z"
    assert "a reservation in pool p begins or ends" in change.sentence()


def test_a_short_job_starts() -> None:
    queue = world(SOON)
    submit(queue, "job", project="b", preemptible="false", longest=2_000)
    queue.manager.passes.run()
    assert queue.job("job").state is JobState.STARTING


def test_a_job_older_than_the_reservation_has_no_known_runtime() -> None:
    queue = world(slots=1)
    submit(queue, "runs", project="b", longest=60)
    submit(queue, "old", project="b", preemptible="false", longest=60)
    queue.manager.configuration.set_pool("p", {"reservations": [SOON]}, by="ann")
    why = queue.manager.jobs.status("old").reason
    assert why is not None
    assert "is older than the reservation" in why.text()


BOTH = (
    "reserved: 1 slot for a until 15:30 UTC, 21 Sep, 1 slot for b from 17:30 Europe/Berlin, 21 Sep"
)


def test_people_see_what_is_reserved() -> None:
    both = {**SOON, "project": "b", "begins": "2026-09-21T15:30Z", "zone": "Europe/Berlin"}
    queue = world({**SOON, "ends": "2026-09-21T15:30Z"}, both)
    said = []
    for when in ("2026-09-21T14:14", "2026-09-21T15:00", "2026-09-21T15:30", "2026-09-21T16:00"):
        queue.clock.set(at(when))
        (found,) = queue.manager.overview.pools()
        said.append(health(pool_view(found.pool, now=found.at, size=found.size, used=found.used)))
    assert said == [
        "reserved: 1 slot for a from 15:00 UTC, 21 Sep",
        BOTH,
        "reserved: 1 slot for b until 18:00 Europe/Berlin, 21 Sep",
        "ok",
    ]

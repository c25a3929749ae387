"""`slotq reserve`, `slotq reservations` and the client's methods under them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from slotq.cli.exits import ExitCode
from slotq.errors import InvalidRequest, NoSuchPool
from tests.unit.client.fake_queue import pool_view

FROM, TO = "2026-12-01 20:00 Europe/Berlin", "2026-12-02 08:00 Europe/Berlin"
BERLIN = {
    "project": "a",
    "slots": 2,
    "begins": "2026-12-01T20:00:00+01:00",
    "ends": "2026-12-02T08:00:00+01:00",
    "zone": "Europe/Berlin",
}


@pytest.fixture
def one_pool(queue):
    queue.pools = [pool_view("p5")]


@pytest.fixture
def two_pools(queue):
    queue.pools = [pool_view("p5", reservations=[BERLIN]), pool_view("p4")]


@pytest.mark.usefixtures("one_pool")
def test_a_reservation_is_made_shown_and_cancelled(slotq, http):
    made = slotq("reserve", "a", "2", FROM, TO)
    assert made.exit_code == ExitCode.OK, made.output
    new = {"project": "a", "slots": 2, "begins": FROM, "ends": TO}
    assert http.last_body() == {"reservations": [new], "revision": 0}
    assert f"{FROM}  {TO}  to come" in made.stdout
    second = slotq("reserve", "b", "1", "2026-12-03T20:00Z", "2026-12-03T21:00Z", "--pool", "p5")
    assert [entry["project"] for entry in http.last_body()["reservations"]] == ["a", "b"]
    assert http.last_body()["reservations"][0] == BERLIN
    assert second.stdout.count("to come") == 2
    found = json.loads(slotq("reservations", "--json").stdout)["reservations"]
    assert [(entry["pool"], entry["project"], entry["slots"]) for entry in found] == [
        ("p5", "a", 2), ("p5", "b", 1),
    ]  # fmt: skip
    assert found[0]["begins"] == "2026-12-01T19:00:00.000Z"
    gone = slotq("reservations", "cancel", "a", FROM)
    assert gone.exit_code == ExitCode.OK, gone.output
    assert [entry["project"] for entry in http.last_body()["reservations"]] == ["b"]
    assert slotq("reservations", "cancel", "b", "2026-12-03T21:00+01:00").exit_code == ExitCode.OK
    assert slotq("reservations").stdout.strip() == "no reservations"


@pytest.mark.usefixtures("two_pools")
def test_reservations_are_listed_by_pool(slotq):
    assert FROM in slotq("reservations", "list", "--pool", "p5").stdout
    assert slotq("reservations", "list", "--pool", "p4").stdout.strip() == "no reservations"
    assert "reserved: 2 slots for a from 20:00 Europe/Berlin, 1 Dec" in slotq("pools").stdout


@pytest.mark.usefixtures("two_pools")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("reserve", "a", "1", FROM, TO), "say which pool: p5, p4"),
        (("reserve", "a", "1", FROM, TO, "--pool", "p6"), "there is no pool 'p6'"),
        (("reserve", "a", "1", FROM, TO, "--pool", "p5"), "begin twice"),
        (("reserve", "a", "9", FROM, TO, "--pool", "p4"), "and the pool has 4 slots"),
        (("reserve", "a", "1", TO, FROM, "--pool", "p4"), "must end after they begin"),
        (("reserve", "a", "1", "2026-12-01 20:00", TO, "--pool", "p4"), "needs a zone"),
        (("reservations", "cancel", "a"), "say which pool: p5, p4"),
        (("reservations", "cancel", "b", "--pool", "p5"), "it has none"),
        (
            ("reservations", "cancel", "a", "2026-12-01T20:00Z", "--pool", "p5"),
            f"those of project 'a' begin at {FROM}",
        ),
        (("reservations", "cancel", "a", "tomorrow", "--pool", "p5"), "'tomorrow' is no time"),
    ],
)
def test_what_cannot_be_is_refused_by_name(slotq, queue, words, said):
    result = slotq(*words)
    assert result.exit_code not in {ExitCode.OK, ExitCode.USAGE}
    assert said in result.stderr
    assert queue.changes == []


@pytest.mark.parametrize(
    "words", [("reserve", "a", "0", FROM, TO), ("reserve", "a", "2", FROM), ("reserve", "a", "x")]
)
def test_a_wrong_command_line_changes_nothing(slotq, queue, words):
    assert slotq(*words).exit_code == ExitCode.USAGE
    assert queue.changes == []


@pytest.mark.usefixtures("two_pools")
def test_the_client_takes_times_and_texts(app, http):
    pools = app().client().pools
    begins, ends = datetime(2026, 12, 5, 20, tzinfo=UTC), datetime(2026, 12, 5, 22, tzinfo=UTC)
    pools.reserve("b", 1, begins, ends, pool="p4")
    assert http.last_body()["reservations"] == [
        {
            "project": "b",
            "slots": 1,
            "begins": "2026-12-05T20:00:00+00:00",
            "ends": "2026-12-05T22:00:00+00:00",
        }
    ]
    assert [found.project for found in pools.reservations()] == ["a", "b"]
    with pytest.raises(NoSuchPool):
        pools.cancel_reservation("b", pool="p6")
    with pytest.raises(InvalidRequest):
        pools.cancel_reservation("b")
    pools.cancel_reservation("b", begins, pool="p4")
    assert [found.project for found in pools.reservations()] == ["a"]

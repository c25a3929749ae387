"""Data of earlier versions is kept, and the queue continues with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.table import EXPIRES_AT, table_definition
from slotq_core.adapters.dynamodb.layout.validation import is_own, whole_job
from slotq_core.names import training_job_name
from slotq_core.policy.lines import line_of
from tests.functional.account import Account, add_job, forget, sample
from tests.functional.test_pools import set_pool
from tests.upgrade.conftest import THIS
from tests.upgrade.dump import TOKEN, body_of
from tests.upgrade.earlier import completes, live

MINUTE = 60_000
ENDED = {"completed", "failed", "cancelled", "stopped"}
IN_MAIN = {"older", "younger", "two-slots", "low", "evicted"}
THE_FIRST = "2026-11-20-656aad1"
OF_THE_DEPLOYMENT = "2026-11-20-ee519d4"
RELEASES = {"0.2.0"}
BEFORE_GANGS = "2026-11-23-de9059f"
"""Sweeps ran then, and gangs only in simulations."""
BEFORE_RECORDS = "2026-11-26-9b48d13"
"""Each stored field had a writer and a reader of its own then."""
WITH_GROUPS = {BEFORE_GANGS, BEFORE_RECORDS, THIS}
"""They also keep records of what attempts used."""


def states(its: Account) -> dict[str, str]:
    return {each["name"]: each["state"] for each in its.call("list-jobs")[1]["jobs"]}


def ticks(its: Account, times: int = 1) -> None:
    for _ in range(times):
        its.clock.set(its.clock.now() + MINUTE)
        its.send("tick")
        its.settle()


def findings(its: Account) -> list[Any]:
    status, said = its.call("examine")
    assert status == 200
    return list(said["findings"])


def started(its: Account, before: list[str], names: str | set[str]) -> list[str]:
    """The training jobs created since, of these jobs (or of all), in order."""
    new = [each.name for each in its.plane.jobs() if each.name not in before]
    return [each for each in new if not names or each.partition("-qstamp-")[0] in names]


def records(dumped: dict[str, Any], name: str, kind: str) -> list[dict[str, Any]]:
    own = (it for it in dumped["items"] if it["pk"]["S"] == f"JOB#{name}")
    return [it for it in own if it["sk"]["S"].startswith(kind)]


def waits(item: dict[str, Any], as_job: str = "") -> bool:
    """Whether the record is a waiting job's place, or a waiting job itself."""
    if as_job:
        return item.get(as_job, {}).get("S") in {"pending", "preempted"}
    return bool(item["pk"]["S"].startswith("WAITING#"))


def cancel(its: Account, name: str) -> int:
    return its.call({**sample("cancel-job"), "path": f"/jobs/{name}"})[0]


def test_the_tables_keys_and_indexes_are_the_same(dumped):
    """With another key CloudFormation would create another, empty table."""
    now = table_definition("any")
    assert {key: now[key] for key in dumped["keys"]} == dumped["keys"]
    assert now["GlobalSecondaryIndexes"] == dumped["indexes"]


def test_every_job_can_be_read(updated: Account, dumped):
    assert states(updated) == dumped["states"]
    for name, state in dumped["states"].items():
        shown = updated.job(name)
        assert shown["state"] == state
        assert len(shown["attempts"]) == len(records(dumped, name, "ATTEMPT#"))
        status, request = updated.call({**sample("get-request"), "path": f"/jobs/{name}/request"})
        assert status == 200
        assert request["request"]["TrainingJobName"] == name


def test_the_queue_continues_in_its_order(on_either: Account):
    before = [each.name for each in on_either.plane.jobs()]
    on_either.settle()
    ticks(on_either)
    assert started(on_either, before, IN_MAIN) == []
    for name in ("urgent", "running", "older", "younger"):
        completes(on_either, name)
    second, third = (training_job_name("evicted", number) for number in (2, 3))
    assert started(on_either, before, IN_MAIN) == ["older", "younger", second, "two-slots"]
    assert on_either.job("evicted")["state"] == "preempted"
    completes(on_either, "two-slots")
    assert started(on_either, before, IN_MAIN)[4:] == [third, "low"]
    assert [each for each in findings(on_either) if each["kind"] != "history"] == []


@pytest.mark.parametrize("news", ["come", "are lost"])
def test_work_in_flight_is_finished(updated: Account, news: str):
    """The eviction, the start without an event, the start without an answer, the back-offs."""
    before = [each.name for each in updated.plane.jobs()]
    if news == "are lost":
        updated.emitted.clear()
    updated.settle()
    ticks(updated, 12)
    for name in ("claims", "starting", "unanswered", "faulty", "no-capacity", "running", "urgent"):
        assert updated.job(name)["state"] == "running", name
    assert updated.job("giving-way")["state"] == "preempted"
    again = {training_job_name(name, 2) for name in ("faulty", "no-capacity")}
    assert {*started(updated, before, "")} == {"claims", *again}, "nothing was started twice"
    for name in ("running", "starting", "unanswered", "faulty", "no-capacity"):
        completes(updated, name)
        assert updated.job(name)["state"] == "completed"


def test_the_doctor_finds_only_what_the_first_version_left(updated: Account, dumped):
    """The first version marked no record of ended jobs: that is found, and repaired on request."""
    updated.settle()
    ticks(updated, 12)
    assert updated.letters.read == []
    unmarked = [
        name
        for name, state in dumped["states"].items()
        if state in ENDED and EXPIRES_AT not in records(dumped, name, "JOB")[0]
    ]
    found = {(each["kind"], each["subject"]) for each in findings(updated)}
    assert found == {("history", name) for name in unmarked}
    assert bool(unmarked) is (dumped["of"] == THE_FIRST)
    updated.call("mend")
    ticks(updated, 1)  # The queue examines itself at most once a minute.
    assert findings(updated) == []


def test_ended_jobs_expire_at_their_time(updated: Account, dumped):
    """And nothing else expires."""
    updated.settle()
    ticks(updated, 2)
    updated.call("mend")
    ticks(updated, 2)
    days = 30 * 86_400
    for name, state in states(updated).items():
        kept = [it for it in updated.items() if it["pk"]["S"] in {f"JOB#{name}", f"NAME#{name}"}]
        goes = {int(it[EXPIRES_AT]["N"]) if EXPIRES_AT in it else None for it in kept}
        if state in ENDED:
            (ended,) = (it["changedAt"]["N"] for it in records(dumped, name, "JOB"))
            assert goes == {int(ended) // 1000 + days}, name
        else:
            assert goes == {None}, name


def test_waiting_jobs_are_in_this_versions_lines(updated: Account):
    updated.settle()
    lines = {it["pk"]["S"].removeprefix("WAITING#") for it in updated.items() if waits(it)}
    assert {line_of(whole_job(it)) for it in updated.items() if waits(it, "jobState")} == lines
    updated.clock.set(updated.clock.now() + 2 * 60 * MINUTE)
    ticks(updated)
    assert all(is_own(it["sk"]["S"]) for it in updated.items() if it["pk"]["S"] == "LINES")


def test_names_stay_taken(updated: Account, dumped):
    updated.settle()
    for name in dumped["states"]:
        status, said = updated.call(add_job(TrainingJobName=name))
        assert (status, said["code"]) == (409, "name_taken"), name


@pytest.mark.parametrize("first", ["the cancel", "a pass"])
def test_any_job_can_be_cancelled(updated: Account, dumped, first: str):
    if first == "a pass":
        updated.settle()
    for name, state in dumped["states"].items():
        if state not in ENDED:
            assert cancel(updated, name) in {200, 202}
    updated.settle()
    ticks(updated, 7)
    assert {state for name, state in states(updated).items()} <= ENDED
    assert live(updated) == ["somebody-elses"]
    assert [each for each in findings(updated) if each["kind"] != "history"] == []


def test_pools_keep_the_operators_changes(updated: Account, dumped):
    """The setting is the initial value and does not override an operator's change."""
    before = [it for it in dumped["items"] if it["pk"]["S"] == "CONFIG"]
    updated.settle()
    ticks(updated)
    assert [it for it in updated.items() if it["pk"]["S"] == "CONFIG"] == before
    pools = updated.call("list-pools")[1]["pools"]
    slots = {each["name"]: each["capacity"]["slots"] for each in pools}
    changed = any(it.get("who", {}).get("S", "").startswith("arn:") for it in before)
    grids = {"grids": 1} if dumped["of"] in WITH_GROUPS else {}
    assert slots == {"main": 2, "small": 1, "spare": 5 if changed else 4, "scarce": 1, **grids}
    assert changed is (dumped["of"] in {OF_THE_DEPLOYMENT, *RELEASES, *WITH_GROUPS})


def test_a_held_job_is_released(updated: Account, dumped):
    if "held" not in dumped["states"]:
        pytest.skip("that version held no jobs")
    updated.settle()
    assert updated.job("held")["state"] == "held"
    event = {**sample("amend-job"), "path": "/jobs/held", "body": json.dumps({"held": False})}
    assert updated.call(event)[0] == 200
    completes(updated, "urgent")
    assert updated.job("held")["state"] == "running"


def test_projects_come_to_a_queue_of_jobs_without_one(updated: Account):
    """They take what they deserve, and nobody who was there before is lost."""
    updated.settle()
    ticks(updated)
    before = [each.name for each in updated.plane.jobs()]
    there = {name for name, state in states(updated).items() if state not in ENDED}
    configure(updated, projects=[{"name": "vision", "quota": 1, "members": ["everyone"]}])
    tags = [{"Key": "slotq:project", "Value": "vision"}, {"Key": "slotq:pools", "Value": "main"}]
    assert updated.call(add_job(TrainingJobName="deserving", Tags=tags))[0] == 202
    updated.settle()
    ticks(updated, 3)
    assert started(updated, before, {"deserving"}) == ["deserving"]
    assert there <= {name for name, state in states(updated).items() if state not in ENDED}
    completes(updated, "deserving")
    ticks(updated)
    assert len([name for name in IN_MAIN | {"urgent", "running"} if _runs(updated, name)]) == 2


def test_attempts_are_counted_in_a_queue_that_knew_none(updated: Account):
    """What waits backs off, and keeps its place for when the settings go again."""
    updated.settle()
    ticks(updated)
    assert "scheduler" not in updated.call("get-configuration")[1]["configuration"]
    older = updated.job("older")
    assert older["state"] == "pending"
    configure(updated, scheduler={"max_schedule_count": 9})
    updated.settle()
    ticks(updated)
    assert updated.job("older")["reason"]["code"] == "tries_again"
    configure(updated, scheduler={})
    ticks(updated, 3)
    assert updated.job("older") == {**older, "changed_at": updated.job("older")["changed_at"]}


def configure(its: Account, **sections: Any) -> None:
    """Replace these sections of the configuration."""
    shown = its.call("get-configuration")[1]
    document = {**shown["configuration"], **sections}
    event = sample("apply-configuration")
    body = json.dumps({"configuration": document, "revision": shown["revision"]})
    event |= {"body": body, "queryStringParameters": None}
    status, said = its.call({**event, "multiValueQueryStringParameters": None})
    assert status == 200, said


def _runs(its: Account, name: str) -> bool:
    return bool(its.job(name)["state"] == "running")


def test_a_sweep_goes_on_and_a_gang_starts_beside_it(on_either: Account, dumped):
    """The decisions about groups are counted on from where they were."""
    if dumped["of"] not in WITH_GROUPS:
        pytest.skip("that version knew no groups")
    on_either.settle()
    before = states(on_either)
    assert (before["grid-1"], before["grid-2"]) == ("running", "pending")
    ring = [
        body_of(name, 0, 1, {"pools": pools}) for name, pools in (("r1", "grids"), ("r2", "spare"))
    ]
    members = [json.loads(add_job(**body)["body"]) for body in ring]
    body = {"name": "ring", "gang": {}, "members": members}
    event = {**sample("submit-gang"), "body": json.dumps(body)}
    assert on_either.call(event)[0] == 202
    on_either.settle()
    for name, waiting in (("grid-1", "pending"), ("grid-2", "running")):
        completes(on_either, name)
        ticks(on_either)
        after = states(on_either)
        assert (after["r1"], after["r2"]) == (waiting, waiting)
    shown = on_either.call({**sample("get-group"), "path": "/groups/grid"})[1]
    assert shown["states"] == {"completed": 2}


def test_running_attempts_count_from_their_items(on_either: Account, dumped):
    """An earlier version's table has no record of use: what runs counts whole, what had ended does
    not, and the queue goes on to count what ends."""
    held = _slot_hours(on_either)
    counted = _running_since(dumped)
    if dumped["of"] not in WITH_GROUPS:
        assert held == pytest.approx(sum(counted.values()))
    else:
        assert held >= sum(counted.values())
    on_either.settle()
    completes(on_either, "running")
    ticks(on_either, 2)
    assert _slot_hours(on_either) >= held
    kinds = {item["pk"]["S"].partition("#")[0] for item in on_either.items()}
    assert "ENDED" in kinds


def _slot_hours(its: Account) -> float:
    event = sample("get-usage")
    multiple = {"from": ["2026-01-01"]}
    status, said = its.call(
        {**event, "queryStringParameters": None, "multiValueQueryStringParameters": multiple}
    )
    assert (status, said["next"]) == (200, None)
    return float(sum(row["slot_seconds"] for row in said["rows"]))


def _running_since(dumped: dict[str, Any]) -> dict[str, float]:
    """The slot-seconds that each active job has held until the moment of the dump."""
    found = {}
    for item in dumped["items"]:
        if item["sk"]["S"].startswith("ACTIVE#"):
            job_item = item["job"]["M"]
            admitted = int(job_item["attempt"]["M"]["admittedAt"]["N"])
            slots = int(job_item["demand"]["M"]["slots"]["N"])
            found[item["sk"]["S"]] = slots * (dumped["now"] - admitted) / 1000
    return found


def test_hundreds_of_pools_come_to_an_earlier_queue(updated: Account):
    """They are configured in parts, and nobody who ran or waited before is lost."""
    updated.settle()
    ticks(updated)
    before = states(updated)
    pools = updated.call("get-configuration")[1]["configuration"]["pools"]
    kind = pools[0]["instance_type"]
    more = [{"name": f"p{n}", "instance_type": kind, "capacity": 1} for n in range(150)]
    configure(updated, pools=[*pools, *more])
    ticks(updated)
    assert states(updated) == before
    assert len(updated.call("list-pools")[1]["pools"]) == len(pools) + 150
    tags = [{"Key": "slotq:pools", "Value": "p149"}]
    assert updated.call(add_job(TrainingJobName="in-the-last", Tags=tags))[0] == 202
    updated.settle()
    shown = updated.job("in-the-last")
    assert shown["state"] == "running", shown
    completes(updated, "in-the-last")
    completes(updated, "urgent")
    assert updated.job("urgent")["state"] == "completed"
    configure(updated, pools=pools)
    assert [each for each in findings(updated) if each["kind"] != "history"] == []


def test_a_request_for_spot_stays_where_it_was_accepted(updated: Account):
    """A queue without spot pools takes it as it always did, with a warning, until 0.4. A spot pool
    that comes changes nothing for jobs that are there, whether they wait or run."""
    updated.settle()
    kind = "ml.r5.large"
    terms = {"MaxRuntimeInSeconds": 3_600, "MaxWaitTimeInSeconds": 7_200}
    asked = {
        "EnableManagedSpotTraining": True,
        "StoppingCondition": terms,
        "ResourceConfig": {"InstanceType": kind, "InstanceCount": 1, "VolumeSizeInGB": 1},
        "Tags": [],
    }

    def submit(name: str) -> Any:
        status, said = updated.call(add_job(TrainingJobName=name, **asked))
        assert status == 202, said
        updated.settle()
        return said

    assert updated.call(set_pool({"slots": 1, "instance_type": kind}, "dear"))[0] == 200
    for name in ("asked-first", "asked-second"):
        said = submit(name)
        assert said["pools"] == ["dear"]
        assert "from version 0.4 on such a request is refused" in "".join(said["warnings"])
    cheap = {"slots": 1, "instance_type": kind, "capacity_kind": "spot"}
    assert updated.call(set_pool(cheap, "cheap"))[0] == 200
    said = submit("asked-third")
    assert (said["pools"], said["warnings"]) == (["cheap"], [])
    assert updated.job("asked-second")["pools"] == ["dear"]
    completes(updated, "asked-first")
    ticks(updated)
    for name, pool in (("asked-second", "dear"), ("asked-third", "cheap")):
        shown = updated.job(name)
        assert (shown["state"], shown["pool"]) == ("running", pool)
        found = updated.plane.job(name)
        assert found is not None
        assert found.request["EnableManagedSpotTraining"] is True
    kept = updated.plane.job("asked-second")
    assert kept is not None and kept.request["StoppingCondition"] == terms


def test_earlier_attempts_are_on_demand(updated: Account, dumped):
    updated.settle()
    attempts = [
        attempt for name in dumped["states"] for attempt in updated.job(name).get("attempts", ())
    ]
    assert attempts
    assert {attempt["capacity_kind"] for attempt in attempts} == {"on_demand"}
    assert not any(attempt["interruptions"] for attempt in attempts)


def test_a_state_machine_may_wait_for_an_earlier_versions_job(
    updated: Account, dumped, monkeypatch: pytest.MonkeyPatch
):
    """Its digest is of the body without a callback, in every version."""
    monkeypatch.setenv("SLOTQ_CALLBACKS", "task")
    forget()
    body = body_of("running", 5, 1, {"pools": "main"})
    status, said = updated.call(add_job(**body, **{"slotq:callback": {"task_token": "new"}}))
    assert (status, said["state"]) == (202, "running"), said
    completes(updated, "running")
    updated.send("tick")
    told = {request["taskToken"]: operation for operation, request in updated.waits.answers()}
    superseded = {TOKEN: "send_task_failure"} if dumped["of"] == THIS else {}
    assert told == {"new": "send_task_success", **superseded}

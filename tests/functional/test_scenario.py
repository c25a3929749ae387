"""GET /scenario, through the real handler: what the next pass decides on, without others' names."""

import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

import app
from slotq.errors import Outdated
from slotq.queue_calls import whole_scenario
from slotq.simulate.whatif import ForecastInput, forecast
from slotq.simulate.whatif.forecast import Runtimes
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool
from slotq_core.operations.jobs import queue_snapshots
from slotq_core.policy.plan import Decision
from slotq_core.storage.snapshots import FIRST_JOBS
from slotq_core.wire.scenario.views import ScenarioView
from tests.functional.account import HOUR, NOW, Account, add_job, sample
from tests.functional.sharing import OPERATOR, OTHER, OWNER, request, share
from tests.functional.sharing import submit as submit_to

CALLER = sample("add-job")["requestContext"]["identity"]["userArn"]
TYPE = json.loads(sample("add-job")["body"])["ResourceConfig"]["InstanceType"]


def page(account: Account, following: str | None = None) -> tuple[int, dict[str, Any]]:
    query = None if following is None else {"next": following}
    return account.call({**sample("get-scenario"), "queryStringParameters": query})


def scenario(account: Account) -> dict[str, Any]:
    status, told = page(account)
    assert status == 200, told
    return told


def told(account: Account) -> ForecastInput:
    return ForecastInput.of(ScenarioView.model_validate(scenario(account)))


def in_short(decisions: tuple[Decision, ...]) -> list[tuple[Any, ...]]:
    """What is decided of whom: the kinds, the jobs, the pools."""
    return [
        (
            type(each).__name__,
            getattr(getattr(each, "job", getattr(each, "beneficiary", None)), "name", None),
            [job.name for job in getattr(each, "victims", ())],
            getattr(each, "pool", getattr(getattr(each, "claim", None), "pool", None)),
        )
        for each in decisions
    ]


def submit(account: Account, name: str, *, slots: int = 1, **tags: object) -> None:
    body = {
        "TrainingJobName": name,
        "ResourceConfig": {
            "InstanceType": TYPE,
            "InstanceCount": slots,
            "VolumeSizeInGB": 30,
        },
        "Tags": [
            {"Key": key.replace("_", "-"), "Value": str(value)} for key, value in tags.items()
        ],
    }
    status, answer = account.call(add_job(**body))
    assert status == 202, answer


@pytest.mark.parametrize("seed", range(12))
def test_what_if_nothing_changes_is_what_the_next_pass_decides(account: Account, seed: int):
    chance = random.Random(seed)
    store = app.manager()._store
    pools = [
        Pool(name=name, instance_type=TYPE, capacity=Demand(slots=chance.randint(1, 4)))
        for name in ("main", "other")[: chance.randint(1, 2)]
    ]
    store.configuration.change(pools, who="test", now=NOW)
    for number in range(chance.randint(3, 12)):
        submit(
            account,
            f"j{number}",
            slots=chance.randint(1, min(pool.capacity.slots for pool in pools)),
            priority=chance.randint(0, 3),
            **({"slotq:preemptible": "false"} if chance.random() < 0.2 else {}),
        )
        if chance.random() < 0.4:
            account.settle()
        if chance.random() < 0.5:
            account.clock.set(account.clock.now() + chance.randint(1, HOUR // 2))
    found = forecast(told(account), hours=1, runtimes=Runtimes())
    done = in_short(app.manager().passes.run().decisions)
    first = in_short(found.first.decisions)
    assert first == done[: len(first)]
    assert bool(first) == bool(done)
    starts = {
        each.job
        for each in found.record.events
        if (each.t, each.event) == (found.queue.at, "start")
    }
    assert starts == {job for kind, job, *_ in done if kind == "Start"}


def test_others_are_shown_without_names(account: Account):
    share()
    submit_to(account, "seen", "vision", by=OWNER)
    submit_to(account, "secret-plan", "speech", by=OTHER)
    account.settle()

    def asked(by: str) -> dict[str, Any]:
        status, answer = account.call(request("GET", "/scenario", by=by))
        assert status == 200, answer
        return answer

    answer = asked(OWNER)
    assert answer["withheld"] == 1
    jobs = {job["name"]: job for job in answer["jobs"]}
    assert set(jobs) == {"seen", "(withheld 1)"}
    hidden = jobs["(withheld 1)"]
    assert (hidden["withheld"], hidden["project"], hidden["demand"]) == (
        True,
        "speech",
        {"slots": 1},
    )
    assert "secret-plan" not in json.dumps(answer)
    assert "otto" not in json.dumps(answer["jobs"])
    assert "withheld" not in asked(OPERATOR)
    assert {job["name"] for job in asked(OPERATOR)["jobs"]} == {"seen", "secret-plan"}


def test_of_a_long_queue_the_first_of_each_line_are_told(
    account: Account, monkeypatch: pytest.MonkeyPatch
):
    for number in range(30):
        submit(account, f"j{number:02}", priority=1)
    monkeypatch.setattr(queue_snapshots, "MOST_JOBS", 20)
    answer = scenario(account)
    assert len(answer["jobs"]) == FIRST_JOBS
    assert 0 < answer["left_out"] <= 30 - FIRST_JOBS
    found = forecast(told(account), hours=1, runtimes=Runtimes())
    assert in_short(found.first.decisions) == in_short(app.manager().passes.run().decisions)[:2]


def test_held_jobs_and_those_after_others_are_told(account: Account):
    submit(account, "first")
    submit(account, "then", **{"slotq:after": "first"})
    submit(account, "kept", slots=2)
    status, _ = account.call(request("PATCH", "/jobs/kept", by=CALLER, body={"held": True}))
    assert status == 200
    states = {job["name"]: (job["state"], job.get("after")) for job in scenario(account)["jobs"]}
    assert states == {
        "first": ("pending", None), "then": ("pending", ["first"]), "kept": ("held", None),
    }  # fmt: skip
    found = forecast(told(account), hours=48, runtimes=Runtimes(every=HOUR))
    starts = [each.job for each in found.record.events if each.event == "start"]
    assert starts == ["first", "then"]


@pytest.fixture
def crowded(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    """Forty jobs, in pages of about ten."""
    for number in range(40):
        submit(account, f"job{number:02}")
    account.settle()
    configuration = len(json.dumps(scenario(account)["configuration"]))
    monkeypatch.setattr("slotq_core.api.queue.MOST_ANSWER", configuration + 5_000)
    return account


def view_of(account: Account) -> Callable[[str | None], ScenarioView]:
    """The client's reading of one page."""

    def read(following: str | None) -> ScenarioView:
        status, told = page(account, following)
        if status == 409:
            raise Outdated(told["message"])
        assert status == 200, told
        return ScenarioView.model_validate(told)

    return read


def test_a_long_queue_is_put_together_from_its_pages(crowded: Account, monkeypatch):
    together = whole_scenario(view_of(crowded))
    first = scenario(crowded)
    assert 2 < len(first["jobs"]) < 30
    assert first["left_out"] == 40 - len(first["jobs"])
    assert {job["state"] for job in first["jobs"][:2]} == {"running"}
    sizes, following = [], first["next"]
    while following is not None:
        status, told = page(crowded, following)
        assert status == 200
        sizes.append(len(json.dumps(told, separators=(",", ":"))))
        following = told.get("next")
    assert max(sizes) <= 5_000 + len(json.dumps(first["configuration"]))
    monkeypatch.undo()
    whole = ScenarioView.model_validate(scenario(crowded))
    assert together.left_out == 0
    assert [job.name for job in together.jobs] == [job.name for job in whole.jobs]
    assert ForecastInput.of(together).snapshot() == ForecastInput.of(whole).snapshot()


def test_pages_of_two_moments_are_never_put_together(crowded: Account):
    following = scenario(crowded)["next"]
    crowded.call({**sample("cancel-job"), "path": "/jobs/job39"})
    status, told = page(crowded, following)
    assert (status, told["code"]) == (409, "outdated")
    whole = whole_scenario(view_of(crowded))
    assert len(whole.jobs) == 39


def test_of_a_queue_that_never_rests_the_first_page_says_what_it_leaves_out(crowded: Account):
    read, count = view_of(crowded), itertools.count()

    def restless(following: str | None) -> ScenarioView:
        if following is not None:
            crowded.call({**sample("cancel-job"), "path": f"/jobs/job{39 - next(count)}"})
        return read(following)

    found = whole_scenario(restless)
    assert len(found.jobs) + found.left_out == 37
    assert found.left_out > 5
    assert ForecastInput.of(found).left_out == found.left_out


@pytest.mark.parametrize("following", ["", "x", "0123456789ab", "0123456789ab~x", "~1"])
def test_a_cursor_that_no_page_has_answered_is_refused(account: Account, following: str):
    status, told = page(account, following)
    assert (status, told["field"]) == (400, "next")

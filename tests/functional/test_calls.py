"""What each trigger asks of DynamoDB, counted through the real handler: it does not grow with what
waits, and an event after which no decision changes runs no pass."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest

import app
from benchmarks.live.account import handler_over
from benchmarks.live.engine import Engine
from benchmarks.live.meter import Usage
from slotq_core import __version__
from slotq_core.model.callers import Access
from slotq_core.model.projects import Prescription, Project
from slotq_core.model.sharing import Sharing
from slotq_core.policy.lines import line_of
from tests.cloudformation import template
from tests.contract.test_dynamodb_cost import fill
from tests.contract.worlds import a_job
from tests.functional.account import NOW, TABLE, Account, add_job, sample

WAITING, LINES = 2_000, 200

Measured = Callable[..., Usage]


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def account(engine: Engine) -> Iterator[Account]:
    """With the limits of the template, which a submission counts."""
    limits = template()["Parameters"]["Limits"]["Default"]
    with handler_over(engine, "main=2@ml.p4d.24xlarge", limits=limits) as account:
        account.send("tick")  # A cold start belongs to nobody.
        account.call(add_job(TrainingJobName=None))
        yield account


def amending(**body: Any) -> dict[str, Any]:
    return {**sample("amend-job"), "body": json.dumps(body)}


def downloading() -> dict[str, Any]:
    event = sample("training-in-progress")
    event["detail"]["SecondaryStatus"] = "Downloading"
    return event


@pytest.fixture
def measured(account: Account, engine: Engine) -> Measured:
    def measure(*events: dict[str, Any] | str) -> Usage:
        with engine.meter.counting() as usage:
            for event in events:
                answer = account.send(event)
                assert answer.get("statusCode", 200) < 300, answer
        return usage

    return measure


def crowd(account: Account) -> None:
    bare = replace(a_job("any", slots=2, pools=("main",)), version=1)
    jobs = [
        replace(
            bare,
            name=f"waiting-{n}",
            priority=n % LINES,
            entry_time=NOW - WAITING + n,
            changed_at=NOW - WAITING + n,
        )
        for n in range(WAITING)
    ]
    assert len({line_of(job) for job in jobs}) == LINES
    fill(account.dynamodb, TABLE, jobs)


def test_a_submission_costs_five_calls_whatever_waits(account: Account, measured: Measured):
    costs = []
    for turn in ("alone", "behind"):
        first, again, other = (add_job(TrainingJobName=f"{turn}-{n}") for n in range(3))
        costs += [measured(event) for event in (first, again, other)]
        account.lambda_.events.clear()
        crowd(account)
    assert max(len(cost.calls) for cost in costs) <= 5
    assert max(cost.read_units for cost in costs) <= 5
    assert [cost.read_units for cost in costs] == [costs[0].read_units] * 6
    assert len(costs[1].calls) == len(costs[0].calls) - 1, "its line was touched just now"


def test_a_repeated_submission_costs_as_few_and_counts_once(account: Account, measured: Measured):
    measured(add_job())
    again = measured(add_job())
    assert len(again.calls) <= 5
    limits = account.call(sample("get-limits"))[1]
    assert limits["own"]["waiting_used"] == 1


def test_a_place_for_checkpoints_costs_no_call(account: Account, measured: Measured):
    bare = [add_job(TrainingJobName=f"bare-{n}", CheckpointConfig=None) for n in range(3)]
    measured(bare[0])
    warned = measured(bare[1])
    account.call({**sample("set-pool"), "body": json.dumps({"checkpoints": "provide"})})
    account.call(add_job(TrainingJobName="reads-the-new-configuration"))
    provided = measured(bare[2])
    assert len(provided.calls) == len(warned.calls) <= 5
    assert provided.read_units == warned.read_units


def test_a_thousand_projects_cost_a_submission_no_read(account: Account, measured: Measured):
    without = [measured(add_job(TrainingJobName=f"without-{n}")) for n in range(2)]
    caller = add_job()["requestContext"]["identity"]["userArn"]
    own = Project(name="own", access=Access(members=(caller.rpartition("/")[0],)))
    others = (
        Project(name=f"p{n}", access=Access(members=(f"arn:aws:iam::1:role/team-{n}",)))
        for n in range(1_000)
    )
    sharing = Sharing(projects=(*others, own), operators=("arn:aws:iam::1:role/ops",))
    app.manager()._store.configuration.change(sharing=sharing, who="test", now=NOW)
    account.call(add_job(TrainingJobName="reads-the-new-configuration"))
    shared = [measured(add_job(TrainingJobName=f"shared-{n}")) for n in range(2)]
    assert account.job("shared-0")["project"] == "own"
    assert {cost.operations["GetItem"] for cost in (*shared, *without)} == {1}
    assert [cost.read_units for cost in shared] == [cost.read_units for cost in without]
    assert max(len(cost.calls) for cost in shared) <= 5


LIMITED = Prescription(max_priority=10, waiting=1_000, submissions=1_000)


@pytest.mark.parametrize(
    ("rules", "most"), [(LIMITED, 6), (replace(LIMITED, approval=True), 6)], ids=["", "approval"]
)
def test_all_limits_of_a_project_cost_a_submission_one_call_more(
    account: Account, measured: Measured, rules: Prescription, most: int
):
    """The project's counter. One transaction for both counters would save it, and would make all
    submissions to the project collide there. A job that is held for approval needs no bump, but
    lists show it."""
    caller = add_job()["requestContext"]["identity"]["userArn"].rpartition("/")[0]
    own = Project(name="own", access=Access(members=(caller,)), requests=rules)
    app.manager()._store.configuration.change(sharing=Sharing(projects=(own,)), who="test", now=NOW)
    account.call(add_job(TrainingJobName="reads-the-new-configuration"))
    crowd(account)
    slots = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2}
    other_line = add_job(TrainingJobName="other-line", ResourceConfig=slots)
    costs = [measured(add_job(TrainingJobName="again")), measured(other_line)]
    assert account.job("other-line")["project"] == "own"
    assert max(len(cost.calls) for cost in costs) <= most
    assert max(cost.read_units for cost in costs) <= 5


def test_projects_cost_other_verbs_one_read(account: Account, measured: Measured):
    """Whether the caller may: the revision of the configuration."""
    caller = add_job()["requestContext"]["identity"]["userArn"]
    own = Project(name="own", access=Access(members=(caller.rpartition("/")[0],)))
    account.call(add_job(TrainingJobName="without"))
    hold = {**amending(held=True), "path": "/jobs/without"}
    without = measured(hold)
    sharing = Sharing(projects=(own,))
    app.manager()._store.configuration.change(sharing=sharing, who="test", now=NOW)
    account.call(add_job(TrainingJobName="shared"))
    shared = measured({**hold, "path": "/jobs/shared"})
    assert shared.operations["GetItem"] == without.operations["GetItem"] + 1
    assert shared.read_units == without.read_units + 1


def test_an_answer_to_a_submission_tells_no_place(account: Account):
    status, job = account.call("add-job")
    assert (status, job["state"], job["place"], job["reason"]) == (202, "pending", None, None)
    assert account.call("get-job")[1]["place"] == 1


def test_other_verbs_read_no_line(account: Account, measured: Measured):
    crowd(account)
    measured(add_job())
    verbs = amending(held=True), amending(held=False), sample("amend-job"), sample("cancel-job")
    for verb in verbs:
        cost = measured(verb)
        assert cost.read_units <= 5, verb["body"]
        assert len(cost.calls) <= 6, verb["body"]


def test_events_that_change_no_decision_run_no_pass(account: Account, measured: Measured):
    account.call("add-job")
    account.send("pass")
    events = ("training-starting", downloading(), "training-in-progress")
    costs = [measured(event) for event in events]
    assert [len(cost.calls) for cost in costs] == [1, 4, 1], "one tells lists that it has changed"
    repeated = measured(*events)
    assert repeated.operations == {"GetItem": 3}
    assert repeated.write_units == 0


def test_an_event_that_frees_slots_bumps_and_takes_the_lease_in_one_call(
    account: Account, measured: Measured
):
    account.call("add-job")
    account.settle()
    cost = measured("training-completed")
    wakes = cost.operations["UpdateItem"]
    assert (wakes, cost.operations["TransactWriteItems"]) == (2, 1), (
        "lease and its end; the job's end"
    )


def test_no_pass_is_asked_for_while_one_is_under_way(account: Account):
    account.call(add_job(TrainingJobName="first"))
    assert len(account.lambda_.calls) == 1
    store = app.manager()._store
    lease = store.scheduler.take_lease("another", now=NOW, until=NOW + 40_000)
    account.call(add_job(TrainingJobName="second"))
    assert len(account.lambda_.calls) == 1
    assert not store.scheduler.end_lease("another", generation=lease), (
        "its holder decides once more"
    )
    account.clock.set(NOW + 40_000)
    account.call(add_job(TrainingJobName="third"))
    assert len(account.lambda_.calls) == 2, "its holder has died"


def test_calls_name_the_queue_as_their_user_agent():
    class Sent(Exception):
        pass

    def stop(request: Any, **_: Any) -> None:
        raise Sent(request.headers["User-Agent"])

    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    config = app.client_config("dynamodb")
    client = boto3.client("dynamodb", region_name="us-east-1", config=config, **keys)
    client.meta.events.register("before-send.dynamodb.ListTables", stop)
    with pytest.raises(Sent, match=rf"slotq/{__version__} Botocore/"):
        client.list_tables()

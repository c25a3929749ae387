"""Entity tags through the real handler: a 304 costs one read, and hides no change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import app
from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.dynamodb.wake import DynamoScheduler
from slotq_core.api.routes import ROUTES
from slotq_core.api.tags import LONGEST, SHORTEST, WITH_REPORTS
from slotq_core.errors import Unavailable
from slotq_core.model.callers import Access
from slotq_core.operations.overview import Overview
from tests.functional.account import TABLE, Account, add_job, sample
from tests.functional.sharing import (
    MEMBER,
    OPERATOR,
    OWNER,
    PEOPLE,
    SHARING,
    SPEECH,
    VISION,
    amend,
    request,
    share,
    submit,
)
from tests.functional.test_reports import write

ADA = "arn:aws:sts::123456789012:assumed-role/DataScientist/ada"
EVE = "arn:aws:sts::123456789012:assumed-role/DataScientist/eve"
LISTS = ("/jobs", "/pools", "/groups", "/projects", "/quota", "/scenario", "/nodes", "/jobs/job1")


def get(
    account: Account, path: str = "/jobs", *, by: str = ADA, tag: str = "", **query: str
) -> tuple[int, str, Any]:
    """Ask once; the status, the tag and the body."""
    event = request("GET", path, by=by, query={name: [text] for name, text in query.items()})
    if tag:
        event["multiValueHeaders"] = {**event["multiValueHeaders"], "if-none-match": [tag]}
    answer = account.send(event)
    headers = answer["multiValueHeaders"]
    if answer["statusCode"] == 304:
        assert answer["body"] == "" and "Content-Type" not in headers
    if answer["statusCode"] in {200, 304}:
        assert headers["Cache-Control"] == ["private, no-cache"]
        assert headers["Vary"] == ["Authorization, Accept-Encoding"]
    body = json.loads(answer["body"]) if answer["body"] else None
    return answer["statusCode"], headers.get("ETag", [""])[0], body


def seconds(account: Account, number: float) -> None:
    account.pass_time(round(1000 * number))


def settled(account: Account, path: str = "/jobs", *, by: str = ADA, **query: str) -> str:
    """A tag that holds for the longest time."""
    _, tag, _ = get(account, path, by=by, **query)
    seconds(account, SHORTEST)
    status, tag, _ = get(account, path, by=by, tag=tag, **query)
    assert status == 200
    assert f"-{LONGEST}-" in tag or f"-{WITH_REPORTS}-" in tag
    return tag


def _calls() -> TableCalls:
    store = app.manager()._store
    assert isinstance(store, DynamoStore)
    return store._calls


@pytest.fixture
def some(account: Account) -> Account:
    """job1 runs, job2 waits."""
    account.submit("job1", "job2", "job3", "job4")
    account.settle()
    return account


def test_the_routes_that_people_look_at_again_and_again_are_tagged() -> None:
    tagged = {route.path for route in ROUTES if route.tagged}
    assert tagged == {
        "/jobs", "/jobs/<name>", "/groups", "/groups/<name>", "/pools", "/projects", "/quota",
        "/scenario", "/nodes",
    }  # fmt: skip
    assert all(route.method == "GET" for route in ROUTES if route.tagged)


class Recording:
    """A client that records the names of its calls."""

    def __init__(self, client: Any) -> None:
        self._client, self.made = client, list[str]()

    def __getattr__(self, name: str) -> Any:
        self.made.append(name)
        return getattr(self._client, name)


@pytest.mark.parametrize("path", LISTS)
def test_what_has_not_changed_costs_one_read(
    some: Account, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    status, tag, body = get(some, path)
    assert status == 200 and body and tag.startswith('W/"')
    recording = Recording(some.dynamodb)
    monkeypatch.setattr(_calls(), "_client", recording)
    assert get(some, path, tag=tag) == (304, tag, None)
    assert recording.made == ["get_item"]


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("{tag}", 304),
        ("{strong}", 304),
        ('"other", {tag}', 304),
        ('W/"a,b" ,\t{tag},', 304),
        ("*", 304),
        (" * ", 304),
        ('"*"', 200),
        ('"other"', 200),
        ("{tag} {tag}", 200),
        ("{tag}x", 200),
        ("w/{strong}", 200),
        ("{bare}", 200),
        ("", 200),
        ('"' * 3, 200),
        ("x" * 5_000, 200),
        ('"{},' * 1_000, 200),
        ("\u2603", 200),
        ('W/"7fffffffffff-99-' + "0" * 24 + '"', 200),
    ],
)
def test_if_none_match(some: Account, said: str, status: int) -> None:
    _, tag, _ = get(some)
    strong = tag.removeprefix("W/")
    text = said.replace("{tag}", tag).replace("{strong}", strong)
    assert get(some, tag=text.replace("{bare}", strong.strip('"')))[0] == status


def test_several_headers_are_one_list(some: Account) -> None:
    _, tag, _ = get(some)
    event = request("GET", "/jobs", by=ADA)
    event["multiValueHeaders"]["If-None-Match"] = ['"a"', tag]
    assert some.send(event)["statusCode"] == 304
    single = {**request("GET", "/jobs", by=ADA), "multiValueHeaders": None}
    single["headers"] = {"IF-NONE-MATCH": tag}
    assert some.send(single)["statusCode"] == 304


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/jobs/unknown", {}, 404),
        ("/groups/unknown", {}, 404),
        ("/jobs", {"state": "asleep"}, 400),
        ("/jobs", {"unknown": "1"}, 400),
    ],
)
def test_a_refusal_is_a_refusal_whatever_the_caller_has(
    some: Account, path: str, query: dict[str, str], status: int
) -> None:
    for tag in ("", "*"):
        assert get(some, path, tag=tag, **query)[:2] == (status, "")


def _hold(account: Account) -> None:
    assert amend(account, "job3", by=ADA, held=True)[0] == 200


def _cancel(account: Account) -> None:
    assert account.call(request("DELETE", "/jobs/job3", by=ADA))[0] == 200


def _bulk(account: Account) -> None:
    changes = {"changes": [{"name": "job4", "cancel": True}]}
    assert account.call(request("PATCH", "/jobs", by=ADA, body=changes))[0] == 200


def _group(account: Account) -> None:
    member = json.loads(add_job(TrainingJobName="m1", Tags=[])["body"])
    body = {"name": "grid", "max_parallel": 1, "members": [member]}
    assert account.call(request("POST", "/groups", by=ADA, body=body))[0] == 202


def _begins(account: Account) -> None:
    """SageMaker tells that job1 runs: no pass follows."""
    event = sample("training-in-progress")
    event["detail"]["TrainingJobName"] = "job1"
    event["detail"].pop("Tags", None)
    account.send(event)
    assert not account.lambda_.events


def _pool(account: Account) -> None:
    body = {"slots": 3}
    assert account.call(request("PATCH", "/pools/main", by=ADA, body=body))[0] == 200


def _foreign(account: Account) -> None:
    """The reconciliation finds another's training job, by the store of another container."""
    app.manager()._store.health.set_foreign("main", app.manager().overview.pools()[0].used)
    account.send("poison-detail-is-text")


CHANGES: dict[str, Callable[[Account], None]] = {
    "a submission": lambda account: account.submit("job9"),
    "a hold": _hold,
    "a cancel": _cancel,
    "several changes": _bulk,
    "a group": _group,
    "an end": lambda account: account.completes("job1"),
    "a pool's size": _pool,
    "foreign use": _foreign,
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_change_is_hidden(some: Account, change: str) -> None:
    """Whoever asks after the change gets a new answer, although the tag would hold for long."""
    tags = {path: settled(some, path) for path in LISTS}
    CHANGES[change](some)
    for path, tag in tags.items():
        status, newer, _ = get(some, path, tag=tag)
        assert (status, newer != tag) == (200, True), path


def test_a_job_that_begins_to_run_is_seen_at_once(account: Account) -> None:
    """The event calls for no pass, so the handler itself moves the version."""
    account.submit("job1")
    while account.lambda_.events:
        account.send(account.lambda_.events.pop(0))
    tag = settled(account)
    account.plane.advance()
    _begins(account)
    status, _, body = get(account, tag=tag)
    assert status == 200
    assert [job["state"] for job in body["jobs"]] == ["running"]


def test_what_only_looks_moves_nothing(some: Account) -> None:
    """Nor do ticks and passes that find nothing to do, and refused and repeated requests."""
    tag = settled(some)
    for path in LISTS:
        get(some, path)
    some.send("tick")
    some.send("pass")
    some.settle()
    some.submit("job2")
    assert some.call(add_job(TrainingJobName="job2", RoleArn="no"))[0] == 409
    assert some.call(add_job(TrainingJobName="job5", RoleArn=None))[0] == 400
    assert get(some, tag=tag)[0] == 304


def test_nobodys_tag_is_anybody_elses(account: Account) -> None:
    share()
    assert submit(account, "job1", "vision", by=OWNER)[0] == 202
    account.settle()
    tags = {name: settled(account, by=arn) for name, arn in PEOPLE.items()}
    assert len({*tags.values()}) == len(PEOPLE)
    for owner, tag in tags.items():
        for name, arn in PEOPLE.items():
            assert get(account, by=arn, tag=tag)[0] == (304 if name == owner else 200)
    assert get(account, "/pools", by=OWNER, tag=tags["owner"])[0] == 200
    assert get(account, by=OWNER, tag=tags["owner"], state="running")[0] == 200
    forged = tags["owner"].replace(f"-{LONGEST}-", "-99-")
    assert get(account, by=OWNER, tag=forged)[0] == 200


def test_a_tag_ends_with_the_right_to_see(account: Account) -> None:
    share()
    assert submit(account, "job1", "vision", by=OWNER)[0] == 202
    assert submit(account, "job2", "vision", by=MEMBER)[0] == 202
    account.settle()
    tag = settled(account, by=MEMBER)
    assert get(account, by=MEMBER, tag=tag)[0] == 304
    access = replace(VISION.access, members=VISION.access.members[:1])
    body = {"members": list(access.members)}
    changed = request("PATCH", "/projects/vision", by=OPERATOR, body=body)
    status, said = account.call(changed)
    assert status == 200, said
    status, _, body = get(account, by=MEMBER, tag=tag)
    assert (status, [job["name"] for job in body["jobs"]]) == (200, ["job2"])
    speech = replace(SPEECH, access=Access(members=(MEMBER,)))
    tag = settled(account, by=MEMBER)
    share(replace(SHARING, projects=(VISION, speech)))
    account.send("tick")
    assert get(account, by=MEMBER, tag=tag)[0] == 200


def test_the_first_tag_after_a_change_is_short_and_the_next_is_long(some: Account) -> None:
    """The index may lag behind a change; once the version has stood, it does not."""
    _, first, _ = get(some)
    assert f"-{SHORTEST}-" in first
    seconds(some, SHORTEST - 1)
    assert get(some, tag=first)[0] == 304
    seconds(some, 1)
    status, second, _ = get(some, tag=first)
    assert (status, f"-{LONGEST}-" in second) == (200, True)
    seconds(some, LONGEST - 1)
    assert get(some, tag=second)[0] == 304
    seconds(some, 1)
    assert get(some, tag=second)[0] == 200, "time alone may have changed something"


@pytest.mark.parametrize(("behind", "status"), [(1, 304), (3600, 200)])
def test_a_clock_that_is_behind_makes_no_tag_hold_for_long(
    some: Account, monkeypatch: pytest.MonkeyPatch, behind: int, status: int
) -> None:
    tag, now = settled(some), some.clock.now()
    right = Overview.version
    monkeypatch.setattr(Overview, "version", lambda its: (right(its)[0], now - 1000 * behind))
    assert get(some, tag=tag)[0] == status


def test_reports_of_scripts_are_at_most_some_seconds_old(account: Account) -> None:
    """They change in S3, past the table."""
    account.call("add-job")
    account.settle()
    seconds(account, 60)
    write(account)
    tag = settled(account)
    assert f"-{WITH_REPORTS}-" in tag
    assert get(account, tag=tag)[0] == 304
    write(account, step=8)
    seconds(account, WITH_REPORTS)
    status, _, body = get(account, tag=tag)
    assert (status, body["jobs"][0]["progress"]["step"]) == (200, 8)


def test_while_a_pass_runs_only_short_tags_hold(some: Account) -> None:
    tag = settled(some)
    scheduler = DynamoScheduler(_calls())
    now = some.clock.now()
    generation = scheduler.take_lease("a pass", now=now, until=now + 30_000)
    status, short, _ = get(some, tag=tag)
    assert (status, f"-{SHORTEST}-" in short) == (200, True)
    assert get(some, tag=short)[0] == 304
    seconds(some, SHORTEST)
    status, again, _ = get(some, tag=short)
    assert (status, f"-{SHORTEST}-" in again) == (200, True)
    assert scheduler.end_lease("a pass", generation=generation)
    assert get(some, tag=tag)[0] == 304, "it has changed nothing"
    scheduler.take_lease("it dies", now=now, until=now + 30_000)
    seconds(some, 31)
    assert get(some, tag=again)[0] == 200
    assert f"-{LONGEST}-" in get(some, tag=again)[1]


def test_a_change_whose_handler_dies_is_seen_after_the_bound(
    some: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies between its commit and the call that moves the version."""
    tag = settled(some)
    begin = some.clock.now()

    def dies(_: object) -> None:
        raise Unavailable("DynamoDB did not answer")

    with monkeypatch.context() as patch:
        patch.setattr(DynamoScheduler, "bump", dies)
        patch.setattr(DynamoScheduler, "announce", dies)
        assert some.call(request("DELETE", "/jobs/job3", by=ADA))[0] == 503
    _calls().unannounced.take()  # Its container is gone.
    assert get(some, tag=tag)[0] == 304
    some.clock.set(begin + 1000 * LONGEST)
    status, _, body = get(some, tag=tag)
    assert status == 200
    assert "job3" not in {job["name"] for job in body["jobs"] if job["state"] == "pending"}


def test_a_version_that_cannot_be_read_is_repaired(some: Account) -> None:
    key = {"pk": {"S": "SCHEDULER"}, "sk": {"S": "WAKE"}}
    for broken in ({"S": "x"}, {"N": "-1"}, {"L": []}):
        item = some.dynamodb.get_item(TableName=TABLE, Key=key)["Item"]
        some.dynamodb.put_item(TableName=TABLE, Item={**item, "moves": broken})
        tag = settled(some)
        assert get(some, tag=tag)[0] == 304
        _hold(some)
        some.settle()
        assert amend(some, "job3", by=ADA, held=False)[0] == 200
        some.settle()
        assert get(some, tag=tag)[0] == 200


def test_pages_have_tags_of_their_own_and_stable_cursors(some: Account) -> None:
    _, first, body = get(some, limit="2")
    _, second, rest = get(some, limit="2", next=body["next"])
    assert first != second
    assert get(some, tag=first, limit="2", next=body["next"])[0] == 200
    assert get(some, tag=second, limit="2", next=body["next"])[0] == 304
    again = get(some, limit="2")[2]
    assert again["next"] == body["next"]
    names = [job["name"] for job in (*body["jobs"], *rest["jobs"])]
    assert sorted(names) == ["job1", "job2", "job3", "job4"]

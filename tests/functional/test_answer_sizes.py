"""No answer grows beyond one page with what others submit: every route, beside a large queue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.api.routes import METHODS
from slotq_core.model.groups import Group, StoredGroup
from slotq_core.operations.jobs.listing import MOST_ANSWER
from tests.faults.fake_dynamodb import FakeDynamo, Table
from tests.functional.account import NOW, TABLE, Account, sample

WAITING, GROUPS, MEMBERS = 1_500, 1_500, 1_000
CALLER = sample("add-job")["requestContext"]["identity"]["userArn"]
NAMES = {
    "/jobs/<name>": "job0001",
    "/jobs/<name>/request": "seed",
    "/groups/<name>": "sweep",
}
"""What a route with a name is asked for. A new route needs a line here."""
QUERIES: dict[str, tuple[dict[str, str], ...]] = {
    "/jobs": ({}, {"limit": "1000"}, {"places": "true"}),
    "/groups": ({}, {"ended": "true"}),
    "/groups/<name>": ({}, {"attempts": "true"}),
}
READING = [path for path, methods in METHODS.items() if "GET" in methods]


@pytest.fixture(scope="module")
def made() -> dict[str, Table]:
    """The large queue's table, once it has been filled."""
    return {}


@pytest.fixture
def crowded(account: Account, made: dict[str, Table]) -> Account:
    """Long names and messages; many groups of one job, and one sweep of a thousand."""
    if not made:
        fill(account)
        made[TABLE] = account.dynamodb.tables[TABLE]
    account.dynamodb.tables[TABLE] = made[TABLE].copy()
    return account


def fill(account: Account) -> None:
    account.submit("seed")
    unchecked = FakeDynamo()
    unchecked.tables = account.dynamodb.tables
    store = DynamoStore(unchecked, TABLE)
    seed, request = store.jobs.get("seed"), store.jobs.request("seed")
    assert seed is not None
    long = replace(seed, message="because " * 40)
    jobs = [replace(long, name=f"job{n:04}", entry_time=NOW + n) for n in range(WAITING)]
    groups = [f"group-with-a-long-name-{n:04}" for n in range(GROUPS)]
    jobs += [
        replace(long, name=f"of-{name}", entry_time=NOW + n, group=name)
        for n, name in enumerate(groups)
    ]
    members = [f"sweep-member-with-a-name-as-long-as-names-may-be-{n:04}" for n in range(MEMBERS)]
    jobs += [replace(long, name=name, group="sweep") for name in members]
    for job in jobs:
        store.jobs.submit(job, request)
    for name, own in [*((name, (f"of-{name}",)) for name in groups), ("sweep", tuple(members))]:
        group = Group(name=name, members=own, max_parallel=1)
        store.groups.open(name, digest="d", now=NOW)
        store.groups.keep(StoredGroup(group=group, submitter=CALLER, digest="d", at=NOW))


def pages(account: Account, path: str, query: dict[str, str]) -> Iterator[tuple[int, str]]:
    """The status and body of each page of a route, at most twenty."""
    event = sample("get-version") | {"httpMethod": "GET", "resource": "/{proxy+}"}
    event["path"] = path.replace("<name>", NAMES[path]) if "<name>" in path else path
    for _ in range(20):
        answer = account.send({**event, "queryStringParameters": query or None})
        yield answer["statusCode"], answer["body"]
        following = json.loads(answer["body"]).get("next")
        if following is None:
            return
        query = {**query, "next": str(following)}


def test_every_answer_is_at_most_one_megabyte(crowded: Account):
    sizes: dict[str, int] = {}
    for path in READING:
        for query in QUERIES.get(path, ({},)):
            for status, body in pages(crowded, path, query):
                assert status == 200, (path, query, body[:300])
                asked = f"{path} {query}" if query else path
                sizes[asked] = max(sizes.get(asked, 0), len(body.encode()))
    print(json.dumps(sizes, indent=1))
    assert {path: size for path, size in sizes.items() if size > MOST_ANSWER} == {}


def test_the_pages_of_jobs_and_members_are_all_of_them(crowded: Account):
    jobs = [
        job["name"]
        for _, body in pages(crowded, "/jobs", {"state": "pending"})
        for job in json.loads(body)["jobs"]
    ]
    assert len(jobs) == len(set(jobs)) == 1 + WAITING + GROUPS + MEMBERS
    shown = [json.loads(body) for _, body in pages(crowded, "/groups/<name>", {})]
    members = [job["name"] for page in shown for job in page["jobs"]]
    assert len(shown) > 1
    assert members == sorted(set(members))
    assert len(members) == MEMBERS

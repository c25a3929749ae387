"""Who may do what in a queue with projects: every route, asked by everybody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import app
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.api.routes import METHODS
from slotq_core.model.callers import Access
from slotq_core.model.jobs import JobState
from slotq_core.model.projects import Prescription
from slotq_core.model.sharing import Sharing
from slotq_core.operations import status
from slotq_core.usage.calendar_days import DAY
from tests.functional.account import HOUR, NOW, Account, forget
from tests.functional.account import TABLE as TABLE_NAME
from tests.functional.sharing import (
    ADMIN,
    MEMBER,
    NOBODY,
    OPERATOR,
    OTHER,
    OWNER,
    OWNERS,
    PEOPLE,
    SHARING,
    SPEECH,
    VIEWER,
    VISION,
    amend,
    listed,
    request,
    share,
    submission,
    submit,
)

PERSON = {OTHER: OTHER.rpartition("/")[0]}

JOB = "theirs"
"""A job of project vision that OWNER has submitted."""

TABLE = """
                            nobody viewer other owner member admin operator
POST   /add-job             403    403    403   202   202    202   202
POST   /jobs                403    403    403   202   202    202   202
GET    /jobs                none   all    none  all   all    all   all
PATCH  /jobs                404    403    404   ok    403    ok    ok
GET    /jobs/<name>         404    200    404   200   200    200   200
PATCH  /jobs/<name>         404    403    404   200   403    200   200
DELETE /jobs/<name>         404    403    404   200   403    200   200
GET    /jobs/<name>/request 404    200    404   whole 200    200   200
GET    /pools               200    200    200   200   200    200   200
GET    /nodes               200    200    200   200   200    200   200
PATCH  /pools/<name>        403    403    403   403   403    403   200
DELETE /pools/<name>        403    403    403   403   403    403   400
GET    /limits              200    200    200   200   200    200   200
GET    /groups              none   all    none  all   all    all   all
POST   /groups              403    403    403   202   202    202   202
GET    /groups/<name>       404    200    404   200   200    200   200
PATCH  /limits              403    403    403   403   403    403   200
GET    /configuration       200    200    200   200   200    200   200
PUT    /configuration       403    403    403   403   403    403   400
GET    /projects            200    200    200   200   200    200   200
PATCH  /projects/<name>     403    403    403   403   403    403   200
DELETE /projects/<name>     403    403    403   403   403    403   200
GET    /quota               200    200    200   200   200    200   200
GET    /usage               sums   sums   sums  named sums   named named
GET    /attempts            blind  named  blind named named  named named
GET    /scenario            200    200    200   200   200    200   200
GET    /changes             200    200    200   200   200    200   200
GET    /version             200    200    200   200   200    200   200
GET    /me                  200    200    200   200   200    200   200
POST   /nodes/<pool>/<name>/report 404 404  404   404   404    404   404
GET    /doctor              403    403    403   403   403    403   200
POST   /doctor              403    403    403   403   403    403   200
"""
"""The status for each caller, asking for a job of OWNER's; for a list, which of these it shows;
for many jobs, the status of the job's error; `whole`: the request with its secrets; for
usage, whether OWNER's is named or added up with that of others; for attempts, whether they are
named. The last pool cannot be removed, and a document must have one: these are the operator's
400."""

PATHS = {"/pools/<name>": "/pools/main", "/projects/<name>": "/projects/speech"}
STATUS_OF = {"no_such_job": "404", "not_permitted": "403"}


def rows() -> dict[str, dict[str, str]]:
    """The table: what happens by person, by route."""
    head, *lines = TABLE.strip().splitlines()
    found = {}
    for line in lines:
        method, path, *answers = line.split()
        found[f"{method} {path}"] = dict(zip(head.split(), answers, strict=True))
    return found


def group(name: str) -> dict[str, Any]:
    return {"name": name, "max_parallel": 1, "members": [submission(f"{name}-1", "vision")]}


def called(route: str, by: str | None, job: str = JOB) -> dict[str, Any]:
    bodies: dict[str, Any] = {
        "POST /add-job": submission(f"{job}-too", "vision"),
        "POST /jobs": {"jobs": [submission(f"{job}-too", "vision")]},
        "POST /groups": group(f"{job}-group"),
        "PATCH /jobs": {"changes": [{"name": job, "held": True}]},
        "PATCH /jobs/<name>": {"held": True},
        "PATCH /pools/<name>": {"slots": 3},
        "PATCH /limits": {"waiting": 5},
        "PUT /configuration": {},
        "PATCH /projects/<name>": {"weight": 2},
    }
    query = {"by": ["submitter"]} if route == "GET /usage" else None
    method, path = route.split()
    full = PATHS.get(path, path).replace("<pool>", "main").replace("<name>", job)
    return request(method, full, by=by, body=bodies.get(route), query=query)


@pytest.fixture
def shared(account: Account) -> Account:
    share()
    assert submit(account, JOB, "vision", by=OWNER)[0] == 202
    return account


def test_the_table_has_every_route():
    assert rows().keys() == {f"{method} {path}" for path in METHODS for method in METHODS[path]}


@pytest.mark.parametrize("route", rows())
def test_each_route_asks_for_a_role(shared: Account, route: str):
    jobs = {who: f"{JOB}-{who}" for who in PEOPLE}
    for name in jobs.values():
        submit(shared, name, "vision", by=OWNER)
        if route.startswith("GET /groups"):
            shared.call(request("POST", "/groups", by=OWNER, body=group(name)))
    for who, expected in rows()[route].items():
        before = shared.items()
        assert told(shared, route, PEOPLE[who], jobs[who]) == expected, who
        if expected in {"403", "404", "none"}:
            assert shared.items() == before, who


def told(account: Account, route: str, by: str, job: str) -> str:
    """What the table says of such an answer."""
    if route in {"GET /usage", "GET /attempts"}:
        account.settle()
        account.clock.set(account.clock.now() + HOUR)
    status, said = account.call(called(route, by, job))
    if route == "GET /usage" and status == 200:
        people = {row["group"]["submitter"] for row in said["rows"]}
        return {("",): "sums", (OWNERS,): "named"}[tuple(people)]
    if route == "GET /attempts":
        names = {each["job"] for each in said["attempts"]}
        return "blind" if names == {""} else "named" if "" not in names else "some"
    if route == "GET /jobs":
        return {0: "none", 1 + len(PEOPLE): "all"}[len(said["jobs"])]
    if route == "GET /groups":
        return {0: "none", len(PEOPLE): "all"}[len(said["groups"])]
    if route == "POST /jobs":
        return str(said["outcomes"][0]["status"]) if status == 200 else str(status)
    if route == "PATCH /jobs":
        (outcome,) = said["outcomes"]
        return STATUS_OF[outcome["error"]["code"]] if outcome["error"] else "ok"
    if route == "GET /jobs/<name>/request" and status == 200:
        return "200" if "HyperParameters" in said["withheld"] else "whole"
    return str(status)


def test_each_route_asks_for_a_signature(shared: Account):
    for route in rows():
        status, said = shared.call(called(route, None))
        assert (status, said["code"]) == (403, "not_signed"), route


def test_a_job_that_is_not_theirs_to_see_looks_as_if_it_did_not_exist(shared: Account):
    for route in ("GET /jobs/<name>", "DELETE /jobs/<name>", "GET /jobs/<name>/request"):
        method, path = route.split()
        hidden, absent = (
            shared.call(request(method, path.replace("<name>", name), by=OTHER))
            for name in (JOB, "absent")
        )
        assert hidden[1]["message"].replace(JOB, "absent") == absent[1]["message"]
        assert (hidden[0], hidden[1]["code"]) == (absent[0], absent[1]["code"])


def test_a_refusal_says_who_may(shared: Account):
    _, said = amend(shared, JOB, by=MEMBER, held=True)
    assert said["code"] == "not_permitted"
    for part in ("a member in project vision", "assumed-role/Vision", "admins", "operators"):
        assert part in said["message"]


def test_another_session_of_the_submitters_role_is_the_submitter(shared: Account):
    another = OWNER.replace("/ada", "/grace")
    assert amend(shared, JOB, by=another, held=True)[0] == 200


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"access": replace(VISION.access, members=())}, (403, "project_not_allowed")),
        ({"requests": Prescription(max_priority=1)}, (403, "priority_too_high")),
        ({"requests": Prescription(approval=True)}, (202, "held")),
    ],
    ids=["rights", "priority", "approval"],
)
def test_a_warm_container_judges_by_what_another_has_just_changed(
    shared: Account, change: dict[str, Any], answer: tuple[int, str]
):
    """No time passes: what was answered before a submission begins binds it."""
    assert submit(shared, "before", "vision", by=MEMBER, priority="2")[0] == 202
    other = DynamoStore(shared.dynamodb, TABLE_NAME)
    vision = replace(VISION, **change)
    other.configuration.change(
        sharing=replace(SHARING, projects=(vision, SPEECH)), who="test", now=NOW
    )
    status, told = submit(shared, "after", "vision", by=MEMBER, priority="2")
    assert (status, told.get("code") or told["state"]) == answer


def test_who_has_left_the_project_sees_the_own_jobs_and_changes_none(shared: Account):
    share(replace(SHARING, projects=(replace(VISION, access=Access()), SPEECH)))
    assert listed(shared, OWNER) == [JOB]
    assert shared.call(request("GET", f"/jobs/{JOB}/request", by=OWNER))[1]["withheld"] == []
    assert amend(shared, JOB, by=OWNER, held=True)[0] == 403


class TestOperators:
    def test_without_operators_iam_alone_decides_about_the_configuration(self, shared: Account):
        share(replace(SHARING, operators=()))
        assert shared.call(called("PATCH /limits", NOBODY))[0] == 200
        assert shared.call(called("POST /doctor", NOBODY))[0] == 200

    def test_without_operators_nobody_is_one_for_jobs(self, shared: Account):
        share(replace(SHARING, operators=()))
        assert shared.call(called("DELETE /jobs/<name>", OPERATOR))[0] == 404

    def test_those_of_the_stack_need_no_configuration(self, shared: Account, monkeypatch):
        monkeypatch.setenv("SLOTQ_OPERATORS", f"arn:aws:iam::1:role/x, {NOBODY}")
        forget()
        share(replace(SHARING, operators=()))
        assert shared.call(called("DELETE /jobs/<name>", NOBODY))[0] == 200
        assert shared.call(called("PATCH /limits", NOBODY))[0] == 200
        assert shared.call(called("PATCH /limits", OPERATOR))[1]["code"] == "not_permitted"

    def test_they_guard_the_configuration_without_projects_too(self, account: Account):
        share(Sharing(operators=SHARING.operators))
        assert account.call(called("PATCH /limits", NOBODY))[0] == 403
        assert submit(account, JOB, by=OWNER)[0] == 202
        assert account.call(called("DELETE /jobs/<name>", NOBODY))[0] == 200


class TestJobsWithoutProject:
    """They are older than the projects."""

    @pytest.fixture
    def old(self, account: Account) -> Account:
        assert submit(account, "old", by=OWNER)[0] == 202
        share()
        return account

    @pytest.mark.parametrize("who", PEOPLE)
    def test_everybody_sees_them(self, old: Account, who: str):
        assert listed(old, PEOPLE[who]) == ["old"]
        assert old.call(request("GET", "/jobs/old", by=PEOPLE[who]))[0] == 200

    @pytest.mark.parametrize("who", PEOPLE)
    def test_their_submitter_and_operators_change_them(self, old: Account, who: str):
        may = who in {"owner", "operator"}
        status, said = amend(old, "old", by=PEOPLE[who], held=True)
        assert status == (200 if may else 403), said

    def test_their_submitter_takes_them_into_a_project(self, old: Account):
        status, job = amend(old, "old", by=OWNER, tags={"slotq:project": "vision"})
        assert (status, job["project"]) == (200, "vision")
        assert listed(old, OTHER) == []

    def test_a_job_of_a_removed_project_is_for_its_submitter_and_operators(self, old: Account):
        submit(old, "later", "vision", by=OWNER)
        share(replace(SHARING, projects=(SPEECH,)))
        seen = {who: "later" in listed(old, arn) for who, arn in PEOPLE.items()}
        assert [who for who, sees in seen.items() if sees] == ["owner", "operator"]


def test_me_shows_the_callers_roles(shared: Account):
    def me(by: str) -> list[tuple[Any, ...]]:
        said = shared.call(request("GET", "/me", by=by))[1]
        return [tuple(each.values()) for each in said["projects"]]

    assert me(OWNER) == [("vision", "member", True)]
    assert me(VIEWER) == [("vision", "viewer", False)]
    assert me(ADMIN) == [("vision", "admin", True)]
    assert me(OPERATOR) == [("vision", "operator", False), ("speech", "operator", False)]
    assert me(NOBODY) == []
    share(Sharing())
    assert me(OWNER) == []


def test_me_tells_whether_roles_decide_and_who_may_operate(shared: Account):
    def told(by: str) -> tuple[bool, bool]:
        said = shared.call(request("GET", "/me", by=by))[1]
        return said["shared"], said["operates"]

    assert (told(OWNER), told(OPERATOR)) == ((True, False), (True, True))
    share(replace(SHARING, operators=()))
    assert told(OWNER) == (True, True), "without operators IAM alone decides"
    share(Sharing())
    assert told(OWNER) == (False, True)


class TestUsage:
    """What a project has used is everybody's to see; what a person has used is not."""

    @pytest.fixture
    def used(self, account: Account) -> Account:
        share()
        for name, who in (("cats", OWNER), ("dogs", MEMBER), ("words", OTHER)):
            assert submit(account, name, by=who)[0] == 202
        for _ in range(2):  # Two run at a time.
            account.settle()
            account.clock.set(account.clock.now() + HOUR)
            active = app.manager()._store.jobs.in_states([JobState.RUNNING, JobState.STARTING])
            for job in active:
                account.completes(job.name)
        account.clock.set(account.clock.now() + 1000)
        return account

    def rows(self, account: Account, by: str, *fields: str) -> dict[tuple[str, ...], float]:
        query = {"by": [",".join(fields)]}
        rows = account.call(request("GET", "/usage", by=by, query=query))[1]["rows"]
        return {tuple(row["group"].values()): row["slot_seconds"] for row in rows}

    def test_who_sees_whose(self, used: Account):
        told = {
            who: sorted(self.rows(used, arn, "project", "submitter")) for who, arn in PEOPLE.items()
        }
        sums = [("speech", ""), ("vision", "")]
        assert told["nobody"] == told["viewer"] == sums
        assert told["other"] == [("speech", PERSON[OTHER]), ("vision", "")]
        assert told["owner"] == [("speech", ""), ("vision", ""), ("vision", OWNERS)]
        assert told["member"] == [("speech", ""), ("vision", ""), ("vision", MEMBER)]
        assert told["admin"] == [("speech", ""), ("vision", MEMBER), ("vision", OWNERS)]
        assert told["operator"] == [
            ("speech", PERSON[OTHER]),
            ("vision", MEMBER),
            ("vision", OWNERS),
        ]

    def test_the_sums_are_everybodys_and_the_same(self, used: Account):
        whole = self.rows(used, OPERATOR, "project")
        for arn in PEOPLE.values():
            assert self.rows(used, arn, "project") == whole
            by_person = self.rows(used, arn, "submitter")
            assert sum(by_person.values()) == sum(whole.values())

    def test_days_that_are_added_up_tell_no_more(self, used: Account):
        before = self.rows(used, OWNER, "project", "submitter")
        used.clock.set(used.clock.now() + 2 * DAY)
        used.send("tick")
        assert self.rows(used, OWNER, "project", "submitter") == before

    def test_a_queue_without_projects_names_all(self, account: Account):
        submit(account, "old", by=OWNER)
        account.settle()
        account.clock.set(account.clock.now() + HOUR)
        assert list(self.rows(account, NOBODY, "submitter")) == [(OWNERS,)]


def test_many_changes_are_refused_one_by_one(shared: Account):
    submit(shared, "talk", "speech", by=OTHER)
    submit(shared, "mine", "vision", by=MEMBER)
    names = ["talk", JOB, "mine", "absent"]
    body = {"changes": [{"name": name, "cancel": True} for name in names]}
    outcomes = shared.call(request("PATCH", "/jobs", by=MEMBER, body=body))[1]["outcomes"]
    told = [it["error"]["code"] if it["error"] else it["job"]["state"] for it in outcomes]
    assert told == ["no_such_job", "not_permitted", "cancelled", "no_such_job"]


def test_others_jobs_crowd_nobody_out_of_a_list(shared: Account, monkeypatch):
    """A list looks at the latest jobs first, and most of them may be others'."""
    monkeypatch.setattr(status, "MOST_LISTED", 3)
    shared.clock.set(shared.clock.now() + 1000)
    for n in range(4):
        submit(shared, f"talk-{n}", "speech", by=OTHER)
    assert listed(shared, OWNER) == [JOB]
    assert listed(shared, OWNER, limit="1") == [JOB]


def test_a_listing_reads_the_configuration_only_where_jobs_have_projects(
    account: Account, monkeypatch: pytest.MonkeyPatch
):
    """Without projects no route of jobs reads more than before: the counts of calls hold it too."""
    submit(account, "old", by=OWNER)
    reads: list[str] = []
    manager = app.manager()
    store = manager._store
    monkeypatch.setattr(store.configuration, "read", lambda: reads.append("read"))
    job = store.jobs.get("old")
    assert job is not None and manager.authorizer.sight([job], by=NOBODY) is None
    assert manager.authorizer.sees(job, by=NOBODY)
    manager.changes.cancel("old", by=OWNER)
    assert reads == []

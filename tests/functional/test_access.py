"""Who may do what in a queue with projects: every route, asked by everybody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import app
from slotq_core.api import METHODS
from slotq_core.model.access import Access
from slotq_core.model.projects import Project
from slotq_core.model.sharing import Sharing
from slotq_core.operations import status
from tests.functional.account import Account, forget
from tests.functional.sharing import (
    ADMIN,
    MEMBER,
    NOBODY,
    OPERATOR,
    OTHER,
    OWNER,
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

JOB = "theirs"
"""A job of project vision that OWNER has submitted."""

TABLE = """
                            nobody viewer other owner member admin operator
POST   /add-job             403    403    403   202   202    202   202
GET    /jobs                none   all    none  all   all    all   all
PATCH  /jobs                404    403    404   ok    403    ok    ok
GET    /jobs/<name>         404    200    404   200   200    200   200
PATCH  /jobs/<name>         404    403    404   200   403    200   200
DELETE /jobs/<name>         404    403    404   200   403    200   200
GET    /jobs/<name>/request 404    200    404   whole 200    200   200
GET    /pools               200    200    200   200   200    200   200
PATCH  /pools/<name>        403    403    403   403   403    403   200
DELETE /pools/<name>        403    403    403   403   403    403   400
GET    /limits              200    200    200   200   200    200   200
PATCH  /limits              403    403    403   403   403    403   200
GET    /changes             200    200    200   200   200    200   200
GET    /version             200    200    200   200   200    200   200
GET    /doctor              403    403    403   403   403    403   200
POST   /doctor              403    403    403   403   403    403   200
"""
"""The status for each caller, asking for a job of OWNER's; for a list, which of these it shows; for
changes of many jobs, the status of the job's error; `whole`: the request with its secrets. The last
pool cannot be removed: that is the operator's 400."""

PATHS = {"/pools/<name>": "/pools/main"}
STATUS_OF = {"no_such_job": "404", "not_permitted": "403"}


def rows() -> dict[str, dict[str, str]]:
    """The table: what happens by person, by route."""
    head, *lines = TABLE.strip().splitlines()
    found = {}
    for line in lines:
        method, path, *answers = line.split()
        found[f"{method} {path}"] = dict(zip(head.split(), answers, strict=True))
    return found


def called(route: str, by: str | None, job: str = JOB) -> dict[str, Any]:
    bodies: dict[str, Any] = {
        "POST /add-job": submission(f"{job}-too", "vision"),
        "PATCH /jobs": {"changes": [{"name": job, "held": True}]},
        "PATCH /jobs/<name>": {"held": True},
        "PATCH /pools/<name>": {"slots": 3},
        "PATCH /limits": {"waiting": 5},
    }
    method, path = route.split()
    full = PATHS.get(path, path).replace("<name>", job)
    return request(method, full, by=by, body=bodies.get(route))


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
    for who, expected in rows()[route].items():
        before = shared.items()
        assert told(shared, route, PEOPLE[who], jobs[who]) == expected, who
        if expected in {"403", "404", "none"}:
            assert shared.items() == before, who


def told(account: Account, route: str, by: str, job: str) -> str:
    """What the table says of such an answer."""
    status, said = account.call(called(route, by, job))
    if route == "GET /jobs":
        return {0: "none", 1 + len(PEOPLE): "all"}[len(said["jobs"])]
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
        share(Sharing(operators=(OPERATOR,)))
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


class TestSubmissions:
    def project_of(self, answer: tuple[int, dict[str, Any]]) -> str:
        status, said = answer
        assert status == 202, said
        return str(said["project"])

    def test_a_job_without_a_project_goes_to_the_only_one_of_its_caller(self, shared: Account):
        assert self.project_of(submit(shared, "one", by=OWNER)) == "vision"
        assert self.project_of(submit(shared, "two", by=OTHER)) == "speech"

    def test_a_caller_with_several_projects_is_told_them(self, shared: Account):
        share(replace(SHARING, projects=(VISION, replace(SPEECH, access=VISION.access))))
        status, said = submit(shared, "one", by=MEMBER)
        assert (status, said["code"], said["field"]) == (403, "project_not_allowed", "Tags")
        assert "you may use vision, speech" in said["message"]
        assert "slotq:project" in said["message"]

    def test_or_has_a_default(self, shared: Account):
        access = replace(VISION.access, default_for=(MEMBER, VIEWER))
        share(replace(SHARING, projects=(VISION, replace(SPEECH, access=access))))
        assert self.project_of(submit(shared, "one", by=MEMBER)) == "speech"
        assert submit(shared, "two", by=VIEWER)[0] == 403  # No member, though it names the viewer.

    def test_who_may_use_none_is_told_whom_to_ask(self, shared: Account):
        _, said = submit(shared, "one", by=VIEWER)
        for part in ("a member of none", "ask an operator", SHARING.operators[0], VIEWER):
            assert part in said["message"]
        share(replace(SHARING, operators=()))
        assert "ask whoever configures the queue" in submit(shared, "one", by=VIEWER)[1]["message"]

    def test_an_unknown_project_and_one_of_others_are_refused_alike(self, shared: Account):
        unknown, others = (submit(shared, "one", it, by=OTHER) for it in ("nonesuch", "vision"))
        assert unknown[1]["message"] == others[1]["message"].replace("vision", "nonesuch")
        assert unknown[0] == others[0] == 403
        assert "you may use speech" in others[1]["message"]

    def test_an_operator_may_use_each_and_has_to_name_one(self, shared: Account):
        assert submit(shared, "one", by=OPERATOR)[1]["code"] == "project_not_allowed"
        assert self.project_of(submit(shared, "one", "speech", by=OPERATOR)) == "speech"

    def test_without_projects_the_tag_is_refused(self, account: Account):
        status, said = submit(account, "one", "vision", by=OWNER)
        assert (status, said["code"]) == (403, "project_not_allowed")
        assert "has no projects" in said["message"]
        assert submit(account, "one", "", by=OWNER)[0] == 400

    def test_the_largest_priority_of_a_project_is_for_its_members(self, shared: Account):
        status, said = submit(shared, "one", "vision", by=MEMBER, priority="11")
        assert (status, said["code"]) == (403, "priority_too_high")
        assert "10, the largest that a member of project vision may give" in said["message"]
        assert submit(shared, "one", "vision", by=ADMIN, priority="11")[0] == 202
        assert submit(shared, "two", "vision", by=MEMBER, priority="10")[0] == 202
        assert amend(shared, "two", by=MEMBER, tags={"priority": "11"})[0] == 403
        assert amend(shared, "two", by=ADMIN, tags={"priority": "99"})[1]["priority"] == 99
        assert amend(shared, "two", by=MEMBER, tags={"priority": "50"})[0] == 200  # It goes down.

    def test_the_projects_pools_are_those_of_jobs_that_name_none(
        self, account: Account, monkeypatch
    ):
        kind = "ml.p4d.24xlarge"
        monkeypatch.setenv("SLOTQ_POOLS", f"a=2@{kind},b=2@{kind},c=2@ml.m5.large,d=1@{kind}")
        forget()
        share(replace(SHARING, projects=(replace(VISION, pools=("d", "c", "a")), SPEECH)))
        assert submit(account, "one", "vision", by=OWNER)[1]["pools"] == ["d", "a"]
        named = submit(account, "two", "vision", by=OWNER, **{"slotq:pools": "b"})
        assert named[1]["pools"] == ["b"]
        assert submit(account, "three", "speech", by=OTHER)[1]["pools"] == ["a", "b", "d"]
        share(replace(SHARING, projects=(replace(VISION, pools=("c",)), SPEECH)))
        status, said = submit(account, "four", "vision", by=OWNER)
        assert (status, said["field"]) == (400, "ResourceConfig.InstanceType")
        assert "no pool of project vision" in said["message"]


class TestMoves:
    @pytest.fixture
    def both(self, shared: Account) -> Account:
        """MEMBER is a member of both projects, and its job waits in vision."""
        access = replace(SPEECH.access, members=(*SPEECH.access.members, MEMBER))
        share(replace(SHARING, projects=(VISION, replace(SPEECH, access=access))))
        assert submit(shared, "mine", "vision", by=MEMBER)[0] == 202
        return shared

    def test_a_waiting_job_moves_to_another_project_of_the_caller(self, both: Account):
        status, job = amend(both, "mine", by=MEMBER, tags={"slotq:project": "speech"})
        assert (status, job["project"]) == (200, "speech")
        assert "mine" in listed(both, OTHER)
        tags = both.call(request("GET", "/jobs/mine/request", by=MEMBER))[1]["request"]["Tags"]
        assert {"Key": "slotq:project", "Value": "speech"} in tags
        both.settle()
        assert both.call(request("GET", "/jobs/mine", by=MEMBER))[1]["state"] == "running"
        assert both.call(request("GET", "/doctor", by=OPERATOR))[1]["findings"] == []

    def test_only_with_a_right_to_the_job_and_to_the_other_project(self, both: Account):
        to_speech, to_vision = {"slotq:project": "speech"}, {"slotq:project": "vision"}
        assert amend(both, JOB, by=MEMBER, tags=to_speech)[1]["code"] == "not_permitted"
        assert amend(both, JOB, by=OWNER, tags=to_speech)[1]["code"] == "project_not_allowed"
        assert amend(both, JOB, by=OTHER, tags=to_speech)[1]["code"] == "no_such_job"
        submit(both, "talk", "speech", by=OTHER)
        assert amend(both, "talk", by=OTHER, tags=to_vision)[1]["code"] == "project_not_allowed"
        assert amend(both, JOB, by=OPERATOR, tags=to_speech)[0] == 200

    def test_a_job_that_holds_slots_stays(self, both: Account):
        both.settle()
        status, said = amend(both, "mine", by=MEMBER, tags={"slotq:project": "speech"})
        assert (status, said["code"]) == (409, "too_late")
        same = amend(both, "mine", by=MEMBER, tags={"slotq:project": "vision"})
        assert same[0] == 200

    def test_the_new_projects_largest_priority_holds(self, both: Account):
        submit(both, "talk", "speech", by=MEMBER, priority="20")
        tags = {"slotq:project": "vision"}
        assert amend(both, "talk", by=MEMBER, tags=tags)[1]["code"] == "priority_too_high"
        assert amend(both, "talk", by=MEMBER, tags={**tags, "priority": "1"})[0] == 200

    def test_other_changes_leave_the_project(self, both: Account):
        submit(both, "bare", by=OWNER)
        access = replace(SPEECH.access, default_for=(f"{OWNER}",), members=(OWNER,))
        share(replace(SHARING, projects=(VISION, replace(SPEECH, access=access))))
        assert amend(both, "bare", by=OWNER, tags={"priority": "2"})[1]["project"] == "vision"


def test_a_request_shows_its_project_so_that_a_clone_stays_there(shared: Account):
    submit(shared, "bare", by=OWNER)
    shown = shared.call(request("GET", "/jobs/bare/request", by=OWNER))[1]["request"]
    assert shown["Tags"] == [{"Key": "slotq:project", "Value": "vision"}]


class TestRetries:
    @pytest.fixture
    def ended(self, shared: Account) -> Account:
        """A job whose project was the caller's only one, and is no more."""
        submit(shared, "bare", by=OWNER)
        shared.call(request("DELETE", "/jobs/bare", by=OWNER))
        access = replace(SPEECH.access, default_for=(OWNER,), members=(OWNER,))
        share(replace(SHARING, projects=(VISION, replace(SPEECH, access=access))))
        return shared

    def retried(self, account: Account, *, by: str, **more: Any) -> dict[str, Any]:
        change = {"name": "bare", "retry": True, **more}
        body = {"changes": [change]}
        return account.call(request("PATCH", "/jobs", by=by, body=body))[1]["outcomes"][0]

    def test_a_retry_keeps_the_project(self, ended: Account):
        assert self.retried(ended, by=OWNER)["job"]["project"] == "vision"

    def test_or_names_another(self, ended: Account):
        tags = {"slotq:project": "speech"}
        assert self.retried(ended, by=OWNER, tags=tags)["job"]["project"] == "speech"

    def test_it_needs_a_member(self, ended: Account):
        share(replace(SHARING, projects=(replace(VISION, access=Access()), SPEECH)))
        assert self.retried(ended, by=OWNER)["error"]["code"] == "project_not_allowed"

    def test_secrets_stay_with_the_submitter(self, ended: Account):
        assert self.retried(ended, by=ADMIN)["error"]["code"] == "request_withheld"
        assert self.retried(ended, by=OPERATOR)["error"]["code"] == "request_withheld"
        assert self.retried(ended, by=NOBODY)["error"]["code"] == "no_such_job"


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
    monkeypatch.setattr(store, "configuration", lambda: reads.append("read"))
    job = store.job("old")
    assert job is not None and manager.authorizer.sight([job], by=NOBODY) is None
    assert manager.authorizer.sees(job, by=NOBODY)
    manager.cancel("old", by=OWNER)
    assert reads == []


def test_unused_projects_of_others_do_not_show_in_anybodys_choice(shared: Account):
    hidden = Project(name="secret", access=Access(members=(ADMIN,)))
    share(replace(SHARING, projects=(*SHARING.projects, hidden)))
    assert "secret" not in submit(shared, "one", "nonesuch", by=OWNER)[1]["message"]

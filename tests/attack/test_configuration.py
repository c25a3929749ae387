"""The configuration under clumsy and hostile hands: each fault is told with its place and what
would be right, and nothing is half applied."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from tests.contract.faults import before_the_next, on
from tests.functional import real_http
from tests.functional.account import Account, forget
from tests.functional.sharing import OPERATOR, request, submit

POOL = {"name": "main", "capacity": 2, "instance_type": "ml.p4d.24xlarge"}
ROLE = "arn:aws:iam::123456789012:role/Operators"
LONG = "x" * 10_000


def document(**sections: Any) -> dict[str, Any]:
    return {"pools": [POOL], **sections}


def of_project(**keys: Any) -> dict[str, Any]:
    return document(projects=[{"name": "a", **keys}])


def put(body: Any, *, by: str = OPERATOR) -> dict[str, Any]:
    return request("PUT", "/configuration", by=by, body={"configuration": body})


QUOTA = "projects[0].quota"
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    # the fault: (the document, the path that the answer names, words of its message)
    "an unknown section": (document(project=[]), "project", "did you mean 'projects'"),
    "an unknown key": (of_project(member=[]), "projects[0].member", "did you mean 'members'"),
    "a key in capitals": (of_project(Quota=1), "projects[0].Quota", "did you mean 'quota'"),
    "an unknown rule": (of_project(requests={"rols": []}), "projects[0].requests.rols", "'roles'"),
    "an unknown department": (
        of_project(department="moon"),
        "projects[0].department",
        "there is no department 'moon'",
    ),
    "a department in a department": (
        document(departments=[{"name": "a", "department": "a"}]),
        "departments[0].department",
        "there is no such key",
    ),
    "a project as its own department": (
        of_project(department="a"),
        "projects[0].department",
        "there is no department 'a'",
    ),
    "two projects of a name": (
        document(projects=[{"name": "a"}, {"name": "a"}]),
        "projects[1].name",
        "exists already, as projects[0]",
    ),
    "a negative quota": (of_project(quota=-1), QUOTA, "0 to 1,000,000"),
    "a negative quota of a pool": (of_project(quota={"main": -1}), f"{QUOTA}.main", "0 to"),
    "a negative quota of a resource": (
        of_project(quota={"main": {"slots": -1}}),
        f"{QUOTA}.main.slots",
        "0 to",
    ),
    "a quota that is no number": (of_project(quota="two"), QUOTA, "whole number"),
    "a quota with a fraction": (of_project(quota=0.5), QUOTA, "whole number"),
    "a quota that is a truth value": (of_project(quota=True), QUOTA, "whole number"),
    "a quota of everything": (of_project(quota=10**9), QUOTA, "whole number"),
    "a quota of an unknown pool": (of_project(quota={"moon": 1}), f"{QUOTA}.moon", "main"),
    "a quota of an unknown resource": (
        of_project(quota={"main": {"moons": 1}}),
        f"{QUOTA}.main.moons",
        "there is no resource 'moons'",
    ),
    "a quota in lists": (of_project(quota=[[[1]]]), QUOTA, "whole number"),
    "a quota three levels deep": (
        of_project(quota={"main": {"slots": {"slots": 1}}}),
        f"{QUOTA}.main.slots",
        "whole number",
    ),
    "pools and resources mixed": (
        of_project(quota={"main": 1, "slots": 1}),
        QUOTA,
        "either all pools or all resources",
    ),
    "numbers and pools mixed": (
        document(projects=[{"name": "a", "quota": 1}, {"name": "b", "limit": {"main": 1}}]),
        "projects[1].limit",
        "must have the same form",
    ),
    "an unknown pool to run in": (of_project(pools=["moon"]), "projects[0].pools[0]", "main"),
    "a name with a slash": (document(projects=[{"name": "a/b"}]), "projects[0].name", "letters"),
    "a name of 10 kB": (document(projects=[{"name": LONG}]), "projects[0].name", "1 to 63"),
    "no list of people": (of_project(members="ada"), "projects[0].members", "a list is needed"),
    "a person that is a number": (of_project(members=[7]), "projects[0].members[0]", "text"),
    "an empty pattern": (of_project(members=[""]), "projects[0].members[0]", "1 to 512"),
    "a pattern of 10 kB": (of_project(members=[LONG]), "projects[0].members[0]", "1 to 512"),
    "an operator of 10 kB": (document(operators=[LONG]), "operators[0]", "1 to 512"),
    "an image of 10 kB": (
        of_project(requests={"images": [LONG]}),
        "projects[0].requests.images[0]",
        "1 to 512",
    ),
    "a session role of 10 kB": (
        document(people={"session_roles": [LONG]}),
        "people.session_roles[0]",
        "1 to 512",
    ),
    "a caller of 10 kB": (
        document(limits={"callers": [{"callers": LONG, "waiting": 1}]}),
        "limits.callers[0].callers",
        "the ARN of a caller",
    ),
    "too many people": (
        of_project(members=[f"arn:aws:iam::1:user/u{n}" for n in range(201)]),
        "projects[0].members",
        "200",
    ),
}


@pytest.fixture
def slotq(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Result:
        return real_http.slotq(account, *words, by=OPERATOR, status=None)

    return run


@pytest.mark.parametrize(("body", "path", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_document_changes_nothing(account: Account, body: Any, path: str, words: str):
    account.send("tick")
    before = account.items()
    status, error = account.call(put(body))
    assert (status, error["code"]) == (400, "invalid_request"), error
    faults = {fault["path"]: fault["message"] for fault in error["faults"]}
    assert path in faults, faults
    assert words in faults[path]
    assert len(error["message"]) < 1_000
    assert account.items() == before


@pytest.mark.parametrize(("body", "path", "words"), WRONG.values(), ids=WRONG.keys())
def test_the_cli_tells_the_line(slotq, tmp_path: Path, body: Any, path: str, words: str):
    (tmp_path / "queue.yaml").write_text(yaml.safe_dump(body, sort_keys=False))
    for command in ("apply", "diff"):
        done = slotq("config", command, "queue.yaml")
        assert done.exit_code == 2 if command == "diff" else done.exit_code in {1, 2}, done.output
        told = [line for line in done.stderr.splitlines() if f" {path}: " in line]
        assert told and told[0].startswith("slotq: queue.yaml:"), done.stderr
        assert words in told[0]
        assert max(map(len, done.stderr.splitlines())) < 500


EVERYBODY = [
    "*",
    "**",
    "arn:*",
    "arn:aws:*",
    "arn:aws*",
    "*:*",
    "*/*",
    "arn:aws:iam::*",
    "arn:aws:sts::*",
    "arn:aws:iam::*:*",
    "arn:aws:iam::*:user/*",
    "arn:aws:iam::*:role/*",
    "arn:aws:sts::*:assumed-role/*",
    "arn:aws:sts::*:assumed-role/*/*",
    "arn:*:role/*",
    "*role*",
    "*user/*",
    "*a*",
    "arn:aws-cn:*",
    "arn:aws-us-gov:iam::*",
]
"""Patterns that an account or a name was forgotten in."""


@pytest.mark.parametrize("pattern", EVERYBODY)
def test_a_pattern_that_means_everybody_is_refused(account: Account, pattern: str):
    for body, path in (
        (of_project(members=[pattern]), "projects[0].members[0]"),
        (of_project(admins=[pattern]), "projects[0].admins[0]"),
        (document(operators=[ROLE, pattern]), "operators[1]"),
    ):
        status, error = account.call(put(body))
        assert (status, error["field"]) == (400, path)
        assert "everyone" in error["message"]


@pytest.mark.parametrize(
    "pattern",
    [
        "everyone",
        "arn:aws:iam::123456789012:*",
        "arn:aws:iam::123456789012:role/*",
        "arn:aws:sts::123456789012:assumed-role/*",
        "arn:aws:iam::*:role/Research",
        "arn:aws:iam::*:user/leads/*",
        "*:role/Research-*",
        "arn:aws:sts::*:assumed-role/AWSReservedSSO_Research_*/*",
    ],
)
def test_one_that_names_an_account_or_a_name_is_not(account: Account, pattern: str):
    assert account.call(put(of_project(members=[pattern])))[0] == 200


def projects(*names: str) -> dict[str, Any]:
    return document(projects=[{"name": name, "members": [ROLE]} for name in names])


def shown(account: Account) -> list[str]:
    kept = account.call(request("GET", "/configuration", by=OPERATOR))[1]["configuration"]
    return [each["name"] for each in kept.get("projects", [])]


@pytest.mark.parametrize("states_revision", [True, False])
def test_of_two_applies_at_once_neither_is_mixed_with_the_other(
    account: Account, states_revision: bool
):
    account.call(put(projects("old")))
    first = request(
        "PUT",
        "/configuration",
        by=OPERATOR,
        body={"configuration": projects("a", "b"), **({"revision": 2} if states_revision else {})},
    )
    others = ROLE.replace("Operators", "Others")
    other = put(projects("c"), by=others)
    with before_the_next(account.dynamodb, "TransactWriteItems", lambda: account.call(other)):
        status, said = account.call(first)
    if states_revision:
        assert (status, said["code"]) == (409, "outdated")
        assert others in said["message"]
        assert shown(account) == ["c"]
    else:
        assert (status, said["revision"]) == (200, 4)
        assert shown(account) == ["a", "b"]
    changes = account.call(request("GET", "/changes", by=OPERATOR))[1]["changes"]
    assert [each["who"] for each in changes[:2]][-1] == (OPERATOR if states_revision else others)


@pytest.mark.parametrize("call", range(8))
def test_an_apply_that_dies_leaves_the_old_or_the_new(account: Account, call: int):
    """The process dies before its n-th call to DynamoDB."""
    account.call(put(projects("old")))
    assert submit(account, "waits", "old", by=OPERATOR)[0] == 202
    new = put(projects("old", "new"))

    calls = count()

    def die(**_: Any) -> None:
        if next(calls) == call:
            raise KeyboardInterrupt

    with on(account.dynamodb, "before-call.dynamodb", die), suppress(KeyboardInterrupt):
        account.send(new)
    forget()
    assert shown(account) in (["old"], ["old", "new"])
    account.send("tick")
    account.settle()
    assert account.call(request("GET", "/jobs/waits", by=OPERATOR))[1]["state"] == "running"
    assert account.call(new)[0] == 200
    assert shown(account) == ["old", "new"]


def test_a_removal_with_jobs_tells_the_way(account: Account, slotq):
    account.call(put(projects("old", "new")))
    assert submit(account, "waits", "old", by=OPERATOR)[0] == 202
    for event in (
        request("DELETE", "/projects/old", by=OPERATOR),
        put(projects("new")),
    ):
        status, error = account.call(event)
        assert (status, error["code"]) == (409, "project_in_use")
        assert "slotq projects remove old --move-to" in error["message"]
    for to, field in (("moon", "move_to"), ("old", "move_to"), ("", "move_to")):
        event = request("DELETE", "/projects/old", by=OPERATOR, query={"move_to": [to]})
        status, error = account.call(event)
        assert (status, error["field"]) == (400, field), (to, error)
    assert slotq("projects", "remove", "old", "--move-to", "new").exit_code == 0
    job = account.call(request("GET", "/jobs/waits", by=OPERATOR))[1]
    assert (job["project"], job["message"].split(" by ")[0]) == (
        "new",
        "moved from project old to project new",
    )
    assert shown(account) == ["new"]

"""`slotq transfer` through the real handler: who may, what the new project checks, what is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from click.testing import Result

from slotq.cli.exits import ExitCode
from slotq_core.model.demand import Demand
from slotq_core.model.projects import EVERYWHERE, Prescription
from tests.functional import real_http
from tests.functional.account import Account
from tests.functional.sharing import (
    ADMIN,
    MEMBER,
    OPERATOR,
    OTHER,
    SHARING,
    SPEECH,
    VISION,
    listed,
    request,
    share,
    submit,
)

Slotq = Callable[..., Result]
BOTH = replace(SPEECH, access=replace(SPEECH.access, members=(*SPEECH.access.members, MEMBER)))


@pytest.fixture
def shared(account: Account) -> Account:
    """MEMBER is a member of both projects, and its jobs wait in vision."""
    share(replace(SHARING, projects=(VISION, BOTH)))
    for name in ("one", "two"):
        assert submit(account, name, "vision", by=MEMBER)[0] == 202
    return account


@pytest.fixture
def slotq(shared: Account) -> Slotq:
    return partial(real_http.slotq, shared, by=MEMBER)


def job(account: Account, name: str) -> dict[str, object]:
    found: dict[str, object] = account.call(request("GET", f"/jobs/{name}", by=MEMBER))[1]
    return found


def test_a_waiting_job_goes_to_another_project_and_says_who_moved_it(shared, slotq):
    before = job(shared, "one")
    slotq("transfer", "speech", "one")
    after = job(shared, "one")
    assert (after["project"], after["entry_time"]) == ("speech", before["entry_time"])
    assert after["message"] == f"moved from project vision to project speech by {MEMBER}"
    assert after["place"] is not None
    assert listed(shared, OTHER) == ["one"]
    assert shared.call(request("GET", "/doctor", by=OPERATOR))[1]["findings"] == []
    slotq("transfer", "speech", "one")


def test_many_are_selected_by_options(shared, slotq):
    said = slotq("transfer", "speech", "--project", "vision", "--mine", "--yes")
    assert [line.split(":")[0] for line in said.stdout.splitlines()] == ["one", "two"]
    assert listed(shared, MEMBER, project="speech") == ["one", "two"]


def test_it_needs_a_right_to_the_job_and_to_the_project(shared, slotq):
    submit(shared, "talk", "speech", by=OTHER)
    assert "you may use vision, speech" in slotq("transfer", "moon", "one", status=1).stderr
    assert "changed by its submitter" in slotq("transfer", "vision", "talk", status=1).stderr
    said = slotq("transfer", "speech", "one", by=ADMIN, status=1).stderr
    assert "you may use vision" in said
    slotq("transfer", "speech", "one", by=OPERATOR)
    assert job(shared, "one")["project"] == "speech"


def test_a_held_job_moves_and_stays_held(shared, slotq):
    slotq("hold", "one")
    slotq("transfer", "speech", "one")
    assert [job(shared, "one")[key] for key in ("state", "project")] == ["held", "speech"]


def test_a_running_job_is_refused_with_what_to_do(shared, slotq):
    shared.settle()
    said = slotq("transfer", "speech", "one", status=ExitCode.TOO_LATE).stderr
    assert "Requeue it first" in said
    slotq("hold", "two", status=ExitCode.TOO_LATE)
    assert job(shared, "one")["project"] == "vision"


def test_the_new_project_checks_it_as_a_submission(shared, slotq):
    strict = replace(BOTH, requests=Prescription(images=("other",)))
    share(replace(SHARING, projects=(VISION, strict)))
    assert "allows the images other" in slotq("transfer", "speech", "one", status=1).stderr
    strict = replace(BOTH, requests=Prescription(approval=True, waiting=1))
    share(replace(SHARING, projects=(VISION, strict)))
    slotq("transfer", "speech", "one")
    assert [job(shared, "one")[key] for key in ("state", "cause")] == ["held", "approval"]
    said = slotq("transfer", "speech", "two", status=1)
    assert "1 job waiting" in said.stderr


def test_quotas_count_it_where_it_is_now(shared, slotq):
    """Vision's quota of one slot keeps two fixed jobs from running together; speech has another."""
    fixed = {"slotq:preemptible": "false"}
    speech = replace(BOTH, quota={EVERYWHERE: Demand(slots=1)})
    share(replace(SHARING, projects=(VISION, speech)))
    slotq("cancel", "one", "two")
    for name in ("first", "second"):
        assert submit(shared, name, "vision", by=MEMBER, **fixed)[0] == 202
    shared.settle()
    assert [job(shared, name)["state"] for name in ("first", "second")] == ["running", "pending"]
    slotq("transfer", "speech", "second")
    shared.settle()
    assert job(shared, "second")["state"] == "running"


def test_a_job_of_a_removed_project_is_submitted_again_in_another(shared, slotq):
    slotq("cancel", "one", "two")
    share(replace(SHARING, projects=(BOTH,)))
    assert "you may use speech" in slotq("retry", "one", status=1).stderr
    slotq("retry", "one", "--to-project", "speech")
    slotq("clone", "two", "copy", "--to-project", "speech")
    slotq("retry", "--mine", "--state", "cancelled", "--to-project", "speech", "--yes")
    told = {name: job(shared, name)["project"] for name in ("one-r2", "copy", "two-r2")}
    assert set(told.values()) == {"speech"}

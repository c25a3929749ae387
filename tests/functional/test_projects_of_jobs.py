"""Which project a job belongs to: at its submission, when it moves, when it is submitted again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import pytest

import app
from slotq_core.adapters.dynamodb import jobs as dynamodb_jobs
from slotq_core.adapters.dynamodb.groups import DynamoGroups
from slotq_core.adapters.dynamodb.jobs import DynamoJobs
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Unavailable
from slotq_core.model.callers import Access
from slotq_core.model.jobs import Job
from slotq_core.model.projects import EVERYWHERE, Project
from slotq_core.ports.stored import NewJob
from tests.functional.account import TABLE, Account, forget
from tests.functional.sharing import (
    ADMIN,
    MEMBER,
    NOBODY,
    OPERATOR,
    OTHER,
    OWNER,
    OWNERS,
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


NEVER = (
    "the job waits until the configuration changes: needs 1 slot without eviction, which speech "
    "may hold only within its quota: 0 of 0 used"
)


@pytest.fixture
def shared(account: Account) -> Account:
    share()
    assert submit(account, JOB, "vision", by=OWNER)[0] == 202
    return account


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
        assert (
            "ask the person who configures the queue"
            in submit(shared, "one", by=VIEWER)[1]["message"]
        )

    def test_an_unknown_project_and_one_of_others_are_refused_alike(self, shared: Account):
        unknown, others = (submit(shared, "one", it, by=OTHER) for it in ("nonesuch", "vision"))
        assert unknown[1]["message"] == others[1]["message"].replace("vision", "nonesuch")
        assert unknown[0] == others[0] == 403
        assert "you may use speech" in others[1]["message"]

    def test_an_operator_may_use_each_and_has_to_name_one(self, shared: Account):
        assert submit(shared, "one", by=OPERATOR)[1]["code"] == "project_not_allowed"
        assert self.project_of(submit(shared, "one", "speech", by=OPERATOR)) == "speech"

    def test_jobs_are_listed_by_project(self, shared: Account):
        submit(shared, "mine", "speech", by=OTHER)
        assert listed(shared, OPERATOR, project="vision") == [JOB]
        assert listed(shared, OPERATOR, project="vision,speech") == ["mine", JOB]
        repeated = {"project": ["vision", "speech"]}
        _, view = shared.call(request("GET", "/jobs", by=OPERATOR, query=repeated))
        assert {job["name"] for job in view["jobs"]} == {"mine", JOB}
        assert listed(shared, OPERATOR, project="speech", state="completed") == []

    @pytest.mark.parametrize(
        ("caller", "project", "told"),
        [
            (
                OPERATOR,
                "visoin",
                "'visoin'; your projects are vision, speech; did you mean 'vision'?",
            ),
            (
                OPERATOR,
                "vision,visoin",
                "'visoin'; your projects are vision, speech; did you mean 'vision'?",
            ),
            (MEMBER, "speech", "'speech'; your projects are vision"),
            (NOBODY, "vision", "'vision'; you have none"),
        ],
    )
    def test_an_unknown_project_is_told_with_those_of_the_caller(
        self, shared: Account, caller: str, project: str, told: str
    ):
        """A project that the caller may not see is as unknown as one that is not there."""
        query = {"project": [project]}
        status, said = shared.call(request("GET", "/jobs", by=caller, query=query))
        assert (status, said["code"], said["field"]) == (404, "no_such_project", "project")
        assert said["message"] == f"there is no project {told}"

    def test_jobs_of_a_removed_project_are_still_listed(self, shared: Account):
        share(replace(SHARING, projects=(SPEECH,)))
        assert listed(shared, OPERATOR, project="vision") == [JOB]
        assert listed(shared, OWNER, project="vision") == [JOB]

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

    def test_a_job_that_no_quota_lets_start_is_accepted_with_a_warning(self, shared: Account):
        """Project speech has no quota, so what cannot be evicted never starts there."""
        status, said = submit(shared, "shell", by=OTHER, **{"slotq:class": "interactive"})
        assert (status, said["state"], said["warnings"]) == (202, "pending", [NEVER])
        _, waits = shared.call(request("GET", "/jobs/shell", by=OTHER))
        assert waits["reason"]["code"] == "quota_for_non_preemptible"
        status, said = submit(shared, "firm", by=OTHER, **{"slotq:preemptible": "false"})
        assert (status, said["warnings"]) == (202, [NEVER])
        assert submit(shared, "usual", by=OTHER)[1]["warnings"] == []
        assert (
            submit(shared, "fits", by=OWNER, **{"slotq:class": "interactive"})[1]["warnings"] == []
        )

    def test_so_is_a_job_larger_than_its_projects_limit(self, shared: Account):
        limited = replace(SPEECH, limit={EVERYWHERE: {"slots": 0}})
        share(replace(SHARING, projects=(VISION, limited)))
        (warning,) = submit(shared, "one", by=OTHER)[1]["warnings"]
        assert warning == (
            "the job waits until the configuration changes: needs 1 slot; speech holds 0 of its "
            "limit 0"
        )

    def test_an_amended_job_is_warned_of_as_a_new_one(self, shared: Account):
        submit(shared, "one", by=OTHER)
        fixed = {"tags": {"slotq:preemptible": "false"}}
        status, said = amend(shared, "one", by=OTHER, **fixed)
        assert (status, said["warnings"]) == (200, [NEVER])
        assert amend(shared, "one", by=OTHER, tags={"priority": "1"})[1]["warnings"] == []

    def test_a_groups_members_are_warned_of_once(self, shared: Account):
        members = [
            submission(name, "speech", **{"slotq:class": "interactive"}) for name in ("a", "b")
        ]
        body = {"name": "grid", "max_parallel": 1, "members": members}
        status, said = shared.call(request("POST", "/groups", by=OTHER, body=body))
        assert status == 202, said
        assert [job["warnings"] for job in said["jobs"]] == [[NEVER], []]

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


RING = {"name": "ring", "gang": {}, "members": [*map(submission, ("first", "second"))]}


def dies(*_: Any) -> NoReturn:
    raise Unavailable("the table does not answer")


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

    def test_a_member_of_an_unfinished_gang_stays(self, both: Account, monkeypatch):
        """Its record, which says that it is a gang, comes last."""
        members = [submission(name, "vision") for name in ("first", "second")]
        event = request("POST", "/groups", by=MEMBER, body={**RING, "members": members})
        with monkeypatch.context() as patch:
            patch.setattr(dynamodb_jobs, "_MOST_BYTES", 0)  # No transaction holds the group.
            patch.setattr(DynamoGroups, "keep", dies)
            assert both.call(event)[0] == 503
        status, said = amend(both, "first", by=MEMBER, tags={"slotq:project": "speech"})
        assert (status, said["field"]) == (400, "Tags")
        assert "the submission of its group ring is not finished" in said["message"]
        status, ring = both.call(event)
        assert (status, {job["project"] for job in ring["jobs"]}) == (202, {"vision"})

    def test_a_group_that_goes_on_is_of_the_project_that_it_began_in(
        self, both: Account, monkeypatch
    ):
        event = request("POST", "/groups", by=OTHER, body=RING)
        submit_some = DynamoJobs.submit_together

        def only_first(jobs: DynamoJobs, new: Sequence[NewJob], **more: Any) -> list[Job]:
            known = [job.job.name for job in new]
            return dies() if "second" in known else submit_some(jobs, new, **more)

        with monkeypatch.context() as patch:
            patch.setattr(dynamodb_jobs, "_MOST_BYTES", 0)  # No transaction holds the group.
            patch.setattr(DynamoJobs, "submit_together", only_first)
            assert both.call(event)[0] == 503
        access = Access(members=SPEECH.access.members, default_for=SPEECH.access.members)
        share(replace(SHARING, projects=(replace(VISION, access=access), SPEECH)))
        status, said = both.call(event)
        assert (status, said["field"]) == (400, "members")
        assert "belong to one project, not to speech, vision" in said["message"]

    def test_an_unfinished_group_stays_in_its_project(self, both: Account, monkeypatch):
        """All members are stored, and their default project is another one by now."""
        event = request("POST", "/groups", by=OTHER, body=RING)
        with monkeypatch.context() as patch:
            patch.setattr(dynamodb_jobs, "_MOST_BYTES", 0)  # No transaction holds the group.
            patch.setattr(DynamoGroups, "keep", dies)
            assert both.call(event)[0] == 503
        access = Access(members=SPEECH.access.members, default_for=SPEECH.access.members)
        share(replace(SHARING, projects=(replace(VISION, access=access), SPEECH)))
        assert both.call(event)[0] == 202
        kept = DynamoStore(both.dynamodb, TABLE).groups.get("ring")
        assert kept is not None
        assert kept.project == "speech"

    def test_other_changes_leave_the_project(self, both: Account):
        submit(both, "bare", by=OWNER)
        access = replace(SPEECH.access, default_for=(OWNERS,), members=(OWNERS,))
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
        access = replace(SPEECH.access, default_for=(OWNERS,), members=(OWNERS,))
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


class TestAfterARemoval:
    """A job that moved with `--move-to` is submitted again in the project that it is in now."""

    @pytest.fixture
    def moved(self, shared: Account) -> Account:
        access = replace(SPEECH.access, members=(OWNERS,))
        share(replace(SHARING, projects=(VISION, replace(SPEECH, access=access))))
        query = {"move_to": ["speech"]}
        event = request("DELETE", "/projects/vision", by=OPERATOR, query=query)
        assert shared.call(event)[1]["moved"] == 1
        shared.call(request("DELETE", f"/jobs/{JOB}", by=OWNER))
        return shared

    def request_of(self, account: Account, name: str) -> dict[str, Any]:
        event = request("GET", f"/jobs/{name}/request", by=OWNER)
        kept: dict[str, Any] = account.call(event)[1]["request"]
        return kept

    def retried(self, account: Account) -> dict[str, Any]:
        body = {"changes": [{"name": JOB, "retry": True}]}
        event = request("PATCH", "/jobs", by=OWNER, body=body)
        job: dict[str, Any] = account.call(event)[1]["outcomes"][0]["job"]
        return job

    def test_its_request_names_the_new_project(self, moved: Account):
        clone = {**self.request_of(moved, JOB), "TrainingJobName": "clone"}
        assert clone["Tags"] == [{"Key": "slotq:project", "Value": "speech"}]
        status, job = moved.call(request("POST", "/add-job", by=OWNER, body=clone))
        assert (status, job["project"]) == (202, "speech")

    def test_a_retry_keeps_the_request_that_a_clone_sends(self, moved: Account):
        retried = self.retried(moved)
        assert (retried["name"], retried["project"]) == (f"{JOB}-r2", "speech")
        kept = app.manager()._store.jobs.request(retried["name"])
        assert kept["Tags"] == [{"Key": "slotq:project", "Value": "speech"}]

    def test_who_retries_alone_and_who_retries_many_get_one_job(self, moved: Account):
        alone = {**self.request_of(moved, JOB), "TrainingJobName": f"{JOB}-r2"}
        assert moved.call(request("POST", "/add-job", by=OWNER, body=alone))[0] == 202
        assert self.retried(moved)["name"] == f"{JOB}-r2"


def test_unused_projects_of_others_do_not_show_in_anybodys_choice(shared: Account):
    hidden = Project(name="secret", access=Access(members=(ADMIN,)))
    share(replace(SHARING, projects=(*SHARING.projects, hidden)))
    assert "secret" not in submit(shared, "one", "nonesuch", by=OWNER)[1]["message"]

"""The configuration as a document through the real handler, and `slotq config` through the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import app
from slotq.cli.app import App
from slotq.cli.exits import ExitCode
from slotq.cli.main import cli
from slotq.simulate import load
from slotq_core.model.demand import Demand
from slotq_core.model.projects import EVERYWHERE, Project
from slotq_core.model.sharing import Sharing
from tests.functional.account import NOW, Account, add_job, sample
from tests.functional.real_http import RealHttp
from tests.unit.client.fake_queue import client_of

OPERATOR = sample("apply-configuration")["requestContext"]["identity"]["userArn"]
POOL = {"name": "main", "capacity": 2, "instance_type": "ml.p4d.24xlarge"}
DOCUMENT: dict[str, Any] = {
    "pools": [POOL],
    "departments": [{"name": "research", "quota": 2}],
    "projects": [
        {"name": "vision", "department": "research", "quota": 1},
        {"name": "speech", "department": "research", "quota": 1},
    ],
    "operators": ["arn:aws:sts::123456789012:assumed-role/Operator/*"],
}


def put(document: Any, *, dry_run: bool = False, **fields: Any) -> dict[str, Any]:
    event = sample("apply-configuration")
    event["body"] = json.dumps({"configuration": document, **fields})
    if not dry_run:
        event["queryStringParameters"] = event["multiValueQueryStringParameters"] = None
    return event


def patch(name: str, /, **keys: Any) -> dict[str, Any]:
    return {**sample("set-project"), "path": f"/projects/{name}", "body": json.dumps(keys)}


def delete(name: str, **query: str) -> dict[str, Any]:
    multiple = {key: [value] for key, value in query.items()}
    event = {**sample("remove-project"), "path": f"/projects/{name}"}
    return {**event, "queryStringParameters": query, "multiValueQueryStringParameters": multiple}


def test_a_document_is_applied_shown_and_recorded(account: Account):
    before = account.call("get-configuration")[1]
    assert before["configuration"]["pools"] == [POOL]
    status, dry = account.call(put(DOCUMENT, dry_run=True, revision=before["revision"]))
    assert (status, dry["dry_run"], dry["revision"]) == (200, True, 1)
    assert account.call("get-configuration")[1] == before
    status, done = account.call(put(DOCUMENT, revision=1))
    assert (status, done["dry_run"], done["revision"]) == (200, False, 2)
    assert done["changes"] == dry["changes"]
    assert [(it["section"], it["name"]) for it in done["changes"]] == [
        ("departments", "research"),
        ("projects", "vision"),
        ("projects", "speech"),
        ("operators", ""),
    ]
    after = account.call("get-configuration")[1]
    assert (after["configuration"], after["revision"]) == (DOCUMENT, 2)
    again = account.call(put(DOCUMENT))[1]
    assert (again["changes"], again["revision"]) == ([], 2)
    change = account.call("list-changes")[1]["changes"][0]
    assert (change["who"], change["pools"], change["limits"]) == (OPERATOR, [], None)
    assert change["entries"] == done["changes"]


def test_all_faults_are_told_at_once_by_their_paths(account: Account):
    wrong = {
        "pools": [{**POOL, "capacty": 2}],
        "projects": [
            {"name": "a", "quota": -1, "department": "d"},
            {"name": "b", "members": ["*"]},
        ],
    }
    status, error = account.call(put(wrong))
    assert (status, error["code"]) == (400, "invalid_request")
    assert [fault["path"] for fault in error["faults"]] == [
        "pools[0].capacty",
        "projects[0].quota",
        "projects[1].members[0]",
        "projects[0].department",
    ]
    too_much = {**DOCUMENT, "departments": [{"name": "research", "quota": 1}]}
    status, error = account.call(put(too_much))
    assert (status, error["code"]) == (409, "oversubscribed")
    assert [fault["path"] for fault in error["faults"]] == ["projects[0].quota"]


@pytest.mark.parametrize(
    ("event", "status", "code", "field"),
    [
        (put(DOCUMENT, revision=7), 409, "outdated", "revision"),
        (put(DOCUMENT, revision="1"), 400, "invalid_request", "revision"),
        (put(DOCUMENT, dryrun=True), 400, "invalid_request", "dryrun"),
        (put([]), 400, "invalid_request", "configuration"),
        (put({}), 400, "invalid_request", "pools"),
        (put({"pools": []}), 400, "invalid_request", "pools"),
        (
            put({"pools": [{**POOL, "time_slice": 0}]}),
            400,
            "invalid_request",
            "pools[0].time_slice",
        ),
        (
            put({"pools": [{**POOL, "suspend_grace": 841}]}),
            400,
            "invalid_request",
            "pools[0].suspend_grace",
        ),
        (
            put({"pools": [{**POOL, "suspend_grace": "yes"}]}),
            400,
            "invalid_request",
            "pools[0].suspend_grace",
        ),
        (
            put({"pools": [{**POOL, "min_runtime": 0.5}]}),
            400,
            "invalid_request",
            "pools[0].min_runtime",
        ),
        (
            put({"pools": [{"name": "main", "capacity": 2}]}),
            400,
            "invalid_request",
            "pools[0].instance_type",
        ),
        (
            put({"pools": [POOL], "projects": [{"name": "x", "members": ["a" * 10_000]}]}),
            400,
            "invalid_request",
            "projects[0].members[0]",
        ),
        (
            put({"pools": [POOL], "projects": [{"name": "n" * 64}]}),
            400,
            "invalid_request",
            "projects[0].name",
        ),
        (
            put({"pools": [POOL], "projects": [{"name": f"p{n}"} for n in range(2001)]}),
            400,
            "invalid_request",
            "projects",
        ),
        (
            put({"pools": [POOL], "projects": [{"name": "a", "quota": {"p6": 1}}]}),
            400,
            "invalid_request",
            "projects[0].quota.p6",
        ),
        (
            put(
                {
                    "pools": [POOL],
                    "projects": [{"name": "a", "quota": 1}, {"name": "b", "quota": {"main": 1}}],
                }
            ),
            400,
            "invalid_request",
            "projects[1].quota",
        ),
        (
            put({**DOCUMENT, "sharing": {"unchecked": ["everything"]}}),
            400,
            "invalid_request",
            "sharing.unchecked[0]",
        ),
        (put({**DOCUMENT, "x": "y" * 1_000_000}), 400, "invalid_request", ""),
        (patch("vision"), 400, "invalid_request", ""),
        (patch("vision", name="other"), 400, "invalid_request", "name"),
        (patch("vision", quota="2"), 400, "invalid_request", "quota"),
        (patch("vision", quota=1, revision=7), 409, "outdated", "revision"),
        (patch("vision", whem=None), 400, "invalid_request", "whem"),
        (patch("vision", **{"": None}), 400, "invalid_request", ""),
        (patch("vision", quota=3), 409, "oversubscribed", "projects[0].quota"),
        (delete("vision"), 404, "no_such_project", "name"),
        (delete("vision", force="1"), 400, "invalid_request", "force"),
    ],
)
def test_bad_input_changes_nothing(account: Account, event, status, code, field):
    answer = account.call(event)
    assert (answer[0], answer[1]["code"], answer[1]["field"]) == (status, code, field), answer[1]
    assert account.call("get-configuration")[1]["revision"] == 1


def test_one_project_changes_and_shows_what_it_uses(account: Account):
    account.call(put(DOCUMENT))
    status, done = account.call(patch("vision", weight="High", priority=1))
    (change,) = done["changes"]
    assert (status, change["before"].get("weight"), change["after"]["weight"]) == (200, None, 3)
    assert account.call(patch("vision", weight="High", priority=1))[1]["changes"] == []
    assert account.call(patch("vision", weight=None))[1]["changes"][0]["after"]["priority"] == 1
    told = account.call("list-projects")[1]
    assert [(it["name"], it["used"]) for it in told["projects"]] == [("vision", {}), ("speech", {})]
    assert told["projects"][0]["project"]["department"] == "research"
    status, done = account.call(delete("vision", revision=str(told["revision"])))
    assert (status, [it["after"] for it in done["changes"]]) == (200, [None])


def test_a_thousand_projects_are_applied_within_one_answer(account: Account):
    many = [{"name": f"p{n:04d}", "members": [f"arn:aws:iam::1:role/{n}"]} for n in range(1000)]
    status, done = account.call(put({"pools": [POOL], "projects": many}))
    assert (status, len(done["changes"])) == (200, 1000)
    assert len(account.call("list-projects")[1]["projects"]) == 1000
    change = account.call("list-changes")[1]["changes"][0]
    assert len(change["entries"]) + change["entries_left_out"] == 1000


@pytest.fixture
def http(account):
    return RealHttp(account)


@pytest.fixture
def slotq(http, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words: str, status: int = 0):
        world = App(connect=lambda _: client_of(http))
        result = CliRunner().invoke(cli, words, obj=world)
        assert result.exit_code == status, result.output
        return result

    return run


@pytest.fixture
def file(tmp_path):
    def write(text: Any, name: str = "queue.yaml"):
        path = tmp_path / name
        path.write_text(text if isinstance(text, str) else yaml.safe_dump(text, sort_keys=False))
        return name

    return write


def test_a_file_in_git_is_compared_applied_and_exported(slotq, file, http, tmp_path):
    name = file(DOCUMENT)
    told = slotq("config", "diff", name, status=ExitCode.NO)
    lines = told.stdout.splitlines()
    assert lines[:2] == ["--- queue (revision 1)", f"+++ {name}"]
    at = lines.index("@@ projects: vision @@")
    assert lines[at + 1 : at + 4] == ["+name: vision", "+department: research", "+quota: 1"]
    assert slotq("config", "apply", name, "--dry-run").stdout == told.stdout
    applied = slotq("config", "apply", name)
    assert "(revision 2)" in applied.stderr
    assert slotq("config", "diff", name).stdout == ""
    http.methods.clear()
    again = slotq("config", "apply", name)
    assert (again.stdout, http.methods) == ("", ["GET"]), "nothing is sent where nothing differs"
    slotq("config", "export", "exported.yaml")
    assert yaml.safe_load((tmp_path / "exported.yaml").read_text()) == DOCUMENT
    assert slotq("config", "export").stdout == (tmp_path / "exported.yaml").read_text()
    assert slotq("config", "diff", "exported.yaml").exit_code == ExitCode.OK


def test_a_change_shows_only_what_differs(slotq, file):
    slotq("config", "apply", file(DOCUMENT))
    vision, speech = DOCUMENT["projects"]
    projects = [{**vision, "weight": 2}, speech]
    name = file({**DOCUMENT, "projects": projects})
    lines = slotq("config", "apply", name).stdout.splitlines()
    assert lines[2:] == [
        "@@ projects: vision @@",
        " name: vision",
        " department: research",
        " quota: 1",
        "+weight: 2",
    ]
    history = slotq("config", "history").stdout
    assert "projects: vision" in history
    assert "weight none → 2" in history
    assert len(json.loads(slotq("config", "history", "--json").stdout)["changes"]) == 3


def test_the_export_is_a_scenarios_world(slotq, file, tmp_path):
    slotq("config", "apply", file(DOCUMENT))
    text = slotq("config", "export").stdout
    path = tmp_path / "world.yaml"
    path.write_text(text + "jobs: [{name: job1, submit_at: 0, project: vision, runtime: 10}]\n")
    scenario = load(path)
    assert [each.name for each in scenario.shared.projects] == ["vision", "speech"]
    assert [pool.capacity.slots for pool in scenario.configuration().pools] == [2]


def test_the_longest_names_of_a_queue_are_a_scenarios_too(slotq, file, tmp_path):
    longest = {"name": "p" * 63, "capacity": 1, "instance_type": "ml.p4d.24xlarge"}
    project = {"name": "t" * 63, "department": "d" * 63, "pools": [longest["name"]]}
    departments = [{"name": "d" * 63}]
    document = {"pools": [POOL, longest], "departments": departments, "projects": [project]}
    slotq("config", "apply", file(document))
    path = tmp_path / "world.yaml"
    path.write_text(slotq("config", "export").stdout + "jobs: []\n")
    assert [pool.name for pool in load(path).configuration().pools] == ["main", "p" * 63]


class TestAPoolNamedLikeAResource:
    """Which of the two a quota means must not be guessed."""

    POOLS = ({**POOL, "name": "gpus"}, {**POOL, "name": "p5"})

    def document(self, quota: Any) -> dict[str, Any]:
        return {"pools": self.POOLS, "projects": [{"name": "a", "quota": quota}]}

    def test_a_quota_that_can_mean_either_is_refused(self, account: Account):
        status, error = account.call(put(self.document({"gpus": 1})))
        assert (status, [it["path"] for it in error["faults"]]) == (400, ["projects[0].quota.gpus"])
        assert "write {gpus: {slots: n}} for the pool" in error["message"]

    @pytest.mark.parametrize("quota", [{"gpus": {"slots": 1}}, {"gpus": {"slots": 1}, "p5": 1}])
    def test_amounts_or_another_pool_say_that_it_is_the_pool(self, account: Account, quota: Any):
        assert account.call(put(self.document(quota)))[0] == 200
        (stand,) = account.call("list-projects")[1]["projects"][0]["standings"][:1]
        assert (stand["pool"], stand["resource"], stand["quota"]) == ("gpus", "slots", 1)
        kept = account.call("get-configuration")[1]["configuration"]
        assert kept["projects"][0]["quota"] == quota
        assert account.call(put(kept))[1]["changes"] == []
        assert account.call(patch("a", weight=2))[0] == 200
        assert account.call("list-projects")[1]["projects"][0]["project"]["quota"] == quota

    def test_a_number_beside_another_pool_is_the_pools(self, account: Account):
        assert account.call(put(self.document({"gpus": 1, "p5": 1})))[0] == 200
        kept = account.call("get-configuration")[1]["configuration"]
        assert kept["projects"][0]["quota"] == {"gpus": {"slots": 1}, "p5": 1}

    def test_beside_another_resource_it_is_the_resource(self, account: Account):
        assert account.call(put(self.document({"slots": 2, "gpus": 16})))[0] == 200
        kept = account.call("get-configuration")[1]["configuration"]
        assert kept["projects"][0]["quota"] == {"slots": 2, "gpus": 16}

    def test_a_queue_that_has_such_a_quota_goes_on(self, account: Account):
        assert account.call(put({"pools": self.POOLS}))[0] == 200
        old = Project(name="old", quota={EVERYWHERE: Demand(gpus=8)})
        store = app.manager()._store
        store.configuration.change(sharing=Sharing(projects=(old,)), who="test", now=NOW)
        assert account.call(patch("old", weight=2))[0] == 200
        assert account.call(patch("new", quota={"slots": 1}))[0] == 200
        assert store.configuration.read().sharing.projects[0].quota == old.quota
        document = account.call("get-configuration")[1]["configuration"]
        assert document["projects"][0]["quota"] == {"slots": 0, "gpus": 8}
        assert account.call(put({**document, "limits": {"waiting": 5}}))[0] == 200
        assert store.configuration.read().sharing.projects[0].quota == old.quota


def test_a_scenario_can_be_applied_without_what_only_simulations_have(slotq, file):
    scenario = {
        **DOCUMENT,
        "pools": [{**POOL, "foreign": 1, "stop_seconds": 5}],
        "jobs": [{"name": "job1", "submit_at": 0, "project": "vision"}],
        "until": 10,
    }
    told = slotq("config", "apply", file(scenario))
    assert told.stderr.startswith(
        "queue.yaml: only simulations have jobs, until, pools.foreign, pools.stop_seconds: left out"
    )
    assert slotq("config", "diff", file(DOCUMENT)).exit_code == ExitCode.OK


def test_faults_of_a_file_are_told_by_line(slotq, file):
    text = """pools:
  - {name: main, capacity: 2}
projects:
  - name: vision
    quota: -1
    when: 2026-01-01
"""
    told = slotq("config", "apply", file(text), status=ExitCode.USAGE)
    assert (
        told.stderr
        == "slotq: queue.yaml:6: projects[0].when: '2026-01-01' is a date: put it in quotes\n"
    )
    told = slotq(
        "config", "diff", file(text.replace("when: 2026-01-01", "whem: 1")), status=ExitCode.USAGE
    )
    first, second, third = told.stderr.removeprefix("slotq: ").splitlines()
    assert first.startswith("queue.yaml:2: pools[0].instance_type: ")
    assert second.startswith("queue.yaml:5: projects[0].quota: a whole number from 0")
    assert third.startswith("queue.yaml:6: projects[0].whem: there is no such key;")
    told = slotq("config", "apply", file({"pools": [{"name": "a.b", "capacity": 2}]}), status=2)
    assert told.stderr.startswith("slotq: queue.yaml:2: pools[0].instance_type: ")


def test_faults_that_the_queue_finds_are_told_by_line(slotq, file):
    text = """pools:
  - {name: main, capacity: 2, instance_type: ml.p4d.24xlarge}
  - {name: a.b, capacity: 2, instance_type: ml.p4d.24xlarge}
projects:
  - name: vision
    quota:
      main: 1
      a.b: 3
"""
    told = slotq("config", "apply", file(text), status=ExitCode.NO)
    assert told.stderr == (
        "slotq: queue.yaml:8: projects[0].quota.a.b: project 'vision' has a quota of 3 slots in "
        "pool a.b, which has 2 (rule quota_within_pools)\nNothing was changed.\n"
    )


def test_a_file_that_cannot_be_written_or_read_is_named(slotq):
    told = slotq("config", "export", "nowhere/queue.yaml", status=ExitCode.USAGE)
    assert told.stderr == "slotq: nowhere/queue.yaml: No such file or directory\n"
    told = slotq("config", "apply", "nothing.yaml", status=ExitCode.USAGE)
    assert told.stderr == "slotq: nothing.yaml: No such file or directory\n"


def test_a_file_that_contains_itself_is_refused(slotq, file):
    told = slotq("config", "diff", file("pools: &all [*all]"), status=ExitCode.USAGE)
    assert told.stderr == "slotq: queue.yaml: it contains itself\n"


def test_programs_get_every_fault(slotq, file):
    name = file({**DOCUMENT, "departments": [{"name": "research", "quota": 1}]})
    told = json.loads(slotq("config", "apply", name, "--json", status=ExitCode.NO).stderr)
    assert (told["code"], [it["path"] for it in told["faults"]]) == (
        "oversubscribed",
        ["projects[0].quota"],
    )


def test_a_file_for_another_revision_is_refused(slotq, file):
    name = file(DOCUMENT)
    told = slotq("config", "apply", name, "--revision", "7", status=ExitCode.NO)
    assert "now at revision 1" in told.stderr
    slotq("config", "apply", name, "--revision", "1")


def test_projects_change_one_by_one(slotq, file, account):
    slotq("config", "apply", file({"pools": [POOL]}))
    assert "there are no projects" in slotq("projects").stdout
    assert "+quota: 1" in slotq("projects", "set", "vision", "quota=1", "members=[a:role/x]").stdout
    slotq("projects", "set", "speech", "quota=1", "weight=High")
    lines = slotq("projects", "list").stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["vision", "1"], ["speech", "1"]]
    assert "weight: 3" in slotq("projects", "show", "speech").stdout
    by_resource = slotq("projects", "set", "speech", "weight={slots: Low}").stdout
    assert "-weight: 3\n+weight:\n+  slots: 1" in by_resource
    told = slotq("projects", "set", "speech", "weight={gpus: 1}", status=ExitCode.NO)
    assert "weight.gpus: nobody has a quota of gpus" in told.stderr
    told = slotq("projects", "set", "vision", "quota=5", status=ExitCode.NO)
    assert "quota of 5 slots over all pools, which have 2" in told.stderr
    assert "give KEY=VALUE" in slotq("projects", "set", "vision", "qouta=5", status=2).stderr
    assert "-name: vision" in slotq("projects", "remove", "vision").stdout
    told = slotq("projects", "remove", "vision", status=ExitCode.NO)
    assert "there is no project 'vision'; the projects are speech" in told.stderr


def test_jobs_of_a_project_move(slotq, file, account):
    account.call(add_job(TrainingJobName="job0"))
    slotq("config", "apply", file(DOCUMENT))
    told = json.loads(slotq("projects", "remove", "vision", "--move-to", "speech", "--json").stdout)
    assert (told["moved"], [it["name"] for it in told["changes"]]) == (0, ["vision"])


def test_the_schema_is_printed(slotq):
    schema = json.loads(slotq("config", "schema").stdout)
    assert schema["properties"].keys() >= {"pools", "departments", "projects", "limits"}


@pytest.mark.parametrize(("given", "grace"), [(True, 5), ("on", 5), (30, 30), (False, None)])
def test_a_grace_is_a_number_or_a_switch(account: Account, given, grace):
    assert account.call(put({"pools": [{**POOL, "suspend_grace": given}]}))[0] == 200
    document = account.call("get-configuration")[1]["configuration"]
    assert document["pools"][0].get("suspend_grace") == grace

"""Every command that uploads asks the queue first: a refusal uploads nothing, and costs nothing
where nothing is uploaded."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from slotq.cli.app import App
from slotq.cli.exits import ExitCode
from slotq.cli.main import cli
from slotq.configuration.settings import Config
from slotq.errors import NoDryRuns
from slotq_core.errors import Refused
from tests.functional.account import Account, add_job, sample
from tests.functional.real_http import RealHttp
from tests.functional.sharing import OWNER, share
from tests.unit.client.fake_aws import FakeS3, FakeSageMaker, FakeServices
from tests.unit.client.fake_queue import ENDPOINT, FakeAnswer, client_of

SETTINGS = {
    "image": "train:1",
    "role": "arn:aws:iam::123456789012:role/trainer",
    "output": "s3://bucket/runs",
    "instance_type": json.loads(sample("add-job")["body"])["ResourceConfig"]["InstanceType"],
}
COMMAND = ("--name", "new", "--", "python", "train.py")
WAYS = {
    "command": COMMAND,
    "array": ("--array", "1-2", *COMMAND),
    "folder": ("site/", "--name", "new"),
    "file": ("job.json", "--name", "new"),
    "array of a file": ("job.json", "--array", "1-2", "--name", "new"),
}
WRONG = {
    "class": ("--priority", "FIRST"),
    "priority": ("--priority", "11"),
    "project": ("--project", "nowhere"),
    "after": ("--after", "never"),
    "pool": ("--pools", "nope"),
    "type": ("--instance-type", "ml.odd.xlarge"),
    "count": ("--instance-count", "3"),
}
ONLY_COMMANDS, NOT_FOLDERS = ("type", "count"), ("pool", "type", "count")


class Http(RealHttp):
    """Keeps the calls; can be a queue of an earlier release."""

    def __init__(self, account: Account) -> None:
        super().__init__(account, OWNER)
        self.calls: list[str] = []
        self.version: FakeAnswer | None = None

    def send(self, request: Any) -> FakeAnswer:
        path = request.url.removeprefix(ENDPOINT)
        self.calls.append(f"{request.method} {path}")
        if path == "/version" and self.version is not None:
            return self.version
        return super().send(request)


@pytest.fixture
def http(account: Account) -> Http:
    share()
    account.settle()
    return Http(account)


@pytest.fixture
def s3() -> FakeS3:
    return FakeS3()


@pytest.fixture
def submit(http: Http, s3: FakeS3, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('trained')\n")
    request = json.loads(sample("add-job")["body"])
    (tmp_path / "job.json").write_text(json.dumps({**request, "Tags": []}))
    (tmp_path / "site" / "source").mkdir(parents=True)
    (tmp_path / "site" / "source" / "train.py").write_text("print('trained')\n")
    template = {key: it for key, it in request.items() if key not in {"TrainingJobName", "Tags"}}
    template["AlgorithmSpecification"] = {
        "TrainingImage": "train:1",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["python", "train.py"],
    }
    (tmp_path / "site" / "job.json").write_text(json.dumps(template))

    def run(*words: str):
        config = Config(endpoint=ENDPOINT, region="eu-west-1", **SETTINGS)
        services = FakeServices(s3=s3, sagemaker=FakeSageMaker())
        world = App(connect=lambda _: client_of(http, config=config), aws=services)
        return CliRunner().invoke(cli, ["submit", *words], obj=world)

    return run


def cases() -> list[tuple[str, str]]:
    return [
        (way, what)
        for way in WAYS
        for what in WRONG
        if not (what in ONLY_COMMANDS and "train.py" not in WAYS[way])
        and not (what in NOT_FOLDERS and way == "folder")
    ]


@pytest.mark.parametrize(("way", "what"), cases())
def test_what_the_queue_refuses_is_not_uploaded(account: Account, submit, s3, way, what):
    account.call("list-jobs")
    before = account.items()
    result = submit(*WRONG[what], *WAYS[way])
    assert result.exit_code == ExitCode.NO, result.output
    assert s3.objects == {}, result.output
    assert "packed" not in result.output and "uploaded" not in result.output
    assert account.items() == before
    dry = submit("--dry-run", *WRONG[what], *WAYS[way])
    assert (dry.exit_code, dry.stdout, dry.stderr) == (ExitCode.NO, "", result.stderr)


@pytest.mark.parametrize("way", WAYS)
def test_the_queue_is_asked_first_only_where_something_is_uploaded(submit, http, s3, way):
    result = submit(*WAYS[way])
    assert result.exit_code == ExitCode.OK, result.output
    posts = [call for call in http.calls if call.startswith("POST")]
    path = posts[-1]
    assert posts == ([f"{path}?dry_run=true", path] if s3.objects else [path])
    assert bool(s3.objects) == ("file" not in way)
    assert http.calls.count("GET /version") == len(posts) - 1


@pytest.mark.parametrize("way", WAYS)
def test_a_dry_run_says_what_would_come_of_it(account: Account, submit, s3, way):
    account.call("list-jobs")
    before = account.items()
    result = submit("--dry-run", "--priority", "7", *WAYS[way])
    assert result.exit_code == ExitCode.OK, result.output
    assert (account.items(), s3.objects) == (before, {})
    assert json.loads(result.stdout)
    jobs = {"array": "2 jobs", "folder": "2 jobs", "array of a file": "2 jobs"}
    assert result.stderr.splitlines()[0] == (
        f"nothing was submitted; the queue would take {jobs.get(way, 'the job')} in project "
        "vision, with priority 7 for pool main"
    )
    assert submit("--dry-run", "--json", *WAYS[way]).stderr == ""


def test_the_name_that_is_free_is_found_before_the_upload(submit, s3):
    assert submit(*COMMAND).exit_code == ExitCode.OK
    s3.objects.clear()
    result = submit("--env", "SEED=7", *COMMAND)
    assert (result.exit_code, s3.objects) == (ExitCode.NO, {})
    result = submit("--env", "SEED=7", "--again", *COMMAND)
    assert result.exit_code == ExitCode.OK, result.output
    assert result.stdout.startswith("new-r2: ")
    assert len(s3.objects) == 2


@pytest.mark.parametrize("status", [200, 403])
@pytest.mark.parametrize("way", ["command", "array", "folder"])
def test_a_queue_that_does_not_know_dry_runs_is_not_sent_any(submit, http, s3, way, status):
    """An earlier release would store the job before its code is there."""
    view = {"version": 1, "slotq": "0.2.0", "caller": OWNER}
    http.version = FakeAnswer(status, json.dumps(view if status == 200 else {"Message": "no"}))
    result = submit(*WAYS[way])
    assert result.exit_code == ExitCode.OK, result.output
    assert s3.objects
    assert not [call for call in http.calls if "dry_run" in call]
    result = submit("--dry-run", *WAYS[way])
    assert result.exit_code == ExitCode.OK
    assert "this queue does not say what would come of it" in result.stderr


def test_the_client_asks_for_programs(account: Account, http):
    client = client_of(http)
    request = json.loads(add_job(TrainingJobName="new")["body"])
    client.service.me()  # The first request of a container moves the queue's version.
    before = account.items()
    assert client.submit(request, dry_run=True).project == "vision"
    assert client.groups.submit_gang("ring", [request], dry_run=True).members == 1
    with pytest.raises(Refused, match="no pool"):
        client.with_settings(pools="nope").submit(request, dry_run=True)
    assert account.items() == before
    assert http.calls.count("GET /version") == 1
    http.version = FakeAnswer(403, json.dumps({"Message": "no"}))
    with pytest.raises(NoDryRuns):
        client_of(http).submit(request, dry_run=True)

"""The Python and the commands of the migration pages run as they are."""

from __future__ import annotations

import ast
import json
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner
from moto import mock_aws

from slotq.cli.app import App
from slotq.cli.main import cli
from slotq_core.model.jobs import JobState
from slotq_core.wire.submission import parse_submission
from tests.unit.client.fake_aws import FakeServices, make_default_bucket
from tests.unit.client.fake_queue import (
    Clock,
    FakeHttp,
    FakeNetwork,
    FakeQueue,
    attempt,
    client_of,
    ended,
    job_view,
    pool_view,
    served,
    waiting,
)

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {
    name: (DOCS / f"migrate-from-{name}.md").read_text() for name in ("sagemaker", "batch", "slurm")
}
DONE = attempt(1, artifact="s3://my-bucket/models/my-job/output/model.tar.gz", outcome="completed")


class QuickQueue(FakeQueue):
    """A queue whose job `my-job` has completed at the first look."""

    def taken(self, name, priority):
        if name == "my-job":
            return ended(name=name, priority=priority, attempts=[DONE])
        return super().taken(name, priority)


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)


@pytest.fixture
def queue(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    queue = QuickQueue(job_view("job1", "pending"))
    with mock_aws(), served(queue) as endpoint:
        make_default_bucket()
        monkeypatch.setenv("SLOTQ_ENDPOINT", endpoint)
        yield queue


@pytest.fixture
def sdk(no_telemetry):
    pytest.importorskip("sagemaker.estimator", reason="the sagemaker2 extra is not installed")


@pytest.mark.usefixtures("sdk")
def test_the_sagemaker_page_changes_one_line(queue):
    estimator, _ = blocks("sagemaker", "python")
    exec(compile(estimator, "docs", "exec"), {})
    assert queue.requests["my-job"]["CheckpointConfig"]["S3Uri"].endswith("/checkpoints")


def test_the_boto3_page_changes_one_line(queue):
    _, plain = blocks("sagemaker", "python")
    notebook: dict = {}
    exec(compile(plain, "docs", "exec"), notebook)
    request = {
        "TrainingJobName": "plain",
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/trainer",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    }  # fmt: skip
    notebook["sagemaker"].create_training_job(**request)
    assert "plain" in queue.requests


@pytest.mark.usefixtures("sdk")
def test_the_batch_page_has_code_that_runs_and_names_that_exist(queue):
    before, after = blocks("batch", "python")
    notebook: dict = {}
    exec(compile(after, "docs", "exec"), notebook)
    assert notebook["model"] == DONE.artifact
    tags = {tag["Key"]: tag["Value"] for tag in queue.requests["my-job"]["Tags"]}
    assert tags == {"priority": "50", "slotq:project": "vision", "slotq:pools": "p5"}
    methods = {
        method.name: {argument.arg for argument in method.args.args}
        for node in ast.parse(batch_of_the_sdk().read_text()).body
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef)
    }
    (arguments,) = re.findall(r"submit\((.*?)\)\n", before, re.DOTALL)
    named = set(re.findall(r"(\w+)=", arguments))
    named |= set(re.findall(r"`submit\((\w+)=", PAGES["batch"]))
    assert named <= methods["submit"]
    assert set(re.findall(r"`queue\.(\w+)\(", PAGES["batch"])) <= methods.keys()


def batch_of_the_sdk() -> Path:
    """Parsed, not imported: it imports a package that the SDK does not require."""
    found = find_spec("sagemaker")
    assert found is not None
    assert found.submodule_search_locations
    (folder,) = found.submodule_search_locations
    return Path(folder) / "aws_batch" / "training_queue.py"


def test_the_batch_page_maps_every_job_state():
    rows = re.findall(r"^\| ([A-Z, ]+) \| (.*?) \| \|$", PAGES["batch"], re.MULTILINE)
    named = {word for _, ours in rows for word in re.findall(r"`(\w+)`", ours)}
    assert named == {state.value for state in JobState}


def test_the_slurm_pages_python_runs(queue):
    (block,) = blocks("slurm", "python")
    exec(compile(block, "docs", "exec"), {})
    assert (queue.jobs["job1"].priority, queue.jobs["job1"].state) == (50, "pending")


def slurm_commands():
    """Each command of the queue's column, except `slotq top` (needs a terminal) and `shell` (needs
    a running job)."""
    table = PAGES["slurm"].partition("## The commands")[2].partition("```")[0]
    for row in table.splitlines():
        cells = [cell.strip() for cell in row.split("|")]
        for line in re.findall(r"`(slotq [^`]*)`", cells[2] if len(cells) > 2 else ""):
            elsewhere = line.split()[1] in {"top", "shell", "watch"} or "--shell" in line
            if not elsewhere and "NAME" not in line:
                yield line


@pytest.mark.parametrize("line", sorted(set(slurm_commands())))
def test_every_command_of_the_slurm_page_runs(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (text,) = blocks("slurm", "json")
    (tmp_path / "job.json").write_text(text.replace('"job1"', '"my-job"'))
    queue, clock = QuickQueue(waiting(1, name="job1")), Clock()
    queue.pools = [pool_view("p5"), pool_view("p4")]
    http = FakeHttp(queue)
    app = App(
        connect=lambda endpoint: client_of(http),
        clock=clock,
        sleep=clock.sleep,
        network=FakeNetwork(),
        aws=FakeServices(),
    )
    result = CliRunner().invoke(cli, shlex.split(line)[1:], obj=app)
    assert result.exit_code == 0, result.output


def test_the_slurm_pages_request_is_valid():
    (text,) = blocks("slurm", "json")
    submission, _ = parse_submission(json.loads(text))
    assert (submission.demand.slots, submission.pools, submission.priority) == (2, ("p5",), 50)

"""The client and the commands with the deployed code: signatures, answers, refusals."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace

import pytest
from click.testing import CliRunner

from slotq import QueueClient, print_queue_state
from slotq.cli.exits import ExitCode
from slotq.cli.main import cli
from slotq.configuration.settings import Config, load
from slotq.errors import InvalidRequest, NotAllowed, UnexpectedAnswer
from slotq_core.wire.views.jobs import JobView, QueueView
from tests.e2e.waiting import until

pytestmark = pytest.mark.usefixtures("aws")


def request(name, *command):
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {
            "TrainingImage": "none",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": list(command),
        },
        "RoleArn": "arn:aws:iam::123456789012:role/trainer",
        "OutputDataConfig": {"S3OutputPath": "s3://sagemaker-us-east-1-123456789012/models"},
        "ResourceConfig": {
            "InstanceType": "ml.p5.48xlarge",
            "InstanceCount": 1,
            "VolumeSizeInGB": 1,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    }


def slotq(*arguments, **options):
    return CliRunner().invoke(cli, arguments, **options)


def test_a_job_runs_from_its_file_to_its_end(tmp_path):
    (tmp_path / "job.json").write_text(json.dumps(request("hello", "echo", "hello")))
    result = slotq("submit", str(tmp_path / "job.json"), "--priority", "3", "--wait")
    assert result.exit_code == ExitCode.OK, result.output
    assert result.output.splitlines()[-1] == "hello: completed after 1 attempt"
    job = JobView.model_validate_json(slotq("show", "hello", "--json").output)
    assert (job.state, job.priority, job.submitter[-12:]) == ("completed", 3, "user/testing")
    assert job.attempts[0].artifact.endswith("/hello/output/model.tar.gz")


def test_a_failed_job_has_its_exit_code():
    result = slotq("submit", "-", "--wait", input=json.dumps(request("broken", "false")))
    assert result.exit_code == ExitCode.NO
    assert "exit code: 1" in result.output


def test_waiting_jobs_are_listed_with_their_reasons():
    slotq("submit", "-", input=json.dumps(request("long", "sleep", "100")))
    slotq("submit", "-", input=json.dumps(request("next", "true")))
    slotq("submit", "-", input=json.dumps(request("last", "true")))
    view = QueueView.model_validate_json(slotq("ls", "--state", "pending", "--json").output)
    assert [(job.name, job.place) for job in view.jobs] == [("next", 1), ("last", 2)]
    assert "needs 1 slot; pool one has 0 free of 1" in slotq("why", "next").output
    for name in ("next", "last", "long"):
        assert slotq("cancel", name).exit_code == ExitCode.OK
    assert slotq("watch", "long", "--every", "0.2").exit_code == ExitCode.NO
    assert "cancelled" in slotq("show", "long").output


def test_many_requests_are_submitted_together_and_one_that_is_refused_stops_none(tmp_path):
    large = request("large", "true")
    large["ResourceConfig"]["InstanceCount"] = 2
    many = [request(f"many-{n}", "true") for n in range(12)]
    (tmp_path / "many.json").write_text(json.dumps([*many[:6], large, *many[6:]]))
    (tmp_path / "one.json").write_text(json.dumps(request("one", "true")))
    files = [str(tmp_path / name) for name in ("many.json", "one.json")]
    result = slotq("submit", *files, "--priority", "2", "--json")
    assert result.exit_code == ExitCode.NO, result.output
    refused = json.loads(result.stderr)
    assert (refused["code"], refused["field"]) == ("never_fits", "ResourceConfig.InstanceCount")
    names = [job.name for job in QueueView.model_validate_json(result.stdout).jobs]
    assert names == [*(f"many-{n}" for n in range(12)), "one"]
    until(lambda: {state(name) for name in names} == {"completed"}, "not all have completed")
    again = slotq("submit", files[1], files[1])
    assert again.exit_code == ExitCode.NO
    assert "job 'one' has ended (completed)" in again.output


def state(name):
    return QueueClient().jobs.view(name).state


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"TrainingJobName": "a_b"}, "TrainingJobName"),
        ({"ResourceConfig": {}}, "ResourceConfig"),
        ({"Tags": [{"Key": "priority", "Value": "1000001"}]}, "1,000,000"),
        ({"Tags": [{"Key": "slotq:pool", "Value": "x"}]}, "slotq:pools"),
    ],
)
def test_a_refusal_names_the_field(change, said):
    result = slotq("submit", "-", input=json.dumps(request("bad", "true") | change))
    assert result.exit_code == ExitCode.NO
    assert said in result.stderr
    assert slotq("show", "bad").exit_code == ExitCode.NO


def test_a_wrong_or_missing_key_is_refused(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(NotAllowed, match="signature"):
        QueueClient().jobs()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(NotAllowed, match="no AWS credentials"):
        QueueClient().jobs()
    assert slotq("ls").exit_code == ExitCode.NOT_ALLOWED


def test_commands_work_through_a_vpc_endpoint():
    config = replace(load(), api_id="slotqlocal")
    assert isinstance(QueueClient(config=config).jobs(), list)
    with pytest.raises(NotAllowed, match="SLOTQ_API_ID"):
        QueueClient(config=replace(config, api_id="another")).jobs()


def test_an_endpoint_without_its_stage_is_an_error(aws):
    with pytest.raises((NotAllowed, UnexpectedAnswer), match="stage"):
        QueueClient(config=Config(endpoint=aws.url)).jobs()


def test_a_too_large_request_is_not_sent():
    large = request("large", "true") | {"Environment": {"A": "x" * 1_000_001}}
    with pytest.raises(InvalidRequest):
        QueueClient().submit(large)


TRAIN = """
import argparse, json, os, pathlib, signal, sys, time

arguments = argparse.ArgumentParser()
arguments.add_argument("--epochs", type=int)
epochs = arguments.parse_args().epochs
signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))
kept = pathlib.Path(os.environ["SM_MODEL_DIR"]).parent / "checkpoints" / "epoch"
first = int(kept.read_text()) if kept.exists() else 0
for epoch in range(first, epochs):
    print("epoch", epoch, flush=True)
    unfinished = kept.with_name("unfinished")
    unfinished.write_text(str(epoch + 1))
    unfinished.replace(kept)
    while not first and str(epoch) == os.environ.get("STAYS_AT"):
        time.sleep(0.1)  # Until it is told to stop.
data = pathlib.Path(os.environ["SM_CHANNEL_WORDS"], "words.txt").read_text()
pathlib.Path(os.environ["SM_MODEL_DIR"], "model.json").write_text(json.dumps([data, epochs]))
"""


@pytest.fixture
def folder(aws, tmp_path, monkeypatch):
    """A working folder, data in S3, and the settings of command jobs."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "secret.txt").write_text("stays at home")
    (tmp_path / ".slotqignore").write_text("secret.txt\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLOTQ_IMAGE", "none")
    monkeypatch.setenv("SLOTQ_ROLE", "arn:aws:iam::123456789012:role/trainer")
    monkeypatch.setenv("SLOTQ_OUTPUT", f"s3://{aws.bucket}/runs")
    aws.client("s3").put_object(Bucket=aws.bucket, Key="words/words.txt", Body=b"one two")
    return tmp_path


WORDS = ("--input", "words=s3://sagemaker-us-east-1-123456789012/words")


def objects(aws, prefix):
    found = aws.client("s3").list_objects_v2(Bucket=aws.bucket, Prefix=prefix)
    return [each["Key"] for each in found.get("Contents", ())]


def test_a_command_runs_from_the_folder_to_the_model(aws, folder):
    words = ("python", "train.py", "--epochs", "2")
    result = slotq("submit", "--name", "mine", *WORDS, "--wait", "--", *words)
    assert result.exit_code == ExitCode.OK, result.output
    assert "mine: completed after 1 attempt" in result.output
    assert objects(aws, "runs/mine/output") == ["runs/mine/output/model.tar.gz"]
    assert slotq("logs", "mine").output.splitlines() == ["epoch 0", "epoch 1"]
    (archive,) = [key for key in objects(aws, "runs/code/") if key.endswith(".tar.gz")]
    body = aws.client("s3").get_object(Bucket=aws.bucket, Key=archive)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        assert tar.getnames() == [".slotqignore", "train.py", "slotq_training.py", "hfai.py"]


def test_a_failing_commands_exit_code_is_reported(folder):
    result = slotq("submit", "--name", "fails", "--wait", "--", "sh", "-c", "echo no; exit 7")
    assert result.exit_code == ExitCode.NO
    assert "exit code: 7" in result.output
    assert slotq("logs", "fails").output == "no\n"
    result = slotq("retry", "fails")
    assert result.output.startswith("fails-r2: ")
    assert slotq("watch", "fails-r2", "--every", "0.2").exit_code == ExitCode.NO


def test_a_requeued_job_resumes_from_its_checkpoint(folder):
    words = ("python", "train.py", "--epochs", "12")
    submitted = slotq("submit", "--name", "long-one", *WORDS, "--env", "STAYS_AT=3", "--", *words)
    assert submitted.exit_code == ExitCode.OK, submitted.output
    until(lambda: "epoch 2" in slotq("logs", "long-one").output, "it trains")
    result = slotq("requeue", "long-one")
    assert result.exit_code == ExitCode.OK
    assert "given up by arn:aws:iam::" in result.output
    result = slotq("logs", "long-one", "-f", "--every", "0.3")
    assert result.exit_code == ExitCode.OK, result.output
    lines = [line for line in result.output.splitlines() if line.startswith("epoch")]
    assert lines[-1] == "epoch 11"
    assert lines.count("epoch 0") == 1, "it did not begin anew"
    job = JobView.model_validate_json(slotq("history", "long-one", "--json").output)
    assert [each.outcome for each in job.attempts] == ["evicted", "completed"]
    assert slotq("requeue", "long-one").exit_code == ExitCode.TOO_LATE


def test_a_job_is_held_reprioritised_moved_and_released(folder):
    slotq("submit", "--name", "front", "--", "sleep", "100")
    until(lambda: "running" in slotq("why", "front").output, "it runs")
    slotq("submit", "--name", "back", "--priority", "-1", "--", "true")
    assert "held since" in slotq("hold", "back").output
    assert slotq("hold", "front").exit_code == ExitCode.TOO_LATE
    assert slotq("priority", "-7", "back").exit_code == ExitCode.OK
    assert slotq("move", "one", "back").exit_code == ExitCode.OK
    result = slotq("move", "nowhere", "back")
    assert (result.exit_code, "names no pool" in result.stderr) == (ExitCode.NO, True)
    assert slotq("release", "back").exit_code == ExitCode.OK
    view = QueueView.model_validate_json(slotq("ls", "--submitter", "testing", "--json").output)
    assert [(job.name, job.priority) for job in view.jobs] == [("front", 0), ("back", -7)]
    assert slotq("ls", "--since", "1h", "--pool", "one", "--limit", "1").output.count("front") == 1
    assert slotq("ls", "--submitter", "nobody").output == "no jobs\n"
    assert slotq("ls", "--until", "1h").output == "no jobs\n"
    assert slotq("cancel", "front", "back").exit_code == ExitCode.OK


def test_the_doctor_finds_a_wrong_key(monkeypatch):
    result = slotq("doctor", "--json")
    checks = json.loads(result.stdout)["checks"]
    assert result.exit_code == ExitCode.OK, result.output
    assert [each["name"] for each in checks if not each["ok"]] == []
    assert "user/testing" in result.stdout
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    result = slotq("doctor")
    assert result.exit_code == ExitCode.NOT_ALLOWED
    assert "answer       WRONG" in result.output
    assert "does not match" in result.output


def test_a_notebook_shows_the_queues_state(folder, capsys):
    slotq("submit", "--name", "shown", "--priority", "3", "--", "sleep", "100")
    until(lambda: "running" in slotq("why", "shown").output, "it runs")
    print_queue_state()
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["Job", "Name", "State", "Priority"],
        ["shown", "running", "3"],
    ]
    assert slotq("cancel", "shown").exit_code == ExitCode.OK

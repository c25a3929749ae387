"""Processing jobs by SageMaker's SDK v2 and by boto3, as real processes behind the queue."""

from __future__ import annotations

import json
import subprocess
import sys

import boto3
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

import slotq
from slotq import QueueClient
from slotq.cli.main import cli
from slotq.session.answers.processing_calls import LISTS
from tests.e2e.waiting import in_background, until
from tests.emulators import emulator

M5 = "ml.m5.xlarge"
ROLE = "arn:aws:iam::123456789012:role/trainer"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/clean:1"
CLEAN = """
import json, pathlib, sys

base = pathlib.Path("/opt/ml/processing")
words = (base / "input/raw/words.txt").read_text().split()
config = json.loads(pathlib.Path("/opt/ml/config/processingjobconfig.json").read_text())
print("cleaning", len(words), "words of", config["ProcessingJobName"], flush=True)
if "fail" in sys.argv:
    sys.exit(3)
(base / "output/words.json").write_text(json.dumps(sorted(words)))
"""
WAITS = """
import pathlib, time

while not pathlib.Path("/opt/ml/processing/input/raw/go").exists():
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def aws():
    with emulator(f"one=1@ml.p5.48xlarge,data=1@{M5};work=processing") as endpoint:
        yield endpoint


@pytest.fixture
def raw(aws):
    s3 = boto3.client("s3")
    s3.put_object(Bucket=aws.bucket, Key="raw/words.txt", Body=b"queue a slot")
    return f"s3://{aws.bucket}/raw"


@pytest.fixture
def code(tmp_path):
    def written(text: str) -> str:
        (tmp_path / "clean.py").write_text(text)
        return str(tmp_path / "clean.py")

    return written


@pytest.fixture
def processor(aws, said):
    pytest.importorskip("sagemaker.estimator", reason="the sagemaker2 extra is not installed")
    from sagemaker.processing import ScriptProcessor

    from slotq import QueueTrainingJobSession

    session = QueueTrainingJobSession(
        boto3.Session(), say=said.append, poll=0.2, processing=True, priority=3
    )

    def make(**settings):
        given = {
            "role": ROLE,
            "image_uri": IMAGE,
            "command": ["python3"],
            "instance_count": 1,
            "instance_type": M5,
            "sagemaker_session": session,
        }
        return ScriptProcessor(**given | settings)

    return make


def runs(processor, aws, raw, script, name, **fields):
    from sagemaker.processing import ProcessingInput, ProcessingOutput

    processor.run(
        code=script,
        job_name=name,
        inputs=[ProcessingInput(source=raw, destination="/opt/ml/processing/input/raw")],
        outputs=[
            ProcessingOutput(
                source="/opt/ml/processing/output", destination=f"s3://{aws.bucket}/{name}"
            )
        ],
        **fields,
    )


def test_a_processor_runs_through_the_queue(aws, processor, raw, code, said):
    runs(processor(), aws, raw, code(CLEAN), "clean")
    made = boto3.client("s3").get_object(Bucket=aws.bucket, Key="clean/words.json")
    assert json.loads(made["Body"].read()) == ["a", "queue", "slot"]
    job = QueueClient().jobs.view("processing:clean")
    assert (job.state, job.pools, job.priority) == ("completed", ["data"], 3)
    text = "\n".join(said)
    assert "processing:clean: in the queue with priority 3" in text
    assert text.count("cleaning 3 words of clean") == 1


def test_it_waits_for_its_turn_and_a_stop_cancels(aws, processor, raw, code, said):
    first, second = processor(), processor()
    runs(first, aws, raw, code(WAITS), "holds", wait=False)
    queue = QueueClient()
    until(lambda: queue.jobs.view("processing:holds").state == "running", "it does not run")
    script = code(CLEAN)
    join = in_background(lambda: runs(second, aws, raw, script, "next"))
    until(lambda: "processing:next" in {job.name for job in queue.jobs()}, "not submitted")
    described = second.sagemaker_session.describe_processing_job("next")
    assert (described["ProcessingJobStatus"], described["ProcessingJobName"]) == (
        "InProgress",
        "next",
    )
    first.latest_job.stop()
    assert join() is None
    assert queue.jobs.view("processing:holds").state == "cancelled"
    assert queue.jobs.view("processing:next").state == "completed"
    stopped = first.sagemaker_session.describe_processing_job("holds")
    assert stopped["ProcessingJobStatus"] == "Stopped"


def test_a_failure_is_the_sdks_own(aws, processor, raw, code):
    from sagemaker.exceptions import UnexpectedStatusException

    with pytest.raises(UnexpectedStatusException, match="Error for Processing job broken: failed"):
        runs(processor(), aws, raw, code(CLEAN), "broken", arguments=["fail"])


@pytest.fixture
def client(aws, said):
    session = boto3.Session()
    slotq.install(session, processing=True, say=said.append)
    return session.client("sagemaker")


def request(name: str, program: str) -> dict:
    return {
        "ProcessingJobName": name,
        "ProcessingResources": {
            "ClusterConfig": {"InstanceCount": 1, "InstanceType": M5, "VolumeSizeInGB": 30}
        },
        "AppSpecification": {
            "ImageUri": IMAGE,
            "ContainerEntrypoint": ["python3", "-c", program],
        },
        "RoleArn": ROLE,
    }


def test_plain_boto3(client, said):
    made = client.create_processing_job(**request("plain", "print('hello')"))
    assert made["ProcessingJobArn"].endswith(":processing-job/plain")

    def ended():
        shown = client.describe_processing_job(ProcessingJobName="plain")
        return shown["ProcessingJobStatus"] == "Completed"

    until(ended, "it has not completed")
    listed = client.list_processing_jobs(NameContains="plain")["ProcessingJobSummaries"]
    assert [row["ProcessingJobName"] for row in listed] == ["plain"]
    assert said.count(LISTS) == 1
    names = {row["TrainingJobName"] for row in client.list_training_jobs()["TrainingJobSummaries"]}
    assert not any("plain" in name for name in names)


def test_a_file_goes_to_the_queue(aws, tmp_path):
    file = tmp_path / "job.json"
    file.write_text(json.dumps(request("of-a-file", "print('from a file')")))
    done = CliRunner().invoke(cli, ["submit", str(file), "--priority", "2"])
    assert done.exit_code == 0, done.output
    queue = QueueClient()
    name = "processing:of-a-file"
    until(lambda: queue.jobs.view(name).state == "completed", "it has not completed")
    until(lambda: "from a file" in CliRunner().invoke(cli, ["logs", name]).output, "no log line")
    again = CliRunner().invoke(cli, ["clone", name, "of-a-clone"])
    assert again.exit_code == 0, again.output
    clone = "processing:of-a-clone"
    until(lambda: queue.jobs.view(clone).state == "completed", "the clone has not completed")


def test_the_aws_cli_or_any_program_under_exec(aws, tmp_path):
    program = tmp_path / "other.py"
    body = request("of-a-program", "pass")
    program.write_text(
        f"import boto3\nboto3.client('sagemaker').create_processing_job(**{body!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "slotq", "exec", "--processing", "--", sys.executable, str(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "processing:of-a-program: in the queue" in done.stderr


def test_what_sagemaker_refuses_is_refused_here(aws, tmp_path):
    file = tmp_path / "job.json"
    body = request("odd", "pass")
    body["AppSpecification"]["Image"] = "x"
    file.write_text(json.dumps(body))
    done = CliRunner().invoke(cli, ["submit", str(file)])
    assert done.exit_code != 0
    assert "AppSpecification.Image: is not a field of CreateProcessingJob" in done.output


def test_a_gang_has_no_processing_jobs(client):
    with pytest.raises(ClientError, match="belongs to no gang"), slotq.gang("ring"):
        client.create_processing_job(**request("in-a-gang", "pass"))


def test_a_refusal_of_the_queue_is_a_client_error(client):
    body = request("refused", "pass")
    body["ProcessingResources"]["ClusterConfig"]["InstanceCount"] = 9
    with pytest.raises(ClientError, match="the job needs 9 slots"):
        client.create_processing_job(**body)


def test_without_the_switch_they_go_to_sagemaker(aws):
    session = boto3.Session()
    slotq.install(session)
    client = session.client("sagemaker")
    client.create_processing_job(**request("direct", "pass"))
    with pytest.raises(slotq.errors.NoSuchJob):
        QueueClient().jobs.view("processing:direct")
    until(
        lambda: (
            client.describe_processing_job(ProcessingJobName="direct")["ProcessingJobStatus"]
            == "Completed"
        ),
        "it has not completed",
    )

"""`slotq submit -- COMMAND`: the request and the uploaded code."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import tarfile
from datetime import UTC, datetime

import pytest
from botocore.session import Session
from botocore.validate import ParamValidator

from slotq.cli.exits import ExitCode
from slotq.configuration.settings import Config
from slotq.packaging.command_job import driver, job_name
from slotq_core.names import is_legal
from tests.least_request import least_request
from tests.unit.client.fake_aws import FakeS3, FakeServices, refused
from tests.unit.client.fake_queue import ENDPOINT, client_of, ended, pool_view

ROLE = "arn:aws:iam::123456789012:role/trainer"
SETTINGS = {"image": "train:1", "role": ROLE, "output": "s3://bucket/runs", "priority": 4}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text("print('trained')\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def s3():
    return FakeS3()


@pytest.fixture(autouse=True)
def two_pools(queue):
    queue.pools = [pool_view("p5"), pool_view("p4")]


@pytest.fixture
def submit(slotq, http, clock, s3, folder):
    def run(*words, **settings):
        config = Config(endpoint=ENDPOINT, region="eu-west-1", **(SETTINGS | settings))
        world = {
            "connect": lambda _: client_of(http, clock=clock, config=config),
            "aws": FakeServices(s3=s3),
        }
        return slotq("submit", *words, world=world)

    return run


def made(queue):
    """The only request besides the fixture's."""
    (request,) = queue.requests.values()
    return request


def test_the_shortest_command_line_is_enough(submit, queue, s3):
    result = submit("--", "python", "train.py", "--epochs", "3")
    assert result.exit_code == ExitCode.OK, result.output
    request = made(queue)
    name = request["TrainingJobName"]
    assert name == "train-1120-120000-000"
    code = request["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"]
    assert re.fullmatch(r"s3://bucket/runs/code/[0-9a-f]{16}-[0-9a-f]{8}/", code)
    assert set(s3.objects) == {f"{code}sourcedir.tar.gz", f"{code}run.sh"}
    assert s3.objects[f"{code}run.sh"].endswith(b"\nexec python train.py --epochs 3\n")
    with tarfile.open(fileobj=io.BytesIO(s3.objects[f"{code}sourcedir.tar.gz"])) as tar:
        assert tar.getnames() == ["train.py", "slotq_training.py", "hfai.py"]
    assert request == {
        "TrainingJobName": name,
        "AlgorithmSpecification": {
            "TrainingImage": "train:1",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["/bin/sh", "/opt/ml/input/data/slotq/run.sh"],
        },
        "RoleArn": ROLE,
        "InputDataConfig": request["InputDataConfig"],
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/runs"},
        "CheckpointConfig": {"S3Uri": f"s3://bucket/runs/{name}/checkpoints"},
        "ResourceConfig": {
            "InstanceType": "ml.p5.48xlarge",
            "InstanceCount": 1,
            "VolumeSizeInGB": 30,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
        "Tags": [{"Key": "priority", "Value": "4"}],
    }
    assert "packed 1 file (" in result.stderr
    assert result.stdout.startswith(f"{name}: waiting")


def test_the_request_is_valid_for_sagemaker(submit, queue):
    submit(
        *("--name", "whole", "--input", "train=s3://data/x", "--env", "SEED=7"),
        *("--instance-count", "2", "--volume", "100", "--max-runtime", "60"),
        *("--", "python", "train.py"),
    )
    request = made(queue)
    model = Session().get_service_model("sagemaker").operation_model("CreateTrainingJob")
    report = ParamValidator().validate(request, model.input_shape)
    assert not report.has_errors(), report.generate_report()
    assert [one["ChannelName"] for one in request["InputDataConfig"]] == ["slotq", "train"]
    assert request["Environment"] == {"SEED": "7"}
    assert request["ResourceConfig"]["InstanceCount"] == 2


def test_options_override_settings(submit, queue, s3):
    submit(
        *("--instance-type", "ml.g5.xlarge", "--image", "other:2", "--output", "s3://else/where/"),
        *("--pools", "p4", "--priority", "9", "--", "python", "train.py"),
        pool="p5",
        instance_type="ml.p4d.24xlarge",
    )
    request = made(queue)
    assert request["ResourceConfig"]["InstanceType"] == "ml.g5.xlarge"
    assert request["AlgorithmSpecification"]["TrainingImage"] == "other:2"
    assert all(uri.startswith("s3://else/where/code/") for uri in s3.objects)
    tags = {tag["Key"]: tag["Value"] for tag in request["Tags"]}
    assert tags == {"priority": "9", "slotq:pools": "p4"}


def test_code_of_an_invalid_request_is_not_uploaded(submit, s3, queue):
    result = submit("--env", "1x=y", "--", "python", "train.py")
    assert result.exit_code == ExitCode.NO
    assert "Environment.1x: its name must have the form" in result.stderr
    assert s3.objects == queue.requests == {}


def test_settings_come_from_the_configuration(submit, queue):
    submit("--", "python", "train.py", pool="p5,p4", instance_type="ml.p4d.24xlarge")
    request = made(queue)
    assert request["ResourceConfig"]["InstanceType"] == "ml.p4d.24xlarge"
    assert {"Key": "slotq:pools", "Value": "p5,p4"} in request["Tags"]


def test_a_request_file_takes_only_the_configured_priority(submit, queue, folder):
    """The priority counts for jobs without one. The pool and the image count only for command
    lines."""
    (folder / "job.json").write_text(json.dumps(least_request("filed")))
    assert submit("job.json", pool="p5").exit_code == ExitCode.OK
    assert made(queue)["Tags"] == [{"Key": "priority", "Value": "4"}]
    submit("job.json", "--name", "other", "--priority", "7")
    assert queue.requests["other"]["Tags"] == [{"Key": "priority", "Value": "7"}]
    (folder / "job.json").write_text(json.dumps(queue.requests["other"]))
    submit("job.json", "--name", "third")
    assert queue.requests["third"]["Tags"] == [{"Key": "priority", "Value": "7"}]


def test_a_project_is_named_by_option_by_tag_or_by_setting(submit, queue, folder):
    def tags(name: str) -> dict[str, str]:
        return {tag["Key"]: tag["Value"] for tag in queue.requests[name]["Tags"]}

    (folder / "job.json").write_text(json.dumps(least_request("filed")))
    submit("job.json", project="vision")
    assert tags("filed")["slotq:project"] == "vision"
    submit("job.json", "--name", "asked", "--project", "speech", project="vision")
    assert tags("asked")["slotq:project"] == "speech"
    (folder / "job.json").write_text(json.dumps(queue.requests["asked"]))
    submit("job.json", "--name", "tagged", project="vision")
    assert tags("tagged")["slotq:project"] == "speech"
    submit("--name", "made", "--project", "speech", "--", "python", "train.py")
    assert tags("made")["slotq:project"] == "speech"


def test_the_instance_type_defaults_to_the_pools(submit, queue):
    queue.pools[1] = queue.pools[1].model_copy(update={"instance_type": "ml.p4d.24xlarge"})
    result = submit("--", "python", "train.py")
    assert result.exit_code == ExitCode.USAGE
    assert "of ml.p5.48xlarge, ml.p4d.24xlarge" in result.stderr
    submit("--pools", "p4,p5", "--", "python", "train.py")
    assert made(queue)["ResourceConfig"]["InstanceType"] == "ml.p4d.24xlarge"


@pytest.mark.parametrize("setting", ["image", "role", "output"])
def test_a_missing_setting_is_named_with_the_ways_to_set_it(submit, s3, setting):
    result = submit("--", "python", "train.py", **{setting: None})
    assert result.exit_code == ExitCode.USAGE
    assert f"{setting} is not set: give --{setting}" in result.stderr
    assert f"SLOTQ_{setting.upper()}" in result.stderr
    assert f"slotq configure --{setting}" in result.stderr
    assert s3.objects == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "slotq submit -- python train.py"),
        (("--",), "slotq submit -- python train.py"),
        (("job.json", "--", "python", "train.py"), "not both"),
        (("job.json", "--image", "x"), "--image is for a command line after --"),
        (("job.json", "--input", "a=s3://b"), "--input is for a command line after --"),
        (("job.json", "--env", "A=b"), "--env is for a command line after --"),
        (("--input", "train", "--", "python"), "'train' is not NAME=VALUE"),
        (("--input", "slotq=s3://x", "--", "python"), "the channel 'slotq' carries the code"),
        (("--output", "bucket", "--", "python"), "must be s3://bucket/folder"),
        (("--role", "me", "--", "python"), "must be the ARN"),
        (("--source", "nowhere", "--", "python"), "is not a folder"),
        (("nothing.json",), "nothing.json"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(submit, folder, words, said):
    (folder / "job.json").write_text("{}")
    result = submit(*words)
    assert result.exit_code == ExitCode.USAGE, result.output
    assert said in result.stderr


def test_code_that_cannot_be_uploaded_is_not_submitted(submit, queue, s3):
    s3.trouble = refused("PutObject")
    result = submit("--", "python", "train.py")
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "s3:PutObject" in result.stderr
    assert queue.requests == {}


def test_a_dry_run_uploads_and_submits_nothing(submit, queue, s3):
    result = submit("--name", "dry", "--dry-run", "--", "python", "train.py")
    assert json.loads(result.stdout)["TrainingJobName"] == "dry"
    assert (queue.requests, s3.objects) == ({}, {})


def test_changed_code_does_not_replace_that_of_a_waiting_job(submit, queue, s3, folder):
    submit("--name", "one", "--", "python", "train.py")
    first = dict(s3.objects)
    (folder / "train.py").write_text("print('changed')\n")
    submit("--name", "two", "--", "python", "train.py")
    assert first.items() < s3.objects.items()
    assert len(s3.objects) == 4
    submit("--name", "three", "--", "python", "train.py", "--fast")
    assert len(s3.objects) == 6


def test_submit_can_wait_and_be_repeated(submit, queue):
    queue.jobs["one"] = ended(name="one")
    queue.requests = {"one": {}}
    result = submit("--name", "one", "--", "python", "train.py")
    assert (result.exit_code, "taken" in result.stderr) == (ExitCode.NO, True)
    assert "`slotq submit --again` takes the next free name." in result.stderr
    queue.script(ended(name="one-r2"))
    queue.jobs.pop("one-r2")
    result = submit("--name", "one", "--again", "--wait", "--", "python", "train.py")
    assert result.output.splitlines()[-1] == "one-r2: completed after 1 attempt"
    kept = queue.requests["one-r2"]["CheckpointConfig"]
    assert kept == {"S3Uri": "s3://bucket/runs/one-r2/checkpoints"}, "`one` may still write its own"


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        (["python", "train.py"], "train"),
        (["python3.11", "-u", "src/Fine_Tune.py", "--x"], "Fine-Tune"),
        (["torchrun", "train.py"], "train"),
        (["./run_all.sh"], "run-all"),
        (["python", "-c", "print(1)"], "print-1"),
        (["python", "größe.py"], "gro-e"),
        (["..."], "job"),
        (["python", "x" * 90 + ".py"], "x" * 40),
    ],
)
def test_a_name_is_made_from_the_command(command, stem):
    name = job_name(command, datetime(2026, 11, 20, 10, 30, 0, 123000, tzinfo=UTC))
    assert name.endswith("-1120-103000-123")
    assert is_legal(name)
    assert name.startswith(stem) or stem == "gro-e"


NODES = {
    "outside of SageMaker": (None, "127.0.0.1 127.0.0.1 2222 1 0"),
    "one node": (
        {"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "eth0"},
        "127.0.0.1 127.0.0.1 2222 1 0",
    ),
    "the twelfth of twelve": (
        {
            "current_host": "algo-12",
            "hosts": [f"algo-{n}" for n in range(1, 13)],
            "instance_groups": [{"hosts": [f"algo-{n}" for n in range(1, 13)]}],
            "network_interface_name": "lo",
        },
        "127.0.0.1 127.0.0.1 2222 12 11",
    ),
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("case", NODES)
def test_the_driver_says_which_node_it_is(tmp_path, case, indent):
    resources, wanted = NODES[case]
    ran = driven(
        tmp_path, resources and json.dumps(resources, indent=indent), PATH=os.environ["PATH"]
    )
    assert ran.stdout.strip() == wanted, ran.stderr


def test_the_driver_waits_for_the_masters_name(tmp_path):
    resources = {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"]}
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "getent").write_text(
        f"#!/bin/sh\n[ -e {tmp_path}/asked ] || {{ touch {tmp_path}/asked; exit 2; }}\n"
        'echo "10.0.0.7    $2"\n'
    )
    (tools / "sleep").write_text("#!/bin/sh\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    ran = driven(tmp_path, json.dumps(resources), PATH=f"{tools}:{os.environ['PATH']}")
    assert ran.stdout.strip() == "10.0.0.7 algo-1 2222 2 1", ran.stderr


def test_the_jobs_own_environment_wins_over_the_drivers(tmp_path):
    ran = driven(tmp_path, None, PATH=os.environ["PATH"], MASTER_PORT="5000", RANK="3")
    assert ran.stdout.strip() == "127.0.0.1 127.0.0.1 5000 1 3"


def driven(tmp_path, resources, **environ):
    """What the driver tells the command of the nodes."""
    ml = tmp_path / "ml"
    channel = ml / "input" / "data" / "slotq"
    channel.mkdir(parents=True)
    (ml / "input" / "config").mkdir()
    if resources:
        (ml / "input/config/resourceconfig.json").write_text(resources)
    with tarfile.open(channel / "sourcedir.tar.gz", "w:gz"):
        pass
    shown = "echo $MASTER_IP $MASTER_ADDR $MASTER_PORT $WORLD_SIZE $RANK"
    (channel / "run.sh").write_bytes(driver(["sh", "-c", shown]))
    return subprocess.run(
        ["/bin/sh", channel / "run.sh"], capture_output=True, text=True, env=environ, check=False
    )


def test_the_command_stays_the_same_bytes():
    word = os.fsdecode(b"gr\xf6\xdfe")
    assert b"exec echo 'gr\xf6\xdfe'\n" in driver(["echo", word])


def test_only_python_itself_is_known_to_get_sigterm():
    assert b"SLOTQ_PASSES_SIGTERM=1" in driver(["python3.11", "train.py"])
    assert b"SLOTQ_PASSES_SIGTERM" not in driver(["sh", "-c", "python train.py"])


def test_the_driver_unpacks_the_code_and_runs_the_command(tmp_path):
    """As in the container, but with another folder than /opt/ml."""
    ml = tmp_path / "opt" / "ml"
    channel = ml / "input" / "data" / "slotq"
    channel.mkdir(parents=True)
    (ml / "input" / "data" / "my-own.data").mkdir()
    script = 'echo "$PWD|$1|$SM_MODEL_DIR|$SM_CHANNEL_MY_OWN_DATA"; exit 3'
    (tmp_path / "it s.sh").write_text(script)
    with tarfile.open(channel / "sourcedir.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "it s.sh", "it s.sh")
    (channel / "run.sh").write_bytes(driver(["sh", "it s.sh", "a 'quoted' word"]))
    environ = {"PATH": os.environ["PATH"]}
    ran = subprocess.run(
        ["/bin/sh", channel / "run.sh"], capture_output=True, text=True, env=environ, check=False
    )
    assert ran.returncode == 3, ran.stderr
    assert ran.stdout.strip().split("|") == [
        str(ml / "code"),
        "a 'quoted' word",
        str(ml / "model"),
        str(ml / "input" / "data" / "my-own.data"),
    ]


def test_a_file_that_the_command_names_and_the_archive_lacks_is_warned_of(submit, folder):
    (folder / "conf").mkdir()
    (folder / "conf/a.yaml").write_text("")
    (folder / ".gitignore").write_text("conf/\n")
    (folder / "old").symlink_to("nowhere")
    done = submit("--", "python", "train.py", "--config=conf/a.yaml")
    assert done.exit_code == ExitCode.OK, done.output
    assert "warning: old is not packed: it is a link to nothing" in done.stderr
    left_out = "warning: the command names conf/a.yaml, which is not packed: .gitignore leaves it"
    assert left_out in done.stderr
    assert done.stderr.count("warning:") == 2


def test_a_pool_with_nodes_may_have_image_and_role_for_a_job(submit, queue):
    queue.pools = [pool_view("p5", nodes={"image": "pool:1", "role": ROLE}), pool_view("p4")]
    bare = {"image": None, "role": None}
    words = ("--gpus", "1", "--dry-run", "--", "python", "train.py")
    request = json.loads(submit(*words, **bare).stdout)
    assert "RoleArn" not in request
    assert "TrainingImage" not in request["AlgorithmSpecification"]
    assert {"Key": "slotq:gpus", "Value": "1"} in request["Tags"]
    request = json.loads(submit(*words, **bare, instance_type="ml.p5.48xlarge").stdout)
    assert "RoleArn" not in request
    request = json.loads(submit(*words).stdout)
    assert (request["RoleArn"], request["AlgorithmSpecification"]["TrainingImage"]) == (
        SETTINGS["role"],
        SETTINGS["image"],
    )


@pytest.mark.parametrize("words", [(), ("--gpus", "1")])
def test_without_gpus_or_nodes_an_image_is_needed(submit, words):
    done = submit(*words, "--", "python", "train.py", image=None)
    assert done.exit_code == ExitCode.USAGE
    assert "image is not set" in done.stderr

"""Training jobs as processes: SageMaker's container contract, through real boto3."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime
from pathlib import Path

import pytest

from slotq.local.container import isolation
from slotq_core.adapters.sagemaker.observations import observation_of
from slotq_core.ports.training import Verdict
from tests.functional.local.account import Account, gone

isolated = pytest.mark.skipif(
    not isolation.available(), reason="this machine allows no mount namespaces"
)

READ_ALL = """
import json, os, pathlib, sys
ml = pathlib.Path(os.environ["SM_MODEL_DIR"]).parent
print(json.dumps({
    "arguments": sys.argv[1:],
    "environment": dict(os.environ),
    "config": {f.stem: json.loads(f.read_text()) for f in (ml / "input/config").iterdir()},
    "data": {str(f.relative_to(ml / "input/data")): f.read_text()
             for f in (ml / "input/data").rglob("*") if f.is_file()},
}))
(ml / "model/weights").write_text("trained")
(ml / "output/data/curve.txt").write_text("1 2 3")
print()
print("done")
"""


def test_a_script_gets_sagemakers_environment(account: Account) -> None:
    for key, text in (("a.txt", "A"), ("sub/b.txt", "B")):
        account.s3.put_object(Bucket=account.bucket, Key=f"data/{key}", Body=text.encode())
    channel = {
        "ChannelName": "train-set",
        "DataSource": {
            "S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://{account.bucket}/data"}
        },
    }
    account.create(
        "reads",
        READ_ALL,
        parameters={"epochs": 3, "lr": 0.1, "name": "x y", "flag": True, "list": [1, 2]},
        InputDataConfig=[channel],
        Environment={"MINE": "1"},
    )
    shown = account.ended("reads")
    assert shown["TrainingJobStatus"] == "Completed", shown.get("FailureReason")
    first, *rest = account.said("reads")
    assert rest == [" ", "done"]
    found = json.loads(first)
    assert found["arguments"] == [
        *("--epochs", "3", "--flag", "True", "--list", "[1, 2]"),
        *("--lr", "0.1", "--name", "x y"),
    ]
    environment = found["environment"]
    assert environment["MINE"] == "1"
    assert environment["TRAINING_JOB_NAME"] == "reads"
    assert environment["SM_CHANNEL_TRAIN-SET"].endswith("/input/data/train-set")
    assert json.loads(environment["SM_HPS"])["lr"] == 0.1
    assert found["data"] == {"train-set/a.txt": "A", "train-set/sub/b.txt": "B"}
    assert found["config"]["hyperparameters"]["epochs"] == "3"
    assert found["config"]["resourceconfig"]["hosts"] == ["algo-1"]
    assert found["config"]["inputdataconfig"]["train-set"]["TrainingInputMode"] == "File"
    assert shown["ModelArtifacts"]["S3ModelArtifacts"] == (
        f"s3://{account.bucket}/out/reads/output/model.tar.gz"
    )
    assert account.unpacked("out/reads/output/model.tar.gz") == {"weights": b"trained"}
    assert account.unpacked("out/reads/output/output.tar.gz") == {"curve.txt": b"1 2 3"}


def test_a_job_has_only_the_emulators_credentials(account: Account) -> None:
    account.create("credentials", READ_ALL)
    account.ended("credentials")
    environment = json.loads(account.said("credentials")[0])["environment"]
    aws = {key: value for key, value in environment.items() if key.startswith("AWS_")}
    assert aws == {
        **{key: account.variables[key] for key in aws if key in account.variables},
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    assert "SLOTQ_TABLE" not in environment


COUNTS = """
import os, pathlib, time
file = pathlib.Path("{folder}") / "step.txt"
done = int(file.read_text()) if file.exists() else 0
print("from", done)
while done < {steps}:
    done += 1
    new = file.with_suffix(".new")
    new.write_text(str(done))
    new.replace(file)
    if done == {pause}:
        print("at", done)
        time.sleep(100)
print("all done")
"""


def test_stop_and_resume_from_the_checkpoint(account: Account) -> None:
    config = {"S3Uri": f"s3://{account.bucket}/checkpoints/counts"}
    folder = "/opt/ml/checkpoints" if isolation.available() else "../checkpoints"
    script = COUNTS.format(folder=folder, steps=20, pause=7)
    account.knobs({"grace_seconds": 0.7})
    account.create("counts", script, CheckpointConfig=config)
    account.wait_for_line("counts", "at 7")
    # Checkpoints are synced while the job runs, not only at its end.
    account.until(lambda: account.keys("checkpoints/counts/step.txt"), "the checkpoint")
    account.sagemaker.stop_training_job(TrainingJobName="counts")
    shown = account.ended("counts")
    assert shown["TrainingJobStatus"] == "Stopped"
    assert [one["Status"] for one in shown["SecondaryStatusTransitions"]] == [
        *("Starting", "Downloading", "Training", "Stopping", "Stopped"),
    ]
    assert account.read("checkpoints/counts/step.txt") == b"7"
    account.create("counts-2", script, CheckpointConfig=config)
    assert account.ended("counts-2")["TrainingJobStatus"] == "Completed"
    assert account.said("counts-2") == ["from 7", "all done"]
    assert account.read("checkpoints/counts/step.txt") == b"20"


def test_spot_goes_on_from_its_checkpoint_after_an_interruption(account: Account) -> None:
    account.knobs({"interrupt_spot": 1, "interrupt_after": 4, "spot_seconds": 1})
    folder = "/opt/ml/checkpoints" if isolation.available() else "../checkpoints"
    account.create(
        "taken-back",
        COUNTS.format(folder=folder, steps=20, pause=7),
        CheckpointConfig={"S3Uri": f"s3://{account.bucket}/checkpoints/spot"},
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 600},
    )
    shown = account.ended("taken-back")
    assert shown["TrainingJobStatus"] == "Completed", shown.get("FailureReason")
    states = [transition["Status"] for transition in shown["SecondaryStatusTransitions"]]
    assert states == [
        *("Starting", "Downloading", "Training", "Interrupted"),
        *("Downloading", "Training", "Uploading", "Completed"),
    ]
    assert account.said("taken-back") == ["from 0", "at 7", "from 7", "all done"]
    assert account.read("checkpoints/spot/step.txt") == b"20"


IN_PLAN = """
import os, pathlib, time
ends = os.environ["SAGEMAKER_CURRENT_CAPACITY_BLOCK_EXPIRATION_TIMESTAMP"]
saved = pathlib.Path("{folder}/step.txt")
print("second" if saved.exists() else "first", int(ends) // 1000, flush=True)
if not saved.exists():
    saved.write_text("1")
    time.sleep(600)
"""


def test_a_job_goes_on_in_the_next_window_of_its_training_plan(account: Account) -> None:
    arn = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/june"

    def declare(begins: int, ends: int) -> None:
        later = {"from": ends + 3600, "to": ends + 7200, "instances": 1}
        windows = [{"from": begins, "to": ends, "instances": 1}, later]
        plan = {"name": "june", "instance_type": "ml.m5.large", "windows": windows}
        account.control("plans", {"plans": [plan]})

    def status() -> str:
        shown: str = account.describe("planned")["SecondaryStatus"]
        return shown

    folder = "/opt/ml/checkpoints" if isolation.available() else "../checkpoints"
    declare(-3600, 1810)
    try:
        account.create(
            "planned",
            IN_PLAN.format(folder=folder),
            CheckpointConfig={"S3Uri": f"s3://{account.bucket}/checkpoints/planned"},
            ResourceConfig={
                "InstanceType": "ml.m5.large",
                "InstanceCount": 1,
                "VolumeSizeInGB": 1,
                "TrainingPlanArn": arn,
            },
        )
        seen = account.sagemaker.describe_training_plan(TrainingPlanName="june")
        assert (seen["TrainingPlanArn"], seen["Status"]) == (arn, "Active")
        first = seen["ReservedCapacitySummaries"][0]["EndTime"].timestamp()
        account.until(lambda: status() == "Pending", "its instances are not taken")
        declare(0, 7200)
        assert account.ended("planned")["TrainingJobStatus"] == "Completed"
        second = account.control("plans")["plans"][0]["ReservedCapacitySummaries"][0]["EndTime"]
    finally:
        account.control("plans", {"plans": []})
    ends = [int(first), int(datetime.fromisoformat(second).timestamp())]
    assert account.said("planned") == [f"first {ends[0]}", f"second {ends[1]}"]


ON_SIGTERM = """
import signal, sys, time
def stop(*_):
    print("asked to stop", flush=True)
    {action}
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
time.sleep(100)
time.sleep(100)
"""
STOPS = [
    ("it exits 0 meanwhile", "sys.exit(0)", "Completed", None),
    ("it fails meanwhile", "sys.exit(3)", "Failed", "ExitCode 3"),
    ("it does not listen", "pass", "Stopped", None),
]


@pytest.mark.parametrize(
    ("sentence", "action", "status", "reason"), STOPS, ids=[row[0] for row in STOPS]
)
def test_a_stopped_job_gets_its_grace(
    account: Account, sentence: str, action: str, status: str, reason: str
) -> None:
    account.knobs({"grace_seconds": 0.7})
    name = sentence.replace(" ", "-")
    passes = {"SLOTQ_PASSES_SIGTERM": "1"}
    account.create(name, ON_SIGTERM.format(action=action), Environment=passes)
    account.wait_for_line(name, "ready")
    account.sagemaker.stop_training_job(TrainingJobName=name)
    shown = account.ended(name)
    assert shown["TrainingJobStatus"] == status
    assert (reason or "") in shown.get("FailureReason", "")
    assert account.said(name) == ["ready", "asked to stop"]


def test_a_script_never_hears_of_a_stop(account: Account) -> None:
    """The training toolkit keeps SIGTERM to itself."""
    account.knobs({"grace_seconds": 0.7})
    account.create("unheard", ON_SIGTERM.format(action="sys.exit(0)"))
    account.wait_for_line("unheard", "ready")
    account.sagemaker.stop_training_job(TrainingJobName="unheard")
    assert account.ended("unheard")["TrainingJobStatus"] == "Stopped"
    assert account.said("unheard") == ["ready"]


FIRST = {
    "handles": ("exec python -c '{script}'", "Completed", ["ready", "asked to stop"]),
    "behind-a-shell": ("python -c '{script}'; true", "Stopped", ["ready"]),
    "without-handler": ("echo ready; exec sleep 100", "Stopped", ["ready"]),
}


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="it reads /proc")
@pytest.mark.parametrize("name", FIRST)
def test_a_commands_first_process_gets_sigterm_if_it_has_a_handler(
    account: Account, name: str
) -> None:
    """As the kernel does with PID 1 of a container: there is no default action."""
    command, status, said = FIRST[name]
    script = ON_SIGTERM.format(action="sys.exit(0)")
    account.knobs({"grace_seconds": 1.5})
    account.create(
        name,
        AlgorithmSpecification={
            "TrainingImage": "image",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["/bin/sh", "-c", command.format(script=script)],
        },
    )
    account.wait_for_line(name, "ready")
    asked = time.monotonic()
    account.sagemaker.stop_training_job(TrainingJobName=name)
    assert account.ended(name)["TrainingJobStatus"] == status
    assert account.said(name) == said
    if status == "Stopped":
        assert time.monotonic() - asked > 1.4, "SIGTERM has ended it"


SAYS_WHY = """
import os, pathlib, sys
pathlib.Path(os.environ["SM_OUTPUT_DIR"], "failure").write_text("out of luck")
sys.exit(75)
"""
FAILURES = [
    ("raises", "raise RuntimeError('no such luck')", "RuntimeError: no such luck"),
    ("exits", "import sys; sys.exit(42)", "ExecuteUserScriptError:\nExitCode 42\n"),
    ("is-killed", "import os; os.kill(os.getpid(), 9)", "ExecuteUserScriptError:\nExitCode -9\n"),
    (
        "says-why",
        SAYS_WHY,
        "AlgorithmError: out of luck, exit code: 1",
    ),
    ("says-much", SAYS_WHY.replace("out of luck", "x" * 3000), "x" * 994 + ", exit code: 1"),
]


@pytest.mark.parametrize(("name", "source", "reason"), FAILURES)
def test_a_failing_script_fails_the_job(
    account: Account, name: str, source: str, reason: str
) -> None:
    account.create(name, source)
    shown = account.ended(name)
    assert shown["TrainingJobStatus"] == "Failed"
    assert reason in shown["FailureReason"]
    assert shown["FailureReason"].startswith("AlgorithmError: ")
    # The toolkit exits with 1, whatever the script's exit code was.
    assert shown["FailureReason"].endswith(", exit code: 1")
    assert len(shown["FailureReason"]) <= 1024
    assert not account.keys(f"out/{name}/")


RELEASES = """
import os, pathlib, sys
pathlib.Path(os.environ["SM_OUTPUT_DIR"], "failure").write_text("slotq-released")
sys.exit(75)
"""


def test_two_ranks_that_release_at_once_release_the_job(account: Account) -> None:
    account.create("releases", RELEASES, instances=2)
    shown = account.ended("releases")
    assert shown["TrainingJobStatus"] == "Failed"
    assert shown["FailureReason"] == "AlgorithmError: slotq-released, exit code: 1"
    seen = observation_of(shown, at=0)
    assert seen.verdict is Verdict.RELEASED


def test_a_job_that_cannot_start_fails(account: Account) -> None:
    nothing = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://{account.bucket}/none"}}
    account.create("no-data", "pass", InputDataConfig=[{"ChannelName": "c", "DataSource": nothing}])
    account.create("no-script", "pass", program="other.py")
    account.create("no-command")
    reasons = {
        "no-data": "ClientError: Data download failed: no S3 objects found under S3 URL",
        "no-script": "ClientError: the script 'other.py' is not in s3://",
        "no-command": "ClientError: the emulator cannot run images",
    }
    for name, reason in reasons.items():
        shown = account.ended(name)
        assert (shown["TrainingJobStatus"], shown["SecondaryStatus"]) == ("Failed", "Failed")
        assert shown["FailureReason"].startswith(reason)


def test_a_missing_output_bucket_fails_the_job(account: Account) -> None:
    account.create("no-bucket", "pass", OutputDataConfig={"S3OutputPath": "s3://nobodys-bucket/x"})
    shown = account.ended("no-bucket")
    assert shown["TrainingJobStatus"] == "Failed"
    assert shown["FailureReason"].startswith("ClientError: Artifact upload failed: s3://nobodys-")


RANKS = """
import json, os, pathlib, socket, sys, time
me = os.environ["SM_CURRENT_HOST"]
ml = pathlib.Path(os.environ["SM_MODEL_DIR"]).parent
config = json.loads((ml / "input/config/resourceconfig.json").read_text())
(ml / f"model/{me}").write_text(me)
print(me, config["current_host"], config["hosts"], len(list((ml / "model").iterdir())), flush=True)
if "fail" in sys.argv and me == "algo-2":
    sys.exit(5)
time.sleep(100 if "fail" in sys.argv else 0)
"""


def test_each_instance_is_a_process_with_its_opt_ml(account: Account) -> None:
    account.create("ranks", RANKS, instances=3)
    assert account.ended("ranks")["TrainingJobStatus"] == "Completed"
    hosts = ["algo-1", "algo-2", "algo-3"]
    for host in hosts:
        assert account.said("ranks", host) == [f"{host} {host} {hosts} 1"]
    assert sorted(account.unpacked("out/ranks/output/model.tar.gz")) == hosts


def test_a_failing_instance_fails_the_job_and_stops_the_others(account: Account) -> None:
    account.create("ranks-fail", RANKS, instances=2, parameters={"mode": "fail"})
    shown = account.ended("ranks-fail")
    assert shown["TrainingJobStatus"] == "Failed"
    assert "ExitCode 5" in shown["FailureReason"]


def test_a_commands_own_exit_code_is_reported(account: Account) -> None:
    account.create(
        "own-code",
        AlgorithmSpecification={
            "TrainingImage": "image",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": [
                "sh",
                "-c",
                "printf slotq-released > /opt/ml/output/failure; exit 75",
            ],
        },
    )
    shown = account.ended("own-code")
    assert shown["FailureReason"] == "AlgorithmError: slotq-released, exit code: 75"


def test_a_job_can_run_a_command(account: Account) -> None:
    account.create(
        "command",
        AlgorithmSpecification={
            "TrainingImage": "image",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["/bin/sh", "-c"],
            "ContainerArguments": [
                "echo $TRAINING_JOB_NAME && ls -d /opt/ml/model && echo m > /opt/ml/model/m"
            ],
        },
    )
    shown = account.ended("command")
    assert shown["TrainingJobStatus"] == "Completed", shown
    assert account.said("command")[0] == "command"
    assert account.unpacked("out/command/output/model.tar.gz") == {"m": b"m\n"}


@isolated
def test_concurrent_jobs_see_their_own_opt_ml(account: Account) -> None:
    script = """
import time, pathlib
pathlib.Path("/opt/ml/model/only").write_text("{name}")
time.sleep(0.5)
print(pathlib.Path("/opt/ml/model/only").read_text())
"""
    for name in ("own-a", "own-b"):
        account.create(name, script.format(name=name))
    for name in ("own-a", "own-b"):
        assert account.ended(name)["TrainingJobStatus"] == "Completed"
        assert account.said(name) == [name]
    assert not Path("/opt/ml/model/only").exists()


DAEMON = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"],
                         start_new_session=True)
print(child.pid, flush=True)
"""


def test_no_process_outlives_its_job(account: Account) -> None:
    account.create("daemon", DAEMON)
    assert account.ended("daemon")["TrainingJobStatus"] == "Completed"
    assert gone(int(account.said("daemon")[0]))


def test_a_job_ends_at_its_maximum_runtime(account: Account) -> None:
    condition = {"MaxRuntimeInSeconds": 1}
    account.create("too-long", "import time; time.sleep(100)", StoppingCondition=condition)
    shown = account.ended("too-long")
    assert (shown["TrainingJobStatus"], shown["SecondaryStatus"]) == (
        "Stopped",
        "MaxRuntimeExceeded",
    )

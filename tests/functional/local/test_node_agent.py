"""What the jobs of a node find, and what becomes of their work. One node for all of these tests."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import slotq_training
from slotq_core.wire.nodes.documents import (
    AttemptPhase,
    EndReason,
    OrderedAttempt,
    ReportedAttempt,
    Suspend,
)
from tests.functional.local.account import Account
from tests.functional.local.node_process import NodeProcess, attempt, gone, node

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="root gives each job its own user")

SHOW = """
import json, os, stat, sys
base = os.environ["SAGEMAKER_BASE_DIR"]
read = lambda name: json.load(open(f"{base}/input/config/{name}.json"))
print(json.dumps({
    "environment": dict(os.environ), "uid": os.getuid(), "groups": os.getgroups(),
    "cpus": len(os.sched_getaffinity(0)), "here": os.getcwd(), "words": sys.argv,
    "mode": stat.S_IMODE(os.stat(f"{base}/..").st_mode),
    "files": {name: read(name)
              for name in ("hyperparameters", "inputdataconfig", "resourceconfig")},
}))
"""


@pytest.fixture(scope="module")
def agent(emulator: Account) -> Iterator[NodeProcess]:
    with node(emulator, "shared-node") as made:
        made.start()
        made.until_ready()
        yield made


def run(agent: NodeProcess, *attempts: OrderedAttempt) -> list[ReportedAttempt]:
    """Run attempts to their ends."""
    agent.order(*attempts)
    return [agent.until_attempt(one.attempt) for one in attempts]


def put(account: Account, key: str, content: bytes) -> None:
    account.s3.put_object(Bucket=account.bucket, Key=key, Body=content)


def channel(account: Account, name: str, prefix: str, **more: Any) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{account.bucket}/{prefix}"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, **more}


def test_a_job_finds_what_sagemaker_lays_out_below_its_own_folder(
    agent: NodeProcess, account: Account
) -> None:
    put(account, "show/data/part", b"1")
    changes = {
        "HyperParameters": {"lr": "0.1", "out": '"/opt/ml/model/x"', "b": "2"},
        "Environment": {"PLACE": "/opt/ml/model", "OTHER": "/opt/mlx", "OMP_NUM_THREADS": "7"},
        "InputDataConfig": [channel(account, "train", "show/data")],
    }
    (ended,) = run(
        agent,
        attempt(account, "show", SHOW, gpus=(1, 3), cpus=1, changes=changes,
                arguments=("/opt/ml/model",)),
    )  # fmt: skip
    assert ended.state is AttemptPhase.COMPLETED, ended
    shown = json.loads(account.said("show")[0])
    variables = shown["environment"]
    base = variables["SAGEMAKER_BASE_DIR"]
    assert base.startswith(str(agent.work))
    assert shown["here"] == base
    assert shown["mode"] == 0o700
    assert shown["words"] == ["-c", f"{base}/model"]
    assert shown["cpus"] == 1
    assert {name: variables[name] for name in (
        "CUDA_VISIBLE_DEVICES", "SM_NUM_GPUS", "SM_HP_LR", "SM_HP_OUT", "SM_CHANNEL_TRAIN",
        "SM_CHANNELS", "SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR", "SM_CHECKPOINT_DIR", "PLACE", "OTHER",
        "OMP_NUM_THREADS", "TRAINING_JOB_NAME", "SM_CURRENT_HOST", "SLOTQ_PASSES_SIGTERM",
    )} == {
        "CUDA_VISIBLE_DEVICES": "1,3",
        "SM_NUM_GPUS": "2",
        "SM_HP_LR": "0.1",
        "SM_HP_OUT": f"{base}/model/x",
        "SM_CHANNEL_TRAIN": f"{base}/input/data/train",
        "SM_CHANNELS": '["train"]',
        "SM_MODEL_DIR": f"{base}/model",
        "SM_OUTPUT_DATA_DIR": f"{base}/output/data",
        "SM_CHECKPOINT_DIR": f"{base}/checkpoints",
        "PLACE": f"{base}/model",
        "OTHER": "/opt/mlx",
        "OMP_NUM_THREADS": "7",
        "TRAINING_JOB_NAME": "show",
        "SM_CURRENT_HOST": "algo-1",
        "SLOTQ_PASSES_SIGTERM": "1",
    }  # fmt: skip
    assert variables["TRAINING_JOB_ARN"].endswith(":training-job/show")
    assert variables["HOME"] != variables["TMPDIR"]
    assert variables["HOME"].startswith(str(agent.work / "jobs/show"))
    assert not [name for name in variables if name.startswith("SLOTQ_NODE")]
    assert shown["files"]["hyperparameters"]["out"] == f'"{base}/model/x"'
    assert shown["files"]["inputdataconfig"]["train"]["TrainingInputMode"] == "File"
    assert shown["files"]["resourceconfig"]["hosts"] == ["algo-1"]
    report = agent.report()
    assert report is not None
    if report.uids:
        assert shown["uid"] >= 20_000
        assert shown["groups"] == []


def test_eight_jobs_have_a_gpu_each_and_ports_of_their_own(
    agent: NodeProcess, account: Account
) -> None:
    source = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['MASTER_PORT'])"
    orders = [attempt(account, f"one-of-{n}", source, gpus=(n,)) for n in range(8)]
    ended = run(agent, *orders)
    assert {one.state for one in ended} == {AttemptPhase.COMPLETED}
    said = [account.said(one.attempt)[0].split() for one in ended]
    assert [gpu for gpu, _ in said] == [str(n) for n in range(8)]
    assert len({port for _, port in said}) == 8


def test_a_gpu_is_never_given_twice(agent: NodeProcess, account: Account) -> None:
    waits = "import os, time; print('has it', flush=True); time.sleep(1000)"
    holder = attempt(account, "holder", waits, gpus=(5,))
    second = attempt(account, "second", "print('has it')", gpus=(4, 5))
    agent.order(holder)
    account.wait_for_line("holder", "has it")
    agent.order(holder, second)
    agent.until_attempt("second", "fetching")
    agent.until_report(lambda report: report.orders == agent.orders.number, "the orders read")
    report = agent.report()
    assert report is not None
    assert {one.attempt: one.state for one in report.attempts} == {
        "holder": AttemptPhase.RUNNING,
        "second": AttemptPhase.FETCHING,
    }
    agent.order(second)
    assert agent.until_attempt("second").state is AttemptPhase.COMPLETED


def test_input_is_fetched_once_and_nobody_writes_it(agent: NodeProcess, account: Account) -> None:
    put(account, "shared/data/deep/part", b"content")
    put(account, "shared/packed/part.csv.gz", gzip.compress(b"1,2,3"))
    source = """
import os
train = os.environ["SM_CHANNEL_TRAIN"]
file = f"{train}/deep/part"
packed = os.environ["SM_CHANNEL_PACKED"] + "/part.csv"
print(os.stat(file).st_ino, open(file).read(), open(packed).read())
open(f"{train}/own", "w").write("the folder is the job's own")
try:
    open(file, "w")
except PermissionError:
    print("refused")
"""
    channels = [
        channel(account, "train", "shared/data"),
        channel(account, "packed", "shared/packed/", CompressionType="Gzip"),
    ]
    changes = {"InputDataConfig": channels}
    names = ("reader-1", "reader-2")
    ended = run(agent, *(attempt(account, name, source, changes=changes) for name in names))
    assert [one.state for one in ended] == ["completed", "completed"], ended
    first, second = (account.said(name) for name in names)
    assert first == second
    assert first[0].endswith(" content 1,2,3")
    assert first[1] == "refused"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"DataSource": {"S3DataSource": {"S3Uri": "s3://sagemaker-us-east-1-123456789012/none"}}},
         "no S3 objects found"),
        ({"DataSource": {"S3DataSource": {"S3Uri": "s3://absent-bucket/x"}}}, "NoSuchBucket"),
        ({"InputMode": "Pipe"}, "need a whole instance"),
        ({"DataSource": {"FileSystemDataSource": {}}}, "need a whole instance"),
        ({"ChannelName": ".."}, "cannot be called"),
    ],
)  # fmt: skip
def test_input_that_a_node_cannot_bring_fails_the_job(
    agent: NodeProcess, account: Account, changed: dict[str, Any], said: str
) -> None:
    name = f"no-input-{abs(hash(said)) % 1000}-{agent.orders.number}"
    asked = {**channel(account, "train", "shared/data"), **changed}
    (ended,) = run(agent, attempt(account, name, "", changes={"InputDataConfig": [asked]}))
    assert ended.state is AttemptPhase.FAILED
    assert ended.failure.startswith("ClientError: ")
    assert said in ended.failure


def test_a_key_that_leaves_its_folder_is_refused(agent: NodeProcess, account: Account) -> None:
    put(account, "climbing/../../../../out", b"x")
    asked = channel(account, "train", "climbing/")
    (ended,) = run(agent, attempt(account, "climber", "", changes={"InputDataConfig": [asked]}))
    assert "points outside its folder" in ended.failure


def test_model_and_output_are_uploaded_and_nothing_of_others(
    agent: NodeProcess, account: Account
) -> None:
    source = """
import os
model, data = os.environ["SM_MODEL_DIR"], os.environ["SM_OUTPUT_DATA_DIR"]
open(f"{model}/weights", "w").write("w")
os.symlink("weights", f"{model}/latest")
os.symlink("/etc/passwd", f"{model}/stolen")
os.mkfifo(f"{model}/pipe")
open(f"{data}/notes", "w").write("n")
"""
    config = {"KmsKeyId": "arn:aws:kms:us-east-1:123456789012:key/mine"}
    (ended,) = run(agent, attempt(account, "saver", source, changes={"OutputDataConfig": config}))
    assert ended.state is AttemptPhase.COMPLETED
    assert ended.artifact == f"s3://{account.bucket}/out/saver/output/model.tar.gz"
    key = "out/saver/output/model.tar.gz"
    assert account.unpacked(key) == {"weights": b"w", "latest": b"w"}
    assert account.unpacked("out/saver/output/output.tar.gz") == {"notes": b"n"}
    head = account.s3.head_object(Bucket=account.bucket, Key=key)
    assert head["SSEKMSKeyId"] == config["KmsKeyId"]


def test_a_model_is_uploaded_as_single_files_if_asked(agent: NodeProcess, account: Account) -> None:
    source = "import os; open(os.environ['SM_MODEL_DIR'] + '/w', 'w').write('w')"
    config = {"CompressionType": "NONE"}
    (ended,) = run(agent, attempt(account, "files", source, changes={"OutputDataConfig": config}))
    assert ended.artifact == f"s3://{account.bucket}/out/files/output/model/"
    assert account.read("out/files/output/model/w") == b"w"


def test_checkpoints_come_and_go(agent: NodeProcess, account: Account) -> None:
    put(account, "checkpoints/keeper/before/state", b"1")
    source = """
import os, time
folder = os.environ["SM_CHECKPOINT_DIR"]
print(open(f"{folder}/before/state").read(), flush=True)
open(f"{folder}/during", "w").write("2")
os.symlink("/etc/passwd", f"{folder}/stolen")
os.symlink("/etc", f"{folder}/folder")
while not os.path.exists(f"{folder}/_slotq/keeper/suspend.json"):
    time.sleep(0.02)
open(f"{folder}/before/state", "w").write("3")
open(os.environ["SM_OUTPUT_DIR"] + "/failure", "w").write("slotq-released")
os._exit(75)
"""
    order = attempt(account, "keeper", source, grace_s=100)
    agent.order(order)
    account.until(lambda: "checkpoints/keeper/during" in account.keys("checkpoints/keeper/"))
    assert account.read("checkpoints/keeper/before/state") == b"1"
    (ended,) = run(agent, asked(order))
    assert ended.state is AttemptPhase.RELEASED
    assert (ended.exit, ended.why) == (75, EndReason.ITSELF)
    assert account.read("checkpoints/keeper/before/state") == b"3"
    assert account.keys("checkpoints/keeper/") == [
        "checkpoints/keeper/before/state",
        "checkpoints/keeper/during",
    ]


def asked(order: OrderedAttempt) -> OrderedAttempt:
    from dataclasses import replace

    return replace(order, suspend=Suspend(by="urgent", reason="priority"))


def test_a_script_with_the_library_releases_without_a_word_to_s3(
    agent: NodeProcess, account: Account
) -> None:
    library = Path(slotq_training.__file__).read_text()
    source = """
import time, slotq_training as slotq
print("attempt", slotq.attempt(), slotq.checkpoint_dir(), flush=True)
while not slotq.should_suspend():
    time.sleep(0.01)
open(slotq.checkpoint_dir() + "/saved", "w").write("s")
slotq.suspend()
"""
    uri = account.upload_source(
        "library", {"train.py": source, "slotq_training.py": library, "args.sh": "echo"}
    )
    parameters = {
        "sagemaker_program": '"train.py"',
        "sagemaker_submit_directory": json.dumps(uri),
        "epochs": "3",
    }
    changes = {
        "HyperParameters": parameters,
        "AlgorithmSpecification": {"ContainerEntrypoint": None},
    }
    order = attempt(account, "library", "", changes=changes, grace_s=100)
    agent.order(order)
    account.until(lambda: account.said("library"), "its first line")
    (ended,) = run(agent, asked(order))
    assert ended.state is AttemptPhase.RELEASED, ended
    assert account.read("checkpoints/library/saved") == b"s"


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
daemon = "import os, time; os.fork() and os._exit(0); print(os.getpid(), flush=True); "
daemon += "time.sleep(1000)"
subprocess.Popen([sys.executable, "-c", daemon], env={}, start_new_session=True).wait()
print("ready", os.getpid(), flush=True)
time.sleep(1000)
"""


def pids(account: Account, name: str) -> list[int]:
    return [int(line.split()[-1]) for line in account.said(name)]


def test_a_job_that_does_not_release_is_killed_with_its_daemons(
    agent: NodeProcess, account: Account
) -> None:
    order = attempt(account, "stubborn", STUBBORN, grace_s=0)
    agent.order(order)
    account.until(lambda: len(account.said("stubborn")) == 2, "two lines")
    (ended,) = run(agent, asked(order))
    assert (ended.state, ended.why) == (AttemptPhase.STOPPED, EndReason.SUSPEND)
    assert all(gone(pid) for pid in pids(account, "stubborn"))


def test_an_attempt_that_is_not_listed_ends_and_then_leaves_the_report(
    agent: NodeProcess, account: Account
) -> None:
    source = """
import os, signal, sys, time
def leave(*_):
    open(os.environ["SM_MODEL_DIR"] + "/w", "w").write("w")
    os._exit(143)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
time.sleep(1000)
"""
    agent.order(attempt(account, "dropped", source, grace_s=100))
    account.wait_for_line("dropped", "ready")
    agent.order()
    ended = agent.until_attempt("dropped")
    assert (ended.state, ended.why) == (AttemptPhase.STOPPED, EndReason.ORDER)
    assert account.unpacked("out/dropped/output/model.tar.gz") == {"w": b"w"}

    agent.order()
    agent.until_report(lambda report: not report.attempts, "an empty report")
    account.until(lambda: not (agent.work / "jobs/dropped").exists(), "its folder's end")


def test_a_failure_is_told_in_sagemakers_words(agent: NodeProcess, account: Account) -> None:
    source = "import os; open(os.environ['SM_OUTPUT_DIR'] + '/failure', 'w').write('no luck'); 1/0"
    (ended,) = run(agent, attempt(account, "failing", source))
    assert (ended.state, ended.exit) == (AttemptPhase.FAILED, 1)
    assert ended.failure == "AlgorithmError: no luck, exit code: 1"


def test_a_command_that_is_not_there_is_named(agent: NodeProcess, account: Account) -> None:
    changes = {"AlgorithmSpecification": {"ContainerEntrypoint": ["no-such-command"]}}
    (ended,) = run(agent, attempt(account, "absent", "", changes=changes))
    assert ended.failure == "ClientError: cannot run no-such-command: No such file or directory"


def test_two_scripts_that_name_the_nodes_folder_fail_and_never_mix(
    agent: NodeProcess, account: Account
) -> None:
    source = f"open({str(agent.base / 'checkpoints/state')!r}, 'w').write('mine')"
    ended = run(agent, *(attempt(account, f"literal-{n}", source) for n in (1, 2)))
    for one in ended:
        assert one.state is AttemptPhase.FAILED
        assert "use SM_CHECKPOINT_DIR or slotq_training.checkpoint_dir()" in one.failure, (
            account.said(one.attempt)
        )
    assert list((agent.base / "checkpoints").iterdir()) == []


@ROOT_ONLY
def test_one_job_may_have_the_literal_paths(agent: NodeProcess, account: Account) -> None:
    source = f"""
base = {str(agent.base)!r}
assert __import__("os").environ["SAGEMAKER_BASE_DIR"] == base
open(base + "/checkpoints/state", "w").write("mine")
open(base + "/model/weights", "w").write("w")
"""
    ended = run(
        agent,
        *(attempt(account, f"literally-{n}", source, literal_paths=True) for n in (1, 2)),
    )
    assert [one.state for one in ended] == ["completed", "completed"], ended
    assert account.read("checkpoints/literally-1/state") == b"mine"
    assert account.unpacked("out/literally-2/output/model.tar.gz") == {"weights": b"w"}
    agent.order()
    account.until(lambda: not list((agent.base / "checkpoints").iterdir()), "an empty folder")


@ROOT_ONLY
def test_a_job_that_waits_for_the_literal_paths_leaves_them_alone_at_its_end(
    agent: NodeProcess, account: Account
) -> None:
    source = f"""
import time
open({str(agent.base / "model/weights")!r}, "w").write("w")
print("written", flush=True)
time.sleep(1000)
"""
    has = attempt(account, "has-it", source, literal_paths=True, grace_s=0)
    agent.order(has)
    account.wait_for_line("has-it", "written")
    agent.order(has, attempt(account, "wants-it", source, literal_paths=True))
    agent.until_attempt("wants-it", "fetching")
    agent.order(has)
    assert agent.until_attempt("wants-it").state is AttemptPhase.STOPPED
    agent.order()
    assert agent.until_attempt("has-it").state is AttemptPhase.STOPPED
    assert account.unpacked("out/has-it/output/model.tar.gz") == {"weights": b"w"}


def test_memory_beyond_its_part_ends_that_job_alone(agent: NodeProcess, account: Account) -> None:
    eats = "import time; held = bytearray(300 << 20); time.sleep(1000)"
    stays = "import time; print('here', flush=True); time.sleep(1000)"
    other = attempt(account, "neighbour", stays, memory_mib=200)
    agent.order(other, attempt(account, "eater", eats, memory_mib=200))
    ended = agent.until_attempt("eater")
    assert (ended.state, ended.why) == (AttemptPhase.FAILED, EndReason.MEMORY)
    assert "of memory: its part of the node is 200 MiB" in ended.failure
    agent.until_attempt("neighbour", "running")


def test_the_maximum_runtime_stops_a_job(agent: NodeProcess, account: Account) -> None:
    changes = {"StoppingCondition": {"MaxRuntimeInSeconds": 1}}
    order = attempt(account, "endless", "import time; time.sleep(1000)", changes=changes)
    (ended,) = run(agent, order)
    assert (ended.state, ended.why) == (AttemptPhase.STOPPED, EndReason.MAX_RUNTIME)


def test_metrics_are_found_in_the_output(agent: NodeProcess, account: Account) -> None:
    definitions = [
        {"Name": "loss", "Regex": r"loss=([0-9.]+)"},
        {"Name": "broken", "Regex": "("},
        {"Name": "never", "Regex": r"never=(\S+)"},
    ]
    changes = {"AlgorithmSpecification": {"MetricDefinitions": definitions}}
    source = "print('loss=3'); print('loss=0.5 loss=0.25'); print('never=nan')"
    (ended,) = run(agent, attempt(account, "metrics", source, changes=changes))
    assert ended.metrics == {"loss": 0.25}


def test_logs_are_whole_and_in_order(agent: NodeProcess, account: Account) -> None:
    source = """
import os, sys
for n in range(3000):
    print(n)
sys.stdout.buffer.write(b"\\xff no text\\n\\n" + b"x" * 300_000 + b"\\n")
"""
    (ended,) = run(agent, attempt(account, "talker", source))
    assert ended.state is AttemptPhase.COMPLETED
    lines = []
    streams = account.logs.describe_log_streams(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix="talker/algo-1-"
    )["logStreams"]
    assert len(streams) == 1
    token: dict[str, str] = {}
    while True:
        page = account.logs.get_log_events(
            logGroupName="/aws/sagemaker/TrainingJobs",
            logStreamName=streams[0]["logStreamName"],
            startFromHead=True,
            **token,
        )
        if token.get("nextToken") == page["nextForwardToken"]:
            break
        token = {"nextToken": page["nextForwardToken"]}
        lines += [event["message"] for event in page["events"]]
    assert lines[:3000] == [str(n) for n in range(3000)]
    assert lines[3000:3002] == ["\ufffd no text", " "]
    assert "".join(lines[3002:]) == "x" * 300_000


def test_a_packed_source_cannot_write_elsewhere(agent: NodeProcess, account: Account) -> None:
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo("../../../../escaped")
        entry.size = 1
        tar.addfile(entry, BytesIO(b"x"))
    put(account, "evil.tar.gz", packed.getvalue())
    parameters = {
        "sagemaker_program": "train.py",
        "sagemaker_submit_directory": f"s3://{account.bucket}/evil.tar.gz",
    }
    changes = {
        "HyperParameters": parameters,
        "AlgorithmSpecification": {"ContainerEntrypoint": None},
    }
    (ended,) = run(agent, attempt(account, "evil", "", changes=changes))
    assert "points outside its folder" in ended.failure


def test_a_job_without_a_command_is_told_so(agent: NodeProcess, account: Account) -> None:
    changes = {"AlgorithmSpecification": {"ContainerEntrypoint": None}}
    (ended,) = run(agent, attempt(account, "silent", "", changes=changes))
    assert "needs ContainerEntrypoint, or an image with `train`" in ended.failure

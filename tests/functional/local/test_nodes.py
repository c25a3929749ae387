"""Nodes on the emulator: the queue's agent in a training job, with a container's rights."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slotq.local.job_processes import address_of
from slotq_core.adapters import nodes
from slotq_core.adapters.sagemaker.observations import TOKEN_TAG
from slotq_core.names import token_in_tags
from slotq_core.wire.nodes.documents import AttemptPhase, EndReason, OrderedAttempt
from tests import emulators
from tests.functional.local.account import Account, gone
from tests.functional.local.node_process import PACKAGES, NodeDocuments, attempt, python

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="root gives each job its own user")
P5 = "ml.p5.48xlarge"

SLEEPS = """
import os, time
open(os.environ["SM_CHECKPOINT_DIR"] + "/state", "w").write("saved")
print("script", os.getpid(), flush=True)
time.sleep(1000)
"""


def image(folder: Path) -> str:
    """A Python with boto3 that every user of this machine may run."""
    subprocess.run([python(), "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "tests.pth").write_text(f"{PACKAGES}\n")
    return str(folder / "bin/python3")


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An emulator whose nodes have eight GPUs that are not there."""
    folder = tmp_path_factory.mktemp("nodes")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)  # Jobs' users run the Python below.
    options = ("--gpus", "8", "--grace", "100", "--python", image(folder / "python"))
    with emulators.held(folder / "state", "--pool", f"main=2@{P5}", *options) as made:
        yield made
    log = (folder / "state/emulator.log").read_text()
    assert "Traceback" not in log, log


class EmulatedNode(NodeDocuments):
    """A node that the emulator's SageMaker runs."""

    def __init__(self, account: Account, name: str) -> None:
        super().__init__(account, name, account.endpoint.nodes_bucket)

    @property
    def ended(self) -> str:
        described = self.account.describe(self.name)
        if described["TrainingJobStatus"] == "InProgress":
            return ""
        return f"{described.get('FailureReason')} {self.account.said(self.name)}"

    def start(self, **more: str) -> None:
        """Create the training job that the queue creates for a node."""
        self.account.s3.put_object(
            Bucket=self.bucket, Key=nodes.agent_key(), Body=nodes.agent_source()
        )
        settings = self.settings(**more)
        request = self.account.request(
            self.name,
            AlgorithmSpecification={
                "TrainingImage": "image",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": nodes.entrypoint(self.bucket),
            },
            Environment=settings,
            StoppingCondition={"MaxRuntimeInSeconds": 3600},
            Tags=[{"Key": TOKEN_TAG, "Value": token_in_tags(settings["SLOTQ_NODE_TOKEN"])}],
        )
        request["ResourceConfig"]["InstanceType"] = P5
        self.account.sagemaker.create_training_job(**request)

    def pids(self) -> list[int]:
        """The agent's processes and its jobs', the first process first."""
        mark = f"/{self.name}/algo-1/".encode()
        found = []
        for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
            try:
                if mark in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
        return found


@pytest.fixture
def node(account: Account, request: pytest.FixtureRequest) -> Iterator[EmulatedNode]:
    made = EmulatedNode(account, "n-" + "".join(c for c in request.node.name if c.isalnum())[-40:])
    made.start()
    yield made
    if not made.ended:
        account.sagemaker.stop_training_job(TrainingJobName=made.name)
        account.ended(made.name)
    print("\n".join(account.said(made.name)))


def job(account: Account, name: str, source: str, **more: Any) -> OrderedAttempt:
    given = attempt(account, name, source, **more)
    algorithm = {**given.request["AlgorithmSpecification"]}
    algorithm["ContainerEntrypoint"] = ["python3", *algorithm["ContainerEntrypoint"][1:]]
    return OrderedAttempt(
        attempt=name,
        job=name,
        number=1,
        gpus=given.gpus,
        grace_s=given.grace_s,
        literal_paths=given.literal_paths,
        request={**given.request, "AlgorithmSpecification": algorithm},
    )


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def pid_of(account: Account, name: str) -> int:
    account.until(lambda: account.said(name), f"a line of {name}")
    return int(account.said(name)[0].split()[-1])


WORKS = """
import os
print("gpu", os.environ["CUDA_VISIBLE_DEVICES"], os.environ["TRAINING_JOB_NAME"], flush=True)
open(os.environ["SM_MODEL_DIR"] + "/weights", "w").write("1")
open(os.environ["SM_CHECKPOINT_DIR"] + "/step", "w").write("2")
"""


def test_a_node_runs_jobs_that_leave_what_any_job_leaves(
    account: Account, node: EmulatedNode
) -> None:
    ready = node.until_ready()
    assert ready.problems == ()
    assert [gpu.id for gpu in ready.gpus] == [str(n) for n in range(8)]
    assert ready.uids is (os.geteuid() == 0)
    node.order(job(account, "works", WORKS, gpus=(3,)))
    ended = node.until_attempt("works")
    assert (ended.state, ended.failure) == (AttemptPhase.COMPLETED, "")
    assert account.said("works") == ["gpu 3 works"]
    assert account.unpacked("out/works/output/model.tar.gz") == {"weights": b"1"}
    assert account.read("checkpoints/works/step") == b"2"
    node.order(leave=True)
    described = account.ended(node.name)
    assert described["TrainingJobStatus"] == "Completed"
    states = [one["Status"] for one in described["SecondaryStatusTransitions"]]
    assert states == ["Starting", "Downloading", "Training", "Uploading", "Completed"]


def test_eight_jobs_have_a_gpu_each(account: Account, node: EmulatedNode) -> None:
    source = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    node.order(*[job(account, f"each-{n}", source, gpus=(n,)) for n in range(8)])
    for n in range(8):
        assert node.until_attempt(f"each-{n}").state is AttemptPhase.COMPLETED
        assert account.said(f"each-{n}") == [str(n)]


RIGHTS = """
import ctypes, os, site
libc = ctypes.CDLL(None, use_errno=True)
print("mounts", libc.mount(b"none", b"/mnt", b"tmpfs", 0, None) == 0)
for line in open("/proc/self/status"):
    if line.startswith("CapBnd"):
        print("admin", int(line.split()[1], 16) >> 21 & 1)
print("user", os.getuid(), os.path.dirname(os.environ["SAGEMAKER_BASE_DIR"]))
print("packages", site.ENABLE_USER_SITE, site.getuserbase() == os.environ["HOME"] + "/.local")
"""


def test_a_node_has_no_more_rights_than_a_container(account: Account, node: EmulatedNode) -> None:
    node.order(job(account, "rights", RIGHTS))
    assert node.until_attempt("rights").state is AttemptPhase.COMPLETED
    mounts, admin, user, packages = account.said("rights")
    assert mounts == "mounts False"
    assert packages == "packages True True"  # pip can install into a job's home.
    if os.geteuid() == 0:
        assert admin == "admin 0"
        assert int(user.split()[1]) >= 20_000
    if account.control("health")["isolated"]:
        assert user.endswith(" /opt/ml/node/jobs/rights")


LITERAL = """
import os
folder = "/opt" + "/ml/checkpoints"  # As in a file: in the command itself it would be replaced.
print("before", os.listdir(folder), flush=True)
open(folder + "/mine", "w").write(os.environ["TRAINING_JOB_NAME"])
print("written", flush=True)
"""


def test_scripts_that_name_the_nodes_folder_are_told_and_never_mixed(
    account: Account, node: EmulatedNode
) -> None:
    names = ("literal-1", "literal-2")
    node.order(*[job(account, name, LITERAL) for name in names])
    for name in names:
        ended = node.until_attempt(name)
        assert ended.state is AttemptPhase.FAILED
        assert "use SM_CHECKPOINT_DIR" in ended.failure
        assert account.keys(f"checkpoints/{name}/") == []
    node.order(job(account, "literal-3", LITERAL, literal_paths=True))
    ended = node.until_attempt("literal-3")
    if not node.until_ready().uids:
        assert "a user of its own" in ended.failure
    elif account.control("health")["isolated"]:
        assert ended.state is AttemptPhase.COMPLETED
        assert account.read("checkpoints/literal-3/mine") == b"literal-3"


def test_a_stop_lets_the_jobs_save(account: Account, node: EmulatedNode) -> None:
    node.order(job(account, "stops", SLEEPS, gpus=(0,)))
    pid = pid_of(account, "stops")
    account.sagemaker.stop_training_job(TrainingJobName=node.name)
    described = account.ended(node.name)
    # The agent itself ends with 0: a training job that does so while it is stopped has completed.
    assert described["TrainingJobStatus"] == "Completed"
    assert gone(pid)
    report = node.report()
    assert report is not None
    (ended,) = report.attempts
    assert (ended.state, ended.why) == (AttemptPhase.STOPPED, EndReason.NODE)
    assert account.read("checkpoints/stops/state") == b"saved"
    assert node.pids() == []


def test_a_killed_agent_takes_its_jobs_along(account: Account, node: EmulatedNode) -> None:
    node.order(*[job(account, f"dies-{n}", SLEEPS, gpus=(n,)) for n in range(3)])
    jobs = [pid_of(account, f"dies-{n}") for n in range(3)]
    os.kill(parent(parent(jobs[0])), signal.SIGKILL)  # Its keeper's parent is the agent.
    described = account.ended(node.name)
    assert described["TrainingJobStatus"] == "Failed"
    assert described["FailureReason"] == "AlgorithmError: , exit code: 137"
    assert all(gone(pid) for pid in jobs)
    assert node.pids() == []


def test_two_nodes_side_by_side_share_nothing(account: Account) -> None:
    names = ("side-a", "side-b")
    made = [EmulatedNode(account, name) for name in names]
    for node in made:
        node.start()
    for node in made:
        node.order(job(account, f"{node.name}-job", SLEEPS, gpus=(0,)))
    pids = [pid_of(account, f"{node.name}-job") for node in made]
    users = {Path(f"/proc/{pid}").stat().st_uid for pid in pids}
    assert len(users) == (2 if os.geteuid() == 0 else 1)
    account.sagemaker.stop_training_job(TrainingJobName=names[0])
    account.ended(names[0])
    assert gone(pids[0])
    assert not gone(pids[1])
    account.sagemaker.stop_training_job(TrainingJobName=names[1])
    account.ended(names[1])
    assert gone(pids[1])


def test_what_the_agent_says_is_the_nodes_failure(account: Account) -> None:
    node = EmulatedNode(account, "bad-settings")
    node.start(SLOTQ_NODE_GPUS="pretend:many")
    described = account.ended("bad-settings")
    assert described["TrainingJobStatus"] == "Failed"
    assert "the node's agent failed: ValueError" in described["FailureReason"]
    assert any("the node's agent failed" in line for line in account.said("bad-settings"))


def test_orders_are_written_on_condition(account: Account) -> None:
    """What the queue relies on: If-None-Match and If-Match of PutObject, If-None-Match of
    GetObject."""
    s3, place = account.s3, {"Bucket": account.endpoint.nodes_bucket, "Key": "conditions"}
    first = s3.put_object(**place, Body=b"1", IfNoneMatch="*")["ETag"]
    for condition in ({"IfNoneMatch": "*"}, {"IfMatch": '"other"'}):
        with pytest.raises(s3.exceptions.ClientError, match="PreconditionFailed"):
            s3.put_object(**place, Body=b"2", **condition)
    second = s3.put_object(**place, Body=b"2", IfMatch=first)["ETag"]
    with pytest.raises(s3.exceptions.ClientError, match="304"):
        s3.get_object(**place, IfNoneMatch=second)
    assert s3.head_object(**place)["ETag"] == second != first


SHELL = """
import os, socket
from slotq.local import job_processes
raise SystemExit(job_processes.open_local_shell(os.environ["AWS_ENDPOINT_URL"], {name!r}, host=1))
"""


def test_a_shell_is_the_jobs_user_in_its_folder(account: Account, node: EmulatedNode) -> None:
    node.order(*[job(account, f"lab-{n}", SLEEPS, gpus=(n,)) for n in range(2)])
    pids = [pid_of(account, f"lab-{n}") for n in range(2)]
    asks = (
        "id -u; pwd; echo $CUDA_VISIBLE_DEVICES; echo hello > mine; "
        f"kill -9 {pids[0]} 2>&1 | grep -c permitted; mount -t tmpfs none /mnt 2>/dev/null || "
        "echo no mount; exit 3"
    )
    ran = subprocess.run(
        [sys.executable, "-c", SHELL.format(name="lab-1")],
        input=asks,
        env={**os.environ, **account.variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 3, ran.stderr
    uid, folder, gpu, *refused = ran.stdout.split("\n")
    assert int(uid) == Path(f"/proc/{pids[1]}").stat().st_uid
    assert folder.endswith("/node/jobs/lab-1/ml")
    assert gpu == "1"
    if os.geteuid() == 0:
        assert refused == ["1", "no mount", ""]
        assert not gone(pids[0])


def test_a_port_of_a_job_on_a_node_is_found(account: Account, node: EmulatedNode) -> None:
    listens = """
import os, socket, time
listener = socket.create_server(("127.0.0.1", int(os.environ["SLOTQ_PORT"])))
print("port", os.environ["SLOTQ_PORT"], flush=True)
time.sleep(1000)
"""
    node.order(job(account, "listens", listens), job(account, "deaf", SLEEPS))
    pid_of(account, "deaf")
    port = pid_of(account, "listens")  # The last word of its line.
    run = account.control("health")["run"]
    assert address_of(run, "listens", 1, port) == "127.0.0.1"
    assert address_of(run, "deaf", 1, port) is None

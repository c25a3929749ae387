"""Instances that stay: jobs of one GPU on nodes of the emulator, which pretend to have eight."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from slotq import QueueClient
from slotq.cli.exits import ExitCode
from slotq.demo.environment import with_variables
from slotq.demo.world import settings
from slotq_core.adapters.deployment_settings import parse_pools
from slotq_core.model.jobs import TERMINAL_STATES
from tests import emulators
from tests.e2e.test_commands import slotq
from tests.e2e.waiting import until
from tests.functional.local.account import Account, gone
from tests.functional.local.conftest import SLOTQ
from tests.functional.local.test_nodes import image, parent

POOLS = (
    "one=1@ml.p5.48xlarge;nodes=keep:600",
    "two=2@ml.p4d.24xlarge;nodes=keep:600",
    "four=1@ml.g5.12xlarge;nodes=keep:600",
    "duo=2@ml.g4dn.12xlarge;nodes=keep:600",
    "full=2@ml.g6.12xlarge;nodes=keep:600;consolidate=true",
    "short=1@ml.p5e.48xlarge;nodes=keep:600",
    "lost=1@ml.p5en.48xlarge;nodes=keep:600",
)
"""A pool for each journey that fills one: the nodes of one journey are none of another's."""


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    folder = tmp_path_factory.mktemp("nodes")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)  # Jobs' users run the Python below.
    pools = [word for pool in POOLS for word in ("--pool", pool)]
    options = ("--python", image(folder / "python"), "--tick", "5")
    with emulators.held(folder / "state", *pools, *options) as account:
        variables = settings(account.endpoint, folder / "state")
        with with_variables(variables, instead_of=("AWS_", "SLOTQ_")):
            yield account
    log = (folder / "state/emulator.log").read_text()
    assert "Traceback" not in log, log


@pytest.fixture(autouse=True)
def _no_jobs_of_other_tests(aws: Account) -> Iterator[None]:
    yield
    queue = QueueClient()
    live = [job.name for job in queue.jobs() if job.state not in TERMINAL_STATES]
    for name in live:
        queue.jobs.cancel(name)
    until(lambda: all(state(name) in TERMINAL_STATES for name in live), "the jobs do not end")


TYPES = {
    pool.name: pool.instance_type for text in POOLS for pool in parse_pools(text.split(";")[0])
}


def asked(
    aws: Account, name: str, source: str, pool: str = "one", *, gpus: float = 1, **tags: str
) -> dict[str, Any]:
    """A job of a script, given as text."""
    made = aws.request(name, source)
    made["ResourceConfig"]["InstanceType"] = TYPES[pool]
    made["CheckpointConfig"] = {"S3Uri": f"s3://{aws.bucket}/checkpoints/{name}"}
    made["StoppingCondition"] = {"MaxRuntimeInSeconds": 3600}
    tags = {"slotq:gpus": str(gpus), "slotq:pools": pool, **tags}
    made["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
    return made


def submit(aws: Account, name: str, source: str, pool: str = "one", **more: Any) -> None:
    QueueClient().submit(asked(aws, name, source, pool, **more))


def state(name: str) -> str:
    return str(QueueClient().jobs.view(name).state)


def lines(aws: Account, name: str, count: int = 1) -> list[str]:
    """The lines of a job's first attempt, once there are so many."""
    until(lambda: len(aws.said(name)) >= count, f"{name} says nothing: {shown(name)}")
    return aws.said(name)


def shown(name: str) -> str:
    return slotq("show", name).output + slotq("why", name).output


def instances(aws: Account) -> list[str]:
    """Every training job that SageMaker has been asked for, in order."""
    listed = aws.sagemaker.list_training_jobs(SortBy="CreationTime", MaxResults=100)
    return [job["TrainingJobName"] for job in listed["TrainingJobSummaries"]]


SLEEPS = """
import os, time
print("gpu", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
time.sleep(1000)
"""


def test_eight_jobs_of_one_gpu_share_an_instance_and_a_ninth_waits(aws: Account) -> None:
    before = instances(aws)
    for n in range(8):
        sent = slotq("submit", "-", "--gpus", "1", input=json.dumps(asked(aws, f"of-{n}", SLEEPS)))
        assert sent.exit_code == ExitCode.OK, sent.output
    gpus = [lines(aws, f"of-{n}")[0] for n in range(8)]
    assert sorted(gpus) == [f"gpu {n}" for n in range(8)]
    assert len(instances(aws)) == len(before) + 1
    submit(aws, "ninth", SLEEPS)
    until(lambda: "no node has 1 GPU free for it" in slotq("why", "ninth").output, shown("ninth"))
    queue = QueueClient()
    views = [json.loads(slotq("show", f"of-{n}", "--json").output) for n in range(8)]
    assert len({view["node"] for view in views}) == 1
    assert [f"gpu {view['gpu_ids'][0]}" for view in views] == gpus
    listed = slotq("nodes").output
    assert all(f"of-{n}" in listed for n in range(8)), listed
    queue.jobs.cancel("of-3")
    assert lines(aws, "ninth") == [gpus[3]]


WORKS = """
import os, time
began = time.time()
time.sleep(2)
node, gpu = os.readlink("/proc/self/ns/mnt"), os.environ["CUDA_VISIBLE_DEVICES"]
print("ran", node, gpu, began, time.time())
"""


@pytest.mark.timeout(400)
def test_sixty_trials_of_one_gpu_run_sixteen_at_once_on_two_instances(aws: Account) -> None:
    before = instances(aws)
    queue = QueueClient()
    template = asked(aws, "trial", WORKS, "two")
    del template["TrainingJobName"], template["CheckpointConfig"]
    rates = [n / 100 for n in range(60)]
    queue.sweeps.submit("grid", template, {"rate": rates}, max_parallel=60)
    until(lambda: queue.groups.view("grid").states == {"completed": 60}, "the sweep does not end")
    jobs = queue.groups.view("grid").jobs
    assert {job.attempts_begun for job in jobs} == {1}
    assert len(instances(aws)) == len(before) + 2, "an instance was started between"
    ran = [aws.said(job.name)[0].split()[1:] for job in jobs]
    times = [(node, gpu, float(began), float(ended)) for node, gpu, began, ended in ran]
    for one, other in combinations(times, 2):
        if one[:2] == other[:2]:
            assert one[3] <= other[2] or other[3] <= one[2], "two trials on one GPU"
    held = [
        (attempt.admitted_at, attempt.ended_at or "")
        for job in jobs
        for attempt in queue.jobs.view(job.name).attempts
    ]
    most = max(sum(begins <= at < ends for begins, ends in held) for at, _ in held)
    assert most == 16, "by what the queue gave: scripts begin when the machine lets them"


SAVES = """
import os, signal, sys, time
folder = os.environ["SM_CHECKPOINT_DIR"]
def save(*_):
    open(folder + "/step", "w").write("7")
    print("saved", flush=True)
    os._exit(143)
signal.signal(signal.SIGTERM, save)
kept = os.path.exists(folder + "/step")
print("begins with", open(folder + "/step").read() if kept else "nothing", flush=True)
time.sleep(1 if kept else 1000)
"""


@pytest.mark.timeout(400)
def test_a_higher_job_takes_the_place_of_one_job_of_a_full_node(aws: Account) -> None:
    queue = QueueClient()
    low = [f"low-{n}" for n in range(8)]
    for name in low:
        submit(aws, name, SAVES, "short")
    assert {lines(aws, name)[0] for name in low} == {"begins with nothing"}
    before = instances(aws)
    began = time.monotonic()
    submit(aws, "high", "print('first line', flush=True)", "short", priority="5")
    lines(aws, "high")
    print(f"preemption on a node: {time.monotonic() - began:.1f} s")
    until(lambda: state("high") == "completed", shown("high"))
    evicted = [
        name
        for name in low
        if queue.jobs.view(name).attempts_begun > 1 or "saved" in aws.said(name)
    ]
    assert len(evicted) == 1, evicted
    until(lambda: state(evicted[0]) == "completed", shown(evicted[0]))
    log = slotq("logs", evicted[0]).output
    assert "begins with 7" in log, log
    others = [queue.jobs.view(name) for name in low if name != evicted[0]]
    assert [(job.state, job.attempts_begun) for job in others] == [("running", 1)] * 7
    assert instances(aws) == before


LOSES = """
import os, time
folder = os.environ["SM_CHECKPOINT_DIR"]
kept = os.path.exists(folder + "/step")
open(folder + "/step", "w").write("1")
print("second" if kept else "first", os.getpid(), flush=True)
time.sleep(1 if kept else 1000)
"""


@pytest.mark.timeout(400)
def test_a_node_that_is_killed_takes_its_jobs_along_and_they_go_on(aws: Account) -> None:
    queue = QueueClient()
    names = [f"lost-{n}" for n in range(3)]
    before = instances(aws)
    for name in names:
        submit(aws, name, LOSES, "lost")
    pids = [int(lines(aws, name)[0].split()[-1]) for name in names]
    until(lambda: all(aws.keys(f"checkpoints/{name}/step") for name in names), "no checkpoint")
    os.kill(parent(parent(pids[0])), signal.SIGKILL)
    until(lambda: all(gone(pid) for pid in pids), "a job runs on without its agent")
    until(lambda: {state(name) for name in names} == {"completed"}, shown(names[0]))
    for name in names:
        job = queue.jobs.view(name)
        assert job.attempts_begun == 2
        assert "second" in slotq("logs", name).output
    begun = [name for name in instances(aws) if name not in before]
    assert len(begun) == 2
    assert aws.describe(begun[0])["TrainingJobStatus"] == "Failed"


LITERAL = """
import os
open("/opt/ml/checkpoints/mine", "w").write(os.environ["TRAINING_JOB_NAME"])
"""


def test_scripts_that_name_the_nodes_folder_are_told_and_never_mixed(aws: Account) -> None:
    names = ("literal-1", "literal-2")
    for name in names:
        submit(aws, name, LITERAL)
    for name in names:
        until(lambda name=name: state(name) == "failed", shown(name))
        assert "use SM_CHECKPOINT_DIR" in " ".join(slotq("show", name).output.split())
        assert aws.keys(f"checkpoints/{name}/") == []


def test_a_shell_on_one_gpu(aws: Account, tmp_path: Path) -> None:
    (tmp_path / "lab.json").write_text(json.dumps(asked(aws, "lab", SLEEPS)))
    words = ("submit", str(tmp_path / "lab.json"), "--interactive", "--gpus", "1", "--shell")
    ran = subprocess.run(
        [*SLOTQ, *words],
        input="id -u; pwd; echo gpu $CUDA_VISIBLE_DEVICES; exit 4",
        env={**os.environ, **aws.variables},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ran.returncode == 4, ran.stderr
    uid, folder, gpu = ran.stdout.splitlines()[-3:]
    assert folder.endswith("/node/jobs/lab/ml/code")
    assert [gpu] == lines(aws, "lab")
    if os.geteuid() == 0:
        assert int(uid) >= 20_000
    assert state("lab") == "running"


HOLDS = """
import os, time
print("gpus", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
time.sleep({seconds})
"""


def test_flares_example_of_gpus(aws: Account) -> None:
    """A client with four GPUs. A job takes two, and its site puts them back at the job's end, also
    at an abort."""
    queue = QueueClient()
    submit(aws, "first", HOLDS.format(seconds=1000), "four", gpus=2)
    assert lines(aws, "first") == ["gpus 0,1"]
    submit(aws, "second", HOLDS.format(seconds=8), "four", gpus=2)
    assert lines(aws, "second") == ["gpus 2,3"]
    submit(aws, "third", HOLDS.format(seconds=1000), "four", gpus=2)
    until(lambda: state("second") == "completed", shown("second"))
    assert lines(aws, "third") == ["gpus 2,3"]
    submit(aws, "fourth", HOLDS.format(seconds=1), "four", gpus=4)
    until(lambda: "no node has 4 GPUs free" in slotq("why", "fourth").output, shown("fourth"))
    queue.jobs.cancel("first")
    queue.jobs.cancel("third")
    assert lines(aws, "fourth") == ["gpus 0,1,2,3"]


@pytest.mark.timeout(400)
def test_a_gang_of_three_with_two_gpus_each_on_two_nodes(aws: Account) -> None:
    """All start together, two of them on one node. A higher job on a node evicts the whole gang."""
    queue = QueueClient()
    names = [f"ring-{n}" for n in range(3)]
    submit(aws, "old", SLEEPS, "duo", gpus=2)
    assert lines(aws, "old") == ["gpu 0,1"]
    queue.groups.submit_gang("ring", [asked(aws, name, SLEEPS, "duo", gpus=2) for name in names])
    said = sorted(lines(aws, name)[0] for name in names)
    assert said == ["gpu 0,1", "gpu 2,3", "gpu 2,3"]
    starts = {queue.jobs.view(name).attempts[-1].admitted_at for name in names}
    assert len(starts) == 1
    before = instances(aws)
    submit(aws, "large", "print('first line', flush=True)", "duo", gpus=4, priority="5")
    lines(aws, "large")
    until(lambda: state("large") == "completed", shown("large"))
    until(
        lambda: [queue.jobs.view(name).attempts_begun for name in names] == [2, 2, 2],
        "".join(map(shown, names)),
    )
    assert state("old") == "running"
    assert instances(aws) == before


def test_parts_move_to_another_node_for_a_job_of_a_whole_one(aws: Account) -> None:
    """The histories of all three jobs say who moved where, and for whom."""
    queue = QueueClient()
    for name, gpus in (
        ("moves-half", 0.5),
        ("moves-quarter", 0.25),
        ("moves-first", 3),
        ("moves-second", 3),
    ):
        submit(aws, name, SLEEPS, "full", gpus=gpus)
        lines(aws, name)
    node, other = (queue.jobs.view(name).node for name in ("moves-half", "moves-second"))
    assert queue.jobs.view("moves-quarter").gpu_ids == queue.jobs.view("moves-half").gpu_ids
    queue.jobs.cancel("moves-first")
    until(lambda: state("moves-first") == "cancelled", shown("moves-first"))
    before = instances(aws)
    submit(aws, "moves-whole", SLEEPS, "full", gpus=4, priority="5")
    assert lines(aws, "moves-whole") == ["gpu 0,1,2,3"]
    moved = ("moves-half", "moves-quarter")
    until(lambda: [state(name) for name in moved] == ["running"] * 2, "".join(map(shown, moved)))
    for name in moved:
        first, second = queue.jobs.view(name).attempts
        assert (first.node, second.node, *second.gpu_ids) == (node, other, 3)
        said = " ".join(slotq("history", name).output.split())
        assert f"full/{node}" in said and f"full/{other}" in said
        assert "evicted for moves-whole" in said
    said = " ".join(slotq("history", "moves-whole").output.split())
    assert f"1 moves-whole full/{node}" in said
    assert (
        state("moves-second") == "running" and queue.jobs.view("moves-second").attempts_begun == 1
    )
    assert instances(aws) == before

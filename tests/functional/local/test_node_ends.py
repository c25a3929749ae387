"""How a node and its jobs end, and what no job of a node can do. A node for each test."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slotq_core.adapters import nodes
from slotq_core.wire.nodes.documents import (
    AttemptPhase,
    EndReason,
    NodePhase,
    NodeReport,
    Unproven,
    read_report,
    written_report,
)
from tests.functional.local.account import Account
from tests.functional.local.node_process import (
    AGENT,
    DOCKERS_RIGHTS,
    PACKAGES,
    TOKEN,
    NodeProcess,
    attempt,
    gone,
    node,
    python,
)
from tests.loopback import serving

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="root gives each job its own user")
NOBODY = 54_321

WAITS = """
import os, signal, subprocess, sys, time
daemon = "import os, time; os.fork() and os._exit(0); print('daemon', os.getpid(), flush=True); "
daemon += "time.sleep(1000)"
subprocess.Popen([sys.executable, "-c", daemon], env={}, start_new_session=True).wait()
open(os.environ["SM_CHECKPOINT_DIR"] + "/state", "w").write("saved")
print("script", os.getpid(), flush=True)
time.sleep(1000)
"""


@pytest.fixture
def agent(account: Account, request: pytest.FixtureRequest) -> Iterator[NodeProcess]:
    name = "n-" + "".join(c for c in request.node.name if c.isalnum())[-50:]
    with node(account, name) as made:
        yield made


@pytest.fixture(scope="module")
def shared(emulator: Account) -> Iterator[NodeProcess]:
    with node(emulator, "hostile-node") as made:
        made.start()
        yield made


def started(
    agent: NodeProcess, account: Account, name: str, source: str = WAITS, **more: Any
) -> list[int]:
    """Start an attempt. Returns the pids that it prints, two lines."""
    agent.until_ready()
    agent.order(attempt(account, name, source, **more))
    account.until(lambda: len(account.said(name)) >= 2, "two lines")
    return [int(line.split()[-1]) for line in account.said(name)]


def all_gone(account: Account, pids: list[int]) -> None:
    account.until(lambda: all(gone(pid) for pid in pids), "the end of all processes")


# --- ends of the node ---


def test_a_node_that_sagemaker_stops_saves_its_jobs(agent: NodeProcess, account: Account) -> None:
    agent.start()
    pids = started(agent, account, "stopped")
    agent.process.send_signal(signal.SIGTERM)
    assert agent.wait() == 0
    all_gone(account, pids)
    report = agent.report()
    assert report is not None
    (ended,) = report.attempts
    assert report.state is NodePhase.LEAVING
    assert (ended.state, ended.why) == (AttemptPhase.STOPPED, EndReason.NODE)
    assert account.read("checkpoints/stopped/state") == b"saved"


def test_a_node_leaves_when_it_is_told_so(agent: NodeProcess, account: Account) -> None:
    agent.start()
    pids = started(agent, account, "leaver")
    agent.order(*agent.orders.attempts, leave=True)
    assert agent.wait() == 0
    all_gone(account, pids)
    report = agent.report()
    assert report is not None
    assert [(one.state, one.why) for one in report.attempts] == [("stopped", "order")]


def worker_of(agent: NodeProcess) -> int:
    children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children")
    return int(children.read_text().split()[0])


@pytest.mark.parametrize("which", ["supervisor", "worker"])
def test_nothing_runs_on_when_the_agent_is_killed(
    agent: NodeProcess, account: Account, which: str
) -> None:
    agent.start()
    pids = started(agent, account, f"killed-{which}")
    worker = worker_of(agent)
    os.kill(worker if which == "worker" else agent.process.pid, signal.SIGKILL)
    assert agent.wait() == (70 if which == "worker" else -signal.SIGKILL)
    all_gone(account, [*pids, worker])


def test_a_frozen_worker_loses_its_lease_and_its_jobs(agent: NodeProcess, account: Account) -> None:
    """The supervisor keeps the lease: no thread of the worker need run for it."""
    agent.start(SLOTQ_NODE_LEASE="8")
    agent.order(attempt(account, "frozen", WAITS), lease_s=8)
    account.until(lambda: len(account.said("frozen")) == 2, "two lines")
    pids = [int(line.split()[-1]) for line in account.said("frozen")]
    worker = worker_of(agent)
    os.kill(worker, signal.SIGSTOP)
    all_gone(account, pids)
    os.kill(worker, signal.SIGCONT)
    ended = agent.until_attempt("frozen")
    assert (ended.state, ended.why) == (AttemptPhase.STOPPED, EndReason.LEASE)


# --- orders ---


def test_orders_that_go_back_are_ignored(shared: NodeProcess, account: Account) -> None:
    pids = started(shared, account, "steady")
    document = json.loads(account.read(f"{shared.prefix}orders.json"))
    for change in (
        {"number": 0, "attempts": []},
        {"generation": 2, "number": 9, "attempts": []},
        {"node": "other", "number": 9, "attempts": []},
    ):
        shared.put_orders(json.dumps({**document, **change}).encode())
    shared.put_orders(json.dumps({**document, "version": 2, "number": 9, "attempts": []}).encode())
    shared.until_report(lambda report: "version 2" in " ".join(report.problems), "a problem")
    assert not any(gone(pid) for pid in pids)
    shared.order(*shared.orders.attempts)
    shared.until_report(lambda report: report.orders == shared.orders.number, "the next orders")
    report = shared.report()
    assert report is not None
    assert report.problems == ()
    assert not any(gone(pid) for pid in pids)


# --- who the agent is ---


def test_an_agent_without_rights_runs_one_persons_jobs(
    agent: NodeProcess, account: Account
) -> None:
    agent.start(user=NOBODY if os.geteuid() == 0 else None)
    assert agent.until_ready().uids is False
    literal = f"open({str(agent.base / 'model/w')!r}, 'w')"
    waits = attempt(account, "unprivileged", WAITS, grace_s=0)
    agent.order(waits, attempt(account, "names-it", literal))
    account.until(lambda: len(account.said("unprivileged")) == 2, "two lines")
    pids = [int(line.split()[-1]) for line in account.said("unprivileged")]
    failure = agent.until_attempt("names-it").failure
    assert "use SM_CHECKPOINT_DIR" in failure
    assert "slotq:literal-paths" not in failure, "the tag does not help here"
    agent.order(waits, attempt(account, "may-name-it", literal, literal_paths=True))
    refused = agent.until_attempt("may-name-it")
    assert (refused.state, refused.began_ms) == (AttemptPhase.FAILED, None)
    assert "literal paths need a node on which each job has a user of its own" in refused.failure
    assert list((agent.base / "model").iterdir()) == []
    agent.order(waits, attempt(account, "names-it-later", literal))
    assert "use SM_CHECKPOINT_DIR" in agent.until_attempt("names-it-later").failure
    agent.order()
    assert agent.until_attempt("unprivileged").state is AttemptPhase.STOPPED
    all_gone(account, pids)
    assert account.read("checkpoints/unprivileged/state") == b"saved"


@ROOT_ONLY
def test_the_agent_needs_no_more_than_a_container_gives(
    agent: NodeProcess, account: Account
) -> None:
    """It has neither CAP_SYS_ADMIN nor CAP_SYS_PTRACE."""
    agent.start(*DOCKERS_RIGHTS)
    assert agent.until_ready().uids is True
    eats = "import time; held = bytearray(300 << 20); time.sleep(1000)"
    agent.order(
        attempt(account, "contained", WAITS, grace_s=0),
        attempt(account, "large", eats, memory_mib=100),
    )
    account.until(lambda: len(account.said("contained")) == 2, "two lines")
    pids = [int(line.split()[-1]) for line in account.said("contained")]
    assert agent.until_attempt("large").why is EndReason.MEMORY
    agent.order()
    agent.until_attempt("contained")
    all_gone(account, pids)


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="makes a container's processes"
)
def test_the_agent_is_the_first_process_of_a_container(
    agent: NodeProcess, account: Account
) -> None:
    """Each job is killed at one stroke, by its user; that of the search for metrics stays."""
    inside = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *DOCKERS_RIGHTS)
    agent.start(*inside)
    agent.until_ready()
    definitions = [{"Name": "pid", "Regex": r"script (\d+)"}]
    changes = {"AlgorithmSpecification": {"MetricDefinitions": definitions}}
    waits = attempt(account, "inside", WAITS, grace_s=0, changes=changes)
    agent.order(waits, attempt(account, "inside-2", WAITS, grace_s=0))
    account.until(lambda: len(account.said("inside-2")) == 2, "two lines")
    account.until(lambda: len(account.said("inside")) == 2, "two lines")
    users = {line: user for line in ("inside", "inside-2") for user in [user_of(agent, line)]}
    agent.order(waits)
    agent.until_attempt("inside-2")
    assert processes_of(users["inside-2"]) == 0
    assert processes_of(users["inside"]) == 2
    agent.order()
    ended = agent.until_attempt("inside")
    assert ended.metrics["pid"] > 1
    assert processes_of(users["inside"]) == 0


def user_of(agent: NodeProcess, attempt: str) -> int:
    return (agent.work / "jobs" / attempt).stat().st_uid


def processes_of(user: int) -> int:
    """How many live processes a user has on this machine, in any container."""
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found += folder.stat().st_uid == user and not gone(int(folder.name))
        except FileNotFoundError:
            continue
    return found


SPY = """
import json, os, signal, sys
job, supervisor, worker, keeper = sys.argv[1:]
def tried(what, do):
    try:
        print(what, "works", do(), flush=True)
    except (OSError, PermissionError) as error:
        print(what, "fails", flush=True)
read = lambda path: open(path, "rb").read(10_000_000)
pids = {"supervisor": supervisor, "worker": worker, "neighbour": job, "keeper": keeper}
for name, pid in pids.items():
    tried(f"environment of {name}", lambda: read(f"/proc/{pid}/environ")[:50])
    tried(f"memory of {name}", lambda: read(f"/proc/{pid}/mem")[:50])
    tried(f"signal to {name}", lambda: os.kill(int(pid), signal.SIGTERM))
work = os.path.dirname(os.path.dirname(os.environ["HOME"]))
tried("list of jobs", lambda: os.listdir(work))
tried("neighbour's folder", lambda: os.listdir(f"{work}/spied-on"))
tried("agent's folder", lambda: os.listdir(f"{work}/../agent"))
tried("inputs", lambda: os.listdir(f"{work}/../inputs"))
tried("root", lambda: os.setuid(0))
leaked = [name for name, value in os.environ.items() if "%s" in value]
print("leaked", leaked, flush=True)
"""


@ROOT_ONLY
def test_a_job_neither_sees_nor_stops_its_neighbours_nor_the_agent(
    shared: NodeProcess, account: Account
) -> None:
    pids = started(shared, account, "spied-on")
    keepers: list[int] = []

    def has_keeper(report: NodeReport) -> bool:
        keepers[:] = [one.pid for one in report.attempts if one.attempt == "spied-on" and one.pid]
        return bool(keepers)

    shared.until_report(has_keeper, "a pid")
    words = (pids[-1], shared.process.pid, worker_of(shared), *keepers)
    spy = attempt(account, "spy", SPY % TOKEN, arguments=tuple(str(word) for word in words))
    shared.order(*shared.orders.attempts, spy)
    ended = shared.until_attempt("spy")
    assert ended.state is AttemptPhase.COMPLETED, ended
    said = account.said("spy")
    assert said[-1] == "leaked []"
    assert len(said) == 18
    assert [line for line in said[:-1] if not line.endswith("fails")] == []
    for pid in (shared.process.pid, worker_of(shared)):
        assert TOKEN.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        assert TOKEN.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_an_agents_memory_is_closed_to_jobs_of_its_own_user(
    agent: NodeProcess, account: Account
) -> None:
    agent.start(user=NOBODY if os.geteuid() == 0 else None)
    agent.until_ready()
    source = """
import sys
for pid in sys.argv[1:]:
    for name in ("environ", "mem", "maps"):
        try:
            open(f"/proc/{pid}/{name}", "rb").read(10)
            print(name, "works")
        except OSError:
            pass
print("done")
"""
    pids = (str(agent.process.pid), str(worker_of(agent)))
    agent.order(attempt(account, "curious", source, arguments=pids))
    agent.until_attempt("curious")
    assert account.said("curious") == ["done"]


FORGES = """
import os, sys, boto3
boto3.client("s3").put_object(Bucket=sys.argv[1], Key=sys.argv[2], Body=sys.argv[3].encode())
print("forged")
"""


def test_a_report_that_a_job_forges_has_no_proof(shared: NodeProcess, account: Account) -> None:
    report = shared.until_ready()
    forged = written_report(report, "a guess").decode()
    words = (account.bucket, f"{shared.prefix}forged.json", forged)
    shared.order(attempt(account, "forger", FORGES, arguments=words))
    assert shared.until_attempt("forger").state is AttemptPhase.COMPLETED
    content = account.read(f"{shared.prefix}forged.json")
    with pytest.raises(Unproven):
        read_report(content, token=TOKEN, node=shared.name, generation=1)


@ROOT_ONLY
def test_a_job_that_forks_without_end_stops_at_its_limit(
    agent: NodeProcess, account: Account
) -> None:
    source = """
import os, time
count = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(1000)
        count += 1
    except BlockingIOError:
        print("limit", count, flush=True)
        break
time.sleep(1000)
"""
    agent.start(*DOCKERS_RIGHTS, SLOTQ_NODE_PROCESSES="40")
    agent.until_ready()
    agent.order(attempt(account, "forks", source, grace_s=0), attempt(account, "calm", "print(1)"))
    account.wait_for_line("forks", "limit 39")
    assert agent.until_attempt("calm").state is AttemptPhase.COMPLETED
    agent.order()
    assert agent.until_attempt("forks").state is AttemptPhase.STOPPED


def test_an_expression_without_end_stops_neither_the_job_nor_the_node(
    shared: NodeProcess, account: Account
) -> None:
    definitions = [{"Name": "endless", "Regex": "(a+)+$"}]
    changes = {"AlgorithmSpecification": {"MetricDefinitions": definitions}}
    shared.until_ready()
    source = "print('a' * 40 + 'b'); print('over')"
    shared.order(attempt(account, "endless-search", source, changes=changes))
    assert shared.until_attempt("endless-search").state is AttemptPhase.COMPLETED
    assert account.said("endless-search")[-1] == "over"


def test_a_job_that_prints_without_end_ends_when_it_is_told(
    shared: NodeProcess, account: Account
) -> None:
    shared.until_ready()
    source = "import sys\nwhile True: sys.stdout.write('x' * 100_000)"
    shared.order(attempt(account, "flood", source, grace_s=0))
    account.until(lambda: account.said("flood"), "a line")
    shared.order(attempt(account, "beside", "print(1)"))
    assert shared.until_attempt("beside").state is AttemptPhase.COMPLETED
    shared.until_report(
        lambda report: all(one.state.ended for one in report.attempts), "the end of the flood"
    )


def test_a_job_that_nests_folders_without_end_ends_alone(
    shared: NodeProcess, account: Account
) -> None:
    source = """
import os, time
os.chdir(os.environ["SM_CHECKPOINT_DIR"])
for _ in range(1_500):
    os.mkdir("d")
    os.chdir("d")
print("nested", flush=True)
time.sleep(1)
"""
    shared.until_ready()
    beside = attempt(account, "beside-nests", "import time; print(1, flush=True); time.sleep(1000)")
    nests = attempt(account, "nests", source)
    shared.order(nests, beside)
    assert shared.until_attempt("nests").state is AttemptPhase.COMPLETED
    assert shared.until_attempt("beside-nests", "running").exit is None
    account.until(lambda: not (shared.work / "jobs/nests").exists(), "nothing to be left")


# --- what an image brings ---


def test_an_image_with_the_toolkit_runs_its_train(agent: NodeProcess, account: Account) -> None:
    bin_folder = agent.folder / "bin"
    bin_folder.mkdir()
    train = bin_folder / "train"
    train.write_text("#!/bin/sh\necho train $SAGEMAKER_BASE_DIR; cat input/config/hyper*\n")
    train.chmod(0o755)
    bin_folder.chmod(0o755)
    agent.start(PATH=f"{bin_folder}:/usr/bin:/bin")
    agent.until_ready()
    changes = {
        "AlgorithmSpecification": {"ContainerEntrypoint": None},
        "HyperParameters": {"sagemaker_program": "train.py"},
    }
    agent.order(attempt(account, "toolkit", "", changes=changes))
    assert agent.until_attempt("toolkit").state is AttemptPhase.COMPLETED
    assert account.said("toolkit") == [
        f"train {agent.work}/jobs/toolkit/ml",
        '{"sagemaker_program": "train.py"}',
    ]


# --- ways to the queue ---


def test_news_of_a_report_go_to_the_route_signed_and_without_the_report(
    agent: NodeProcess, account: Account
) -> None:
    with serving() as web:
        agent.start(SLOTQ_NODE_ROUTE=f"{web.url}/prod/nodes/p5/n1/report")
        agent.until_ready()
        account.until(lambda: web.got, "a request")
        web.status = 503
        agent.order(attempt(account, "routed", "print(1)"))
        assert agent.until_attempt("routed").state is AttemptPhase.COMPLETED
        report = agent.until_report(lambda report: report.problems, "a problem")
    assert report.problems == ("the route answers 503",)
    assert web.got[0].path == "/prod/nodes/p5/n1/report"
    assert "/execute-api/aws4_request" in web.got[0].headers["Authorization"]
    assert {one.body for one in web.got} == {b"{}"}


def test_lines_come_with_the_attempts_name_where_the_logs_cannot_be_reached(
    agent: NodeProcess, account: Account
) -> None:
    agent.start(AWS_ENDPOINT_URL_CLOUDWATCH_LOGS="http://127.0.0.1:9")
    agent.until_ready()
    agent.order(attempt(account, "unlogged", "print('one'); print('two')"))
    agent.until_attempt("unlogged")
    lines = [line for line in agent.log.read_text().splitlines() if line.startswith("[")]
    assert lines == ["[unlogged] one", "[unlogged] two"]


def test_the_entry_point_fetches_the_agent_and_checks_it(
    agent: NodeProcess, account: Account
) -> None:
    words = nodes.entrypoint(account.bucket)
    environment = {**account.variables, "PYTHONPATH": str(PACKAGES), "PATH": "/usr/bin:/bin"}
    account.s3.put_object(Bucket=account.bucket, Key=nodes.agent_key(), Body=b"print('another')")
    ran = subprocess.run(
        [python(), *words[1:]], env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", "agent\n")
    account.s3.put_object(Bucket=account.bucket, Key=nodes.agent_key(), Body=nodes.agent_source())
    agent.command = (python(), *words[1:])
    agent.start()
    agent.until_ready()
    agent.order(attempt(account, "booted", "print(1)"))
    assert agent.until_attempt("booted").state is AttemptPhase.COMPLETED
    assert AGENT.read_bytes() == nodes.agent_source()

"""The agent's parts, each by itself: no process, no AWS, no time that passes."""

from __future__ import annotations

import ast
import errno
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from slotq_core.adapters import nodes
from slotq_core.wire.nodes.documents import Orders, written_orders
from tests.unit.nodes.agent import FakeClock, Refusal, agent, finished_node, make_node

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="files of several users")


def orders(**changes: Any) -> bytes:
    document = {
        "version": 1,
        "node": "node",
        "generation": 2,
        "number": 5,
        "lease_s": 60,
        "leave": False,
        "attempts": [{"attempt": "job-1", "job": "job", "number": 1, "newer": {}}],
        "newer": 1,
    }
    return json.dumps({**document, **changes}).encode()


# --- the file ---


def test_the_agents_file_runs_on_old_pythons_and_imports_nothing_of_ours() -> None:
    source = nodes.agent_source().decode()
    tree = ast.parse(source, feature_version=(3, 8))
    imported = {
        name.split(".")[0]
        for part in ast.walk(tree)
        for name in (
            [part.module or ""]
            if isinstance(part, ast.ImportFrom)
            else [alias.name for alias in part.names]
            if isinstance(part, ast.Import)
            else []
        )
    }
    assert imported - set(sys.stdlib_module_names) == {"boto3", "botocore"}


def test_the_entry_point_fits_sagemakers_words() -> None:
    words = nodes.entrypoint("bucket")
    assert max(len(word) for word in words) <= nodes.LONGEST_WORD
    assert words[-1] == f"nodes/agents/{nodes.agent_hash()}.py"
    compile(nodes.BOOTSTRAP, "bootstrap", "exec")


# --- orders ---


def test_orders_with_newer_fields_are_read() -> None:
    found = agent.read_orders(orders(), "node", 2, 4)
    assert [order.attempt for order in found.attempts] == ["job-1"]
    assert found.attempts[0].grace == 5.0


@pytest.mark.parametrize(
    "changes", [{"number": 4}, {"number": 3}, {"generation": 1}, {"node": "other"}]
)
def test_orders_that_are_old_or_anothers_change_nothing(changes: dict[str, Any]) -> None:
    assert agent.read_orders(orders(**changes), "node", 2, 4) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        orders(version=2),
        orders(version=2, number=1),
        orders(number=None),
        orders(lease_s="x"),
        orders(attempts=None),
        orders(attempts=[{}]),
        orders(attempts=[{"attempt": "../x", "job": "j", "number": 1}]),
        orders(attempts=[{"attempt": "a", "job": "j", "number": 1, "gpus": 3}]),
        orders(attempts=[{"attempt": "a", "job": "j", "number": 1}] * 2),
        b" " * (agent.LARGEST_ORDERS + 1),
    ],
)
def test_orders_that_cannot_be_read_are_a_problem_and_change_nothing(
    content: bytes, tmp_path: Path
) -> None:
    node = make_node(tmp_path)
    node.obey(content)
    document = node.document()
    assert len(document["problems"]) == 1
    assert (document["orders"], document["attempts"]) == (0, [])
    node.obey(written_orders(Orders(node="node", generation=2, number=1, lease_s=60)))
    assert node.document()["problems"] == []


def test_unchanged_orders_are_not_read_twice(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    node.read_orders()
    assert node.document()["problems"] == []
    node.aws.orders = written_orders(Orders(node="node", generation=2, number=1, lease_s=60))
    node.read_orders()
    node.read_orders()
    assert node.aws.reads[-1]["IfNoneMatch"]
    assert (node.document()["orders"], node.document()["problems"]) == (1, [])


def test_an_error_of_s3_changes_nothing_and_is_reported(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    node.aws.refuses_with = Refusal("AccessDenied", 403)
    node.read_orders()
    assert node.document()["problems"] == ["orders cannot be read: AccessDenied"]
    node.aws.refuses_with = None
    node.read_orders()
    assert node.document()["problems"] == []


# --- the lease ---


def test_a_report_renews_the_lease_from_before_its_request(tmp_path: Path) -> None:
    node = make_node(tmp_path, SLOTQ_NODE_LEASE="60")

    def slow(**_: Any) -> None:
        node.clock.now += 20

    node.aws.put_object = slow
    assert node.report()
    assert node.link.told == [("lease", {"until": 1060.0})]


def test_a_report_that_nobody_takes_renews_nothing(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    node.aws.refuses_with = Refusal("SlowDown", 503)
    assert not node.report()
    assert node.link.told == []


ROUTE = "https://queue/prod/nodes/p5/node/report"


@pytest.mark.parametrize("answer", [200, 403, OSError("no route")], ids=str)
def test_s3_alone_renews_the_lease(tmp_path: Path, answer: Any) -> None:
    node = make_node(tmp_path, SLOTQ_NODE_ROUTE=ROUTE)
    node.aws.answer = answer
    assert node.report()
    assert node.aws.posted == [(ROUTE, b"{}")]
    assert len(node.link.told) == 1
    node.changed()
    node.aws.refuses_with = Refusal("SlowDown", 503)
    assert not node.report()
    assert len(node.aws.posted) == len(node.link.told) == 1


def test_the_route_is_called_for_news_alone(tmp_path: Path) -> None:
    node = make_node(tmp_path, SLOTQ_NODE_ROUTE=ROUTE)
    for _ in range(3):
        assert node.report()
    assert len(node.aws.posted) == 1
    node.changed()
    for _ in range(3):
        assert node.report()
    assert len(node.aws.posted) == 2


def test_a_route_that_never_answers_makes_no_news_each_time(tmp_path: Path) -> None:
    node = make_node(tmp_path, SLOTQ_NODE_ROUTE=ROUTE)
    for n in range(3):
        node.aws.answer = OSError(f"no route at 0x{n}")
        node.report()
    node.report()
    assert (node._moves, len(node.aws.posted)) == (1, 2)
    assert node.document()["problems"] == ["the route does not answer: no route at 0x1"]


def test_an_attempt_that_has_ended_is_reported_until_no_orders_list_it(tmp_path: Path) -> None:
    node = finished_node(tmp_path)
    node.obey(orders(attempts=[{"attempt": "job-1", "job": "job", "number": 1}]))
    assert [one["attempt"] for one in node.document()["attempts"]] == ["job-1"]
    node.obey(orders(number=6, attempts=[]))
    assert node.document()["attempts"] == []
    node.obey(orders(number=7, attempts=[{"attempt": "job-1", "job": "job", "number": 1}]))
    assert node.document()["attempts"] == []
    assert "it does not run again" in node.document()["problems"][-1]


class Kernel:
    """What the supervisor does, and what it says."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.said: list[dict[str, Any]] = []
        self.killed: list[tuple[int, int]] = []
        self.supervisor = agent.Supervisor(
            self.said.append,
            launch=lambda message, _: agent.Kept(message["name"], 100 + len(self.said), 9),
            kill=lambda pid, number: self.killed.append((pid, number)),
            clock=self.clock,
        )

    def tell(self, word: str, **details: Any) -> None:
        self.supervisor.obey({"do": word, **details}, ())


def test_no_job_starts_without_a_lease() -> None:
    kernel = Kernel()
    kernel.tell("start", name="a")
    kernel.tell("lease", until=1060.0)
    kernel.clock.now = 1060.0
    kernel.tell("start", name="b")
    assert [(one["is"], one["name"]) for one in kernel.said] == [("refused", "a"), ("refused", "b")]


def test_when_the_lease_is_over_every_job_is_killed_once_and_says_why() -> None:
    kernel = Kernel()
    kernel.tell("lease", until=1060.0)
    kernel.tell("start", name="a")
    kernel.tell("start", name="b")
    assert kernel.supervisor.check() == 60.0
    kernel.clock.now = 1059.9
    kernel.supervisor.check()
    assert kernel.killed == []
    kernel.clock.now = 1060.0
    kernel.supervisor.check()
    kernel.supervisor.check()
    assert kernel.killed == [(100, signal.SIGTERM), (101, signal.SIGTERM)]
    assert kernel.supervisor.reaped(100, lambda _: {"code": -9})
    ended = {"is": "ended", "name": "a", "lease": True, "code": -9, "error": "", "memory": None}
    assert kernel.said[-1] == ended
    assert not kernel.supervisor.reaped(100, lambda _: {})


def test_an_error_in_a_thread_ends_the_worker() -> None:
    """The supervisor then ends all jobs: tests/functional/local/test_node_ends.py."""
    program = """
import runpy, sys, time
runpy.run_path(sys.argv[1])["crew"](lambda: 1 / 0)
time.sleep(600)
"""
    command = [sys.executable, "-c", program, agent.__file__]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == agent.CRASHED
    assert "ZeroDivisionError" in ran.stderr


# --- ends ---


@pytest.mark.parametrize(
    ("code", "failure", "asked", "state"),
    [
        (0, "", False, "completed"),
        (0, "slotq-released", True, "completed"),
        (75, "slotq-released", False, "released"),
        (1, 'ExecuteUserScriptError:\nErrorMessage "slotq-released"', True, "released"),
        (75, "", False, "failed"),
        (1, "not-slotq-released-x", False, "released"),
        (-9, "", True, "stopped"),
        (143, "", True, "stopped"),
        (1, "ExecuteUserScriptError:\nExitCode -15\n", True, "stopped"),
        (-9, "", False, "failed"),
        (1, "", True, "failed"),
        (None, "", True, "stopped"),
        (None, "", False, "failed"),
    ],
)
def test_how_an_attempt_has_ended(code: Any, failure: str, asked: bool, state: str) -> None:
    assert agent.verdict(code, failure, asked=asked) == state


def test_a_failure_reason_is_as_long_as_sagemakers() -> None:
    text = agent.reason(-9, "é\ud800" * 1000)
    assert len(text) == 1024
    assert text.endswith(", exit code: 137")
    text.encode()


# --- files ---


@pytest.fixture
def tree(tmp_path: Path) -> Any:
    (tmp_path / "jobs/a/ml/model/deep").mkdir(parents=True)
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "outside").chmod(0o600)
    return agent.Tree(tmp_path / "jobs", tmp_path / "jobs/a", None)


def test_only_a_jobs_own_files_are_listed_and_read(tree: Any, tmp_path: Path) -> None:
    model = tmp_path / "jobs/a/ml/model"
    (model / "deep/w").write_text("w")
    (model / "link").symlink_to("deep/w")
    (model / "stolen").symlink_to(tmp_path / "outside")
    (model / "loop").symlink_to("loop")
    (model / "folder").symlink_to("deep")
    os.mkfifo(model / "pipe")
    assert [name for name, _ in tree.files(model)] == ["deep/w", "link"]
    assert tree.read(model / "link", 10) == b"w"
    assert tree.read(model / "stolen", 10) == b""
    assert tree.read(model / "pipe", 10) == b""


def test_a_folder_that_became_a_link_is_not_followed(tree: Any, tmp_path: Path) -> None:
    model = tmp_path / "jobs/a/ml/model"
    (model / "deep").rmdir()
    (model / "deep").symlink_to(tmp_path)
    with pytest.raises(OSError, match=r"symbolic|directory"):
        tree.write(model / "deep/new", b"x")
    assert not (tmp_path / "new").exists()
    tree.write(model / "made/here/new", b"x")
    assert (model / "made/here/new").read_bytes() == b"x"


@ROOT_ONLY
def test_a_hard_link_to_anothers_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "jobs/a").mkdir(parents=True)
    (tmp_path / "secret").write_text("s")
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "jobs/a/mine").hardlink_to(tmp_path / "secret")
    tree = agent.Tree(tmp_path / "jobs", tmp_path / "jobs/a", 20_000)
    assert tree.read(tmp_path / "jobs/a/mine", 10) == b""
    (tmp_path / "secret").chmod(0o644)
    assert tree.read(tmp_path / "jobs/a/mine", 10) == b"s"


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", "a\0b"])
def test_a_name_that_leaves_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(agent.JobFault):
        agent.inside(tmp_path, name)


def test_a_name_stays_in_its_folder(tmp_path: Path) -> None:
    assert agent.inside(tmp_path, "/a//b/../c") == tmp_path / "a/c"


def test_links_in_a_packed_source_become_copies(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo("real.py")
        entry.size = 2
        tar.addfile(entry, io.BytesIO(b"ok"))
        for name, target in (("link.py", "real.py"), ("out.py", "/etc/passwd"), ("no.py", "gone")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
    packed.seek(0)
    agent.unpack_code(packed, tmp_path / "code", None)
    assert {path.name: path.read_bytes() for path in (tmp_path / "code").iterdir()} == {
        "real.py": b"ok",
        "link.py": b"ok",
    }


@pytest.mark.parametrize(
    ("key", "prefix", "name"),
    [
        ("data/a/b", "data", "a/b"),
        ("data/a/b", "data/", "a/b"),
        ("data/a", "data/a", "a"),
        ("data-2/a", "data", "data-2/a"),
        ("x", "", "x"),
    ],
)
def test_where_an_object_of_a_channel_goes(key: str, prefix: str, name: str) -> None:
    assert agent._relative(key, prefix) == name


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("/opt/ml", "HERE"),
        ("/opt/ml/model", "HERE/model"),
        ("file:///opt/ml/x --out=/opt/ml/y:/opt/ml", "file://HERE/x --out=HERE/y:HERE"),
        ("open('/opt/ml/a')", "open('HERE/a')"),
        ("/opt/mlx /opt/ml-2 /mnt/opt/ml s3://bucket/opt/ml", None),
    ],
)
def test_where_a_text_names_the_folder_of_sagemaker(text: str, becomes: str | None) -> None:
    assert agent.OPT_ML.sub("HERE", text) == (becomes or text)


# --- the node ---


def test_gpus_are_found_listed_or_pretended() -> None:
    assert [gpu.name for gpu in agent.find_gpus("pretend:3")] == ["0", "1", "2"]
    assert [gpu.name for gpu in agent.find_gpus("GPU-a, GPU-b")] == ["GPU-a", "GPU-b"]
    found = agent.gpus_in("0, 81559\n1, [N/A]\nNo devices\n")
    assert [(gpu.index, gpu.name, gpu.memory_mib) for gpu in found] == [
        (0, "0", 81559),
        (1, "1", None),
    ]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("PermissionError: [Errno 13] Permission denied: '/opt/ml/checkpoints/x'", True),
        ("sh: 1: cannot create /opt/ml/x: Permission denied", True),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/input/x'", True),
        ("Permission denied: '/opt/mlx'", False),
        ("Permission denied: '/opt/ml/node/jobs/one/ml/x'", False),  # The job's own.
        ("/opt/ml\nPermission denied: '/x'", False),
        ("all is well below /opt/ml", False),
    ],
)
def test_what_shows_that_a_script_names_the_nodes_folder(
    tmp_path: Path, text: str, named: bool
) -> None:
    machine = make_node(tmp_path).machine
    machine._work = Path("/opt/ml/node")
    assert machine.names_base(text) is named


@pytest.mark.parametrize(("has_uids", "left"), [(True, 0o755), (False, 0o555)])
def test_the_nodes_folder_is_closed_to_jobs(tmp_path: Path, *, has_uids: bool, left: int) -> None:
    (tmp_path / "ml/model").mkdir(parents=True)
    (tmp_path / "ml/model").chmod(0o777)
    assert agent.lock_base(tmp_path / "ml", has_uids=has_uids) == ""
    assert (tmp_path / "ml/model").stat().st_mode & 0o777 == left
    assert agent.lock_base(tmp_path / "absent", has_uids=has_uids) == ""


def test_a_report_that_is_too_large_loses_what_is_long(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    for n in range(60):
        order = agent.Order({"attempt": f"job-{n}", "job": "job", "number": 1})
        node._jobs[order.attempt] = job = agent.Job(order, node)
        job.failure, job.metrics = "ä" * 1024, {"ä" * 250 + str(m): 1.0 for m in range(40)}
    assert node.report()
    assert len(node.aws.reports[-1]) <= agent.LARGEST_REPORT


def test_no_two_jobs_have_one_user(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    if not node.machine.has_uids:
        assert node.machine.new_uid() is None
        return
    first = node.settings.first_uid
    assert [node.machine.new_uid() for _ in range(3)] == [first, first + 2, first + 4]


# --- logs ---


class FakeLogs:
    def __init__(self, *faults: Exception) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        self.faults = list(faults)
        self.refuses: Exception | None = None

    def create_log_group(self, **_: Any) -> None:
        raise Refusal("AccessDeniedException")

    def create_log_stream(self, **_: Any) -> None:
        if self.refuses:
            raise self.refuses

    def put_log_events(self, *, logEvents: list[dict[str, Any]], **_: Any) -> None:  # noqa: N803
        if self.faults:
            raise self.faults.pop()
        self.batches.append(logEvents)


def logged(logs: Any, *lines: bytes, now: Any = lambda: 5.0) -> None:
    stream = agent.LogStream(logs, "job-1", "algo-1", now=now)
    for line in lines:
        stream.line(line)
    stream._is_closed = True
    stream.run()


def test_batches_are_as_large_as_the_service_takes_and_in_order() -> None:
    logs = FakeLogs()
    logged(logs, *(b"%d" % n for n in range(10_001)))
    assert [len(batch) for batch in logs.batches] == [10_000, 1]
    assert [event["message"] for event in logs.batches[1]] == ["10000"]
    logs = FakeLogs()
    logged(logs, *[b"x" * 262_000] * 9)
    assert [len(batch) for batch in logs.batches] == [4, 4, 1]


def test_a_clock_that_goes_back_does_not_turn_the_lines_around() -> None:
    logs, times = FakeLogs(), iter([9.0, 5.0, 4.0, 6.0])
    logged(logs, b"a", b"b", b"", now=lambda: next(times))
    assert [(e["timestamp"], e["message"]) for e in logs.batches[0]] == [
        (5000, "a"),
        (5000, "b"),
        (6000, " "),
    ]


def test_lines_go_to_the_nodes_output_where_there_is_no_way_to_the_logs(capsys) -> None:
    logs = FakeLogs()
    logs.refuses = Refusal("AccessDeniedException")
    logged(logs, b"one", b"two")
    assert capsys.readouterr().out.splitlines()[-2:] == ["[job-1] one", "[job-1] two"]
    logged(None, b"three")
    assert capsys.readouterr().out == "[job-1] three\n"


def test_no_job_writes_a_line_of_another_one(capsys) -> None:
    """The log of the node breaks lines that are longer than an event, and maybe at other signs."""
    forged = b"[job-2] it has failed"
    output = (
        b"x" * (256 * 1024 - 26 - len("[job-1] ")) + forged + b"\n20%\r" + forged + b"\x0b" + forged
    )
    logged(None, *agent.lines_of(io.BytesIO(output)))
    printed = capsys.readouterr().out
    assert all(line.startswith("[job-1] ") for line in printed.splitlines())
    assert all(len(line) <= 256 * 1024 - 26 for line in printed.split("\n"))


def test_what_is_no_text_fits_an_event() -> None:
    """CloudWatch Logs refuses the whole batch of an event above 256 KiB."""
    logs = FakeLogs()
    logged(logs, *agent.lines_of(io.BytesIO(b"\xff" * 300_000)))
    messages = [event["message"].encode() for batch in logs.batches for event in batch]
    assert sum(map(len, messages)) == 900_000
    assert all(len(message) <= 256 * 1024 - 26 for message in messages)


def test_a_batch_that_failed_is_sent_again() -> None:
    logs = FakeLogs(Refusal("ThrottlingException"))
    logged(logs, b"one")
    assert [event["message"] for event in logs.batches[0]] == ["one"]


# --- inputs and checkpoints ---


class FakeStorage(agent.Storage):
    """S3 in memory: an object's ETag is its content."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.refuses = False

    def objects(self, uri: str) -> list[tuple[str, str, int]]:
        prefix = self.split(uri)[1]
        return [
            (key, content.decode(), len(content))
            for key, content in sorted(self.contents.items())
            if key.startswith(prefix)
        ]

    def fetch(self, bucket: str, key: str, path: Path) -> None:
        self.fetched.append(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.contents[key])

    def put(self, file: Any, uri: str, key_id: str = "") -> None:
        if self.refuses:
            raise agent.JobFault("refused")
        self.contents[self.split(uri)[1]] = file.read()


def channel(prefix: str) -> dict[str, Any]:
    source = {"S3DataSource": {"S3Uri": f"s3://bucket/{prefix}"}}
    return {"ChannelName": "train", "DataSource": source}


def test_a_channel_is_fetched_again_only_when_its_objects_have_changed(tmp_path: Path) -> None:
    storage = FakeStorage()
    storage.contents = {"data/a": b"1", "data/deep/b": b"2"}
    (tmp_path / "inputs").mkdir()
    inputs = agent.Inputs(storage, tmp_path / "inputs")
    for n in range(3):
        inputs.lay(f"job-{n}", channel("data"), tmp_path / f"job-{n}", None)
    assert sorted(storage.fetched) == ["data/a", "data/deep/b"]
    storage.contents["data/a"] = b"3"
    inputs.lay("job-4", channel("data"), tmp_path / "job-4", None)
    assert len(storage.fetched) == 4
    assert (tmp_path / "job-4/train/a").read_bytes() == b"3"
    assert (tmp_path / "job-0/train/a").read_bytes() == b"1"


def test_where_the_disk_is_short_what_no_job_uses_goes_first(tmp_path: Path) -> None:
    storage = FakeStorage()
    storage.contents = {f"data-{n}/a": b"12345" for n in range(4)}
    (tmp_path / "inputs").mkdir()
    inputs = agent.Inputs(storage, tmp_path / "inputs")
    inputs._free = lambda: 10 - 5 * len(list((tmp_path / "inputs").iterdir()))

    def lay(n: int) -> None:
        inputs.lay(f"job-{n}", channel(f"data-{n}"), tmp_path / f"job-{n}", None)

    lay(0)
    lay(1)
    with pytest.raises(agent.JobFault, match="5 bytes are more than the 0 that are free"):
        lay(2)
    inputs.release("job-0")
    lay(3)
    assert (tmp_path / "job-0/train/a").read_bytes() == b"12345"  # Its own link stays.
    assert [key for key in storage.fetched if key == "data-0/a"] == ["data-0/a"]
    inputs.release("job-1")
    lay(0)
    assert storage.fetched.count("data-0/a") == 2


@pytest.fixture
def checkpoints(tree: Any, tmp_path: Path) -> Any:
    folder = tmp_path / "jobs/a/ml/checkpoints"
    folder.mkdir()
    return agent.Checkpoints(FakeStorage(), "s3://bucket/kept/", folder, tree)


def test_a_file_is_uploaded_once_it_rests(checkpoints: Any) -> None:
    file = checkpoints._folder / "state"
    storage = checkpoints._storage
    file.write_bytes(b"1")
    checkpoints.sync()
    assert storage.contents == {}
    checkpoints.sync()
    assert storage.contents == {"kept/state": b"1"}
    file.write_bytes(b"22")
    checkpoints.sync(last=True)
    assert storage.contents == {"kept/state": b"22"}
    del storage.contents["kept/state"]
    checkpoints.sync(last=True)
    assert storage.contents == {}


def test_a_file_that_never_rests_is_uploaded_now_and_then(checkpoints: Any) -> None:
    for n in range(agent._MOST_SKIPPED + 1):
        assert checkpoints._storage.contents == {}
        (checkpoints._folder / "state").write_bytes(b"x" * n)
        checkpoints.sync()
    assert checkpoints._storage.contents


def test_an_upload_that_failed_is_tried_again(checkpoints: Any) -> None:
    (checkpoints._folder / "state").write_bytes(b"1")
    checkpoints._storage.refuses = True
    with pytest.raises(agent.JobFault):
        checkpoints.sync(last=True)
    checkpoints._storage.refuses = False
    checkpoints.sync(last=True)
    assert checkpoints._storage.contents == {"kept/state": b"1"}


def test_what_was_brought_and_what_the_agent_laid_is_not_uploaded(checkpoints: Any) -> None:
    storage = checkpoints._storage
    storage.contents = {"kept/deep/state": b"1", "kept-not/x": b"2"}
    checkpoints.restore()
    checkpoints.begin()
    (checkpoints._folder / "marker").write_bytes(b"m")
    checkpoints.markers.add("marker")
    before = dict(storage.contents)
    checkpoints.sync(last=True)
    assert storage.contents == before
    assert storage.fetched == ["kept/deep/state"]


@pytest.mark.parametrize("place", ["/opt/ml", "/opt/ml/input", "/opt/ml/input/data/x", "/tmp", ""])
def test_checkpoints_have_a_folder_of_their_own(tmp_path: Path, place: str) -> None:
    """Shared input must not become the job's."""
    node = make_node(tmp_path)
    request = {"CheckpointConfig": {"S3Uri": "s3://bucket/kept", "LocalPath": place}}
    order = agent.Order({"attempt": "a", "job": "a", "number": 1, "request": request})
    job = agent.Job(order, node)
    if not place:
        assert job._folder() == tmp_path.resolve() / "work/jobs/a/ml/checkpoints"
        return
    with pytest.raises(agent.JobFault):
        job._folder()


@pytest.mark.parametrize(
    "request_",
    [
        {"CheckpointConfig": "s3"},
        {"InputDataConfig": {}, "Environment": [1]},
        {"HyperParameters": 3},
    ],
)
def test_a_request_of_another_form_is_a_problem(tmp_path: Path, request_: Any) -> None:
    node = make_node(tmp_path)
    attempts = [{"attempt": "a", "job": "a", "number": 1, "request": request_}]
    node.obey(orders(attempts=attempts))
    assert node.document()["problems"] == ["orders number 5 have an unknown form"]


# --- what goes wrong with one job stays with it ---


def nest(folder: Path, levels: int) -> None:
    """Make folders deeper than Python's own walks follow, with a file at the end."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("end", os.O_WRONLY | os.O_CREAT, dir_fd=at))
    os.close(at)


def job_of(node: Any, **request: Any) -> Any:
    order = agent.Order({"attempt": "a", "job": "a", "number": 1, "request": request})
    return agent.Job(order, node)


def test_folders_of_any_depth_are_searched_and_removed(tmp_path: Path) -> None:
    place = job_of(make_node(tmp_path))._place
    place.make()
    nest(place.base / "checkpoints", 1_500)
    found = place.tree.files(place.base / "checkpoints")
    assert [len(name) for name, _ in found] == [len("d/" * 1_500 + "end")]
    place.remove()
    assert not place.root.exists()
    nest(tmp_path, 1_500)
    agent.empty(tmp_path)  # Nor does one that stays end the node.
    agent.remove_tree(tmp_path)


FULL = OSError(errno.ENOSPC, "No space left on device")


def fails(*_: Any, **__: Any) -> None:
    raise FULL


@pytest.mark.parametrize("metrics", [[], [{"Name": "loss", "Regex": "(.*)"}]])
def test_a_start_that_the_node_cannot_carry_out_ends_that_attempt_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metrics: list[Any]
) -> None:
    node = make_node(tmp_path)
    node.link.start = fails
    open_before = len([*Path("/proc/self/fd").iterdir()])
    algorithm = {"ContainerEntrypoint": ["true"], "MetricDefinitions": metrics}
    job = job_of(node, AlgorithmSpecification=algorithm)
    job.run()
    assert (job.state, job.why, job.is_removed) == ("failed", "node", True)
    assert "No space left" in job.failure
    assert len([*Path("/proc/self/fd").iterdir()]) == open_before


def test_a_fault_of_the_agent_after_the_start_kills_that_job_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node(tmp_path)
    process = agent.Process()
    process.begun.set()
    node.link.start = lambda *_: process
    monkeypatch.setattr(node.link, "tell", lambda word, **_: word == "kill" and process.ended.set())
    job = job_of(node, AlgorithmSpecification={"ContainerEntrypoint": ["true"]})
    monkeypatch.setattr(job, "_watch", fails)
    job.run()
    assert process.ended.is_set()
    assert (job.state, job.why) == ("failed", "node")


@pytest.mark.parametrize(("is_full", "why"), [(True, "node"), (False, "")])
def test_a_job_waits_again_where_others_have_filled_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool, why: str
) -> None:
    node = make_node(tmp_path)
    monkeypatch.setattr(node.inputs, "is_full", lambda: is_full)
    job = job_of(node, AlgorithmSpecification={"ContainerEntrypoint": ["true"]})
    monkeypatch.setattr(job._place, "make", fails)
    job.run()
    assert (job.state, job.why) == ("failed", why)


def test_a_job_starts_without_the_variables_that_no_process_can_have(tmp_path: Path) -> None:
    parameters = {"a=b": "1", "long": "x" * 140_000, "half": '"\ud800"', "lr": "2", "": "3"}
    node = make_node(tmp_path)
    job = job_of(node, HyperParameters=parameters)
    around = agent.Surroundings(job.order, job._place, node.settings, gpus=(), cpus=1, instance={})
    variables = around.variables("", tmp_path, {})
    assert variables["SM_HP_LR"] == "2"
    assert not {"SM_HP_A=B", "SM_HP_LONG", "SM_HP_HALF", "SM_HPS"} & variables.keys()
    ran = subprocess.run(["/usr/bin/env"], env=variables, capture_output=True, check=True)
    assert b"SM_HP_LR=2" in ran.stdout


@ROOT_ONLY
def test_no_file_that_a_job_puts_in_the_way_becomes_its_own(
    tree: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shared input, say, of which each job has hard links."""
    others = tmp_path / "others"
    others.write_text("input")
    make = os.mkdir

    def is_too_late(name: str, *mode: int, dir_fd: int) -> None:
        make(name, *mode, dir_fd=dir_fd)
        os.rmdir(name, dir_fd=dir_fd)
        os.link(others, name, dst_dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", is_too_late)
    mine = agent.Tree(tree._top, tree._root, 20_001)
    with pytest.raises(NotADirectoryError):
        mine.write(tmp_path / "jobs/a/ml/made/marker", b"x")
    assert others.stat().st_uid == 0

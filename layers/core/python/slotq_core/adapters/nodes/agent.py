"""The agent of a node: runs the queue's jobs as processes of one SageMaker training container.

One file, Python 3.8 or newer, the standard library and boto3. The core never imports it: it is
shipped as text by its hash (`slotq_core.adapters.nodes`) and started as the container's first
process. `slotq_core.wire.nodes` reads and writes the same documents.

Three kinds of processes:

supervisor  the first process. It starts, ends and reaps processes and enforces the lease. One
            thread, no network, no token. When it or the worker ends, every job ends.
worker      orders, reports, S3, logs, in threads. An unexpected error in a thread ends the node.
keeper      one for each job: all that the job starts, also what daemonises, stays below its
            keeper. A job has ended when nothing is left below.

In reading order:

formats       orders and reports
settings      the node's environment
kernel        what Python's library does not wrap
supervisor    starts, ends, reaps, the lease
keeper        one job's tree of processes
link          the worker's end of the connection to the supervisor
folders       files below a folder that a job may change at any moment
storage       S3
inputs        channels, fetched once for the node
surroundings  the variables and files that a job finds, as SageMaker lays them out
output        log lines, metrics, failures
checkpoints   to S3 and back
job           one attempt, from download to upload
parts         what holds a job to its part of a GPU: MPS, or a cap of its framework
machine       what jobs share: GPUs, CPUs, users
node          orders become jobs, jobs become a report
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import ctypes
import errno
import gzip
import hashlib
import hmac
import json
import math
import os
import pwd
import re
import resource
import select
import shlex
import shutil
import signal
import socket
import stat
import subprocess  # nosec B404
import sys
import tarfile
import threading
import time
import traceback
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterator, Mapping, NoReturn, Sequence

# --- formats ---

VERSION = 1
LARGEST_ORDERS = 16 << 20
LARGEST_REPORT = 1 << 20
MOST_JOBS = 32
MOST_PROBLEMS, LONGEST_PROBLEM, LONGEST_FAILURE, LONGEST_URI = 20, 300, 1024, 2048
RELEASED = re.compile(r"\bslotq-released\b")
"""What a script that gives its GPUs back writes to output/failure, or says last."""
LIVE = frozenset({"fetching", "running", "stopping", "saving"})
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")


def canonical(document: Mapping[str, Any]) -> bytes:
    """Write the document: keys sorted, no spaces, ASCII."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode()


def with_proof(document: Mapping[str, Any], token: str) -> dict[str, Any]:
    """Add `hmac`: HMAC-SHA256 (hex) of the document under the node's token."""
    code = hmac.new(token.encode(), canonical(document), hashlib.sha256).hexdigest()
    return {**document, "hmac": code}


_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("AlgorithmSpecification", "CheckpointConfig", "Environment"), dict),
    **dict.fromkeys(("HyperParameters", "OutputDataConfig", "StoppingCondition"), dict),
    "InputDataConfig": list,
}


class BadOrders(Exception):
    """The orders cannot be read. The message goes into the report as a problem."""


class Order:
    """One attempt that should run here. Fields that are not known are ignored."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Raises KeyError, TypeError and ValueError."""
        self.attempt = str(document["attempt"])
        if not _NAME.fullmatch(self.attempt):
            raise ValueError("no name")
        self.job = str(document["job"])
        self.number = int(document["number"])
        self.gpus = tuple(int(index) for index in document.get("gpus") or ())
        self.gpu_part = _optional(document.get("gpu_part"))
        """Hundredths of its one GPU; None: whole GPUs."""
        if self.gpu_part is not None and not (0 < self.gpu_part < 100 and len(self.gpus) == 1):
            raise ValueError("no part of one GPU")
        self.cpus = _optional(document.get("cpus"))
        self.memory_mib = _optional(document.get("memory_mib"))
        self.grace = max(0.0, float(document.get("grace_s", 5)))
        self.literal = document.get("literal_paths") is True
        suspend = document.get("suspend")
        self.suspend: Mapping[str, Any] | None = suspend if isinstance(suspend, dict) else None
        self.stop = document.get("stop") is True
        self.request: dict[str, Any] = dict(document.get("request") or {})
        for name, kind in _KINDS.items():
            if not isinstance(self.request.get(name) or kind(), kind):
                raise TypeError(name)


class Orders:
    """Everything that should run here now."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.number = int(document["number"])
        self.lease = float(document["lease_s"])
        self.leave = document.get("leave") is True
        self.attempts = [Order(order) for order in document["attempts"]]
        if len({order.attempt for order in self.attempts}) != len(self.attempts):
            raise ValueError("an attempt occurs twice")


def read_orders(content: bytes, node: str, generation: int, last: int) -> Orders | None:
    """Read the orders. Returns None if they change nothing: of another node or generation, or with
    a number not above the last. Raises BadOrders."""
    if len(content) > LARGEST_ORDERS:
        raise BadOrders("the orders are too large")
    try:
        document = json.loads(content)
        version, number = document["version"], int(document["number"])
        others = (document["node"], document["generation"]) != (node, generation)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadOrders("the orders cannot be read") from None
    if others or (number <= last and version == VERSION):
        return None
    if version != VERSION:
        raise BadOrders(f"the orders have version {version!r:.20}: this agent knows 1")
    try:
        return Orders(document)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise BadOrders(f"orders number {number} have an unknown form") from None


def _optional(value: Any) -> int | None:
    return None if value is None else int(value)


def cut(text: str, longest: int) -> str:
    """The text's beginning, without characters that no reader takes."""
    return text[:longest].encode("utf-8", "replace").decode()


# --- settings ---

TOKEN, TOKEN_FD = "SLOTQ_NODE_TOKEN", "SLOTQ_NODE_TOKEN_FD"
_OWN = re.compile(r"SLOTQ_NODE|TRAINING_JOB_")
"""Variables of the node that jobs do not get. Those of the image they do."""


class Settings:
    """The node's settings, from its environment. Times in seconds."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Raises KeyError and ValueError."""
        self.node = environ["SLOTQ_NODE"]
        self.generation = int(environ["SLOTQ_NODE_GENERATION"])
        self.bucket, self.prefix = split(environ["SLOTQ_NODE_FOLDER"].rstrip("/") + "/")
        self.route = environ.get("SLOTQ_NODE_ROUTE", "")
        self.gpus = environ.get("SLOTQ_NODE_GPUS", "")
        self.is_shared = environ.get("SLOTQ_NODE_SHARED") == "1"
        """Whether jobs of several projects run here."""
        self.lease = float(environ.get("SLOTQ_NODE_LEASE") or 180)
        self.base = Path(environ.get("SLOTQ_NODE_BASE") or "/opt/ml").resolve()
        own = "slotq-" + self.node
        self.work = Path(environ.get("SLOTQ_NODE_WORK") or _roomiest(self.base) / own).resolve()
        self.poll = float(environ.get("SLOTQ_NODE_POLL") or 2)
        self.sync = float(environ.get("SLOTQ_NODE_SYNC") or 5)
        self.first_uid = int(environ.get("SLOTQ_NODE_FIRST_UID") or _first_uid())
        self.processes = int(environ.get("SLOTQ_NODE_PROCESSES") or 16_384)
        self.inherited = {name: text for name, text in environ.items() if not _OWN.match(name)}
        self.arn = environ.get("TRAINING_JOB_ARN", "")


def _first_uid() -> int:
    """The first user of jobs. Nodes that share a machine, as on the emulator, begin elsewhere."""
    return 20_000 if os.getpid() == 1 else 20_000 + os.getpid() * 64 % 1_000_000


def _roomiest(base: Path) -> Path:
    """Where the volume is: it may be mounted at /tmp or at /opt/ml."""
    places = [place for place in (base, Path("/tmp")) if place.is_dir()]  # nosec B108
    return max(places, key=lambda place: shutil.disk_usage(str(place)).free)


def split(uri: str) -> tuple[str, str]:
    """An S3 URI's bucket and key. Raises ValueError."""
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket:
        raise ValueError(f"'{uri}' is not an S3 URI (s3://bucket/key)")
    return bucket, key


def say(text: str) -> None:
    """Print a line of the agent's own. A job's line begins with its name in brackets."""
    print("slotq node: " + text, flush=True)


# --- kernel ---

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """Raises OSError."""
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def parents() -> dict[int, int]:
    """The parent of each process."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                text = Path("/proc", name, "stat").read_text(errors="replace")
                found[int(name)] = int(text.rpartition(")")[2].split()[1])
    return found


def below(root: int) -> list[int]:
    """The processes below a process, without itself."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found, left = [], [root]
    while left:
        more = children.get(left.pop(), [])
        found += more
        left += more
    return found


def handles(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal. False if it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc", str(pid), "status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def resident(pid: int) -> int:
    """Bytes of a process in memory."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = Path("/proc", str(pid), "statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()
    return 0


_PSS = re.compile(r"^Pss: *(\d+) kB", re.MULTILINE)


def proportional(pids: Sequence[int], uid: int | None) -> int:
    """Bytes in memory of these processes, each shared page counted once.

    The agent may lack CAP_SYS_PTRACE, so a child asks as the processes' own user. What even that
    one may not read counts as a whole.
    """
    reads, writes = os.pipe()
    helper = os.fork()
    if helper == 0:
        total = 0
        with contextlib.suppress(OSError):
            if uid is not None:
                become_user(uid)
            for pid in pids:
                try:
                    text = Path("/proc", str(pid), "smaps_rollup").read_text()
                    found = _PSS.search(text)
                    total += int(found.group(1)) * 1024 if found else 0
                except OSError:
                    total += resident(pid)
            os.write(writes, str(total).encode())
        os._exit(0)
    os.close(writes)
    with open(reads, "rb") as file:
        answer = file.read()
    os.waitpid(helper, 0)
    return int(answer or 0)


def become_user(uid: int) -> None:
    """Raises OSError."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def has_uids(first: int) -> tuple[bool, str]:
    """Whether jobs can have users of their own here, and else why root cannot give them some."""
    if os.geteuid() != 0:
        return False, ""
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(OSError):
            become_user(first)
            code = 0 if os.access(sys.executable, os.X_OK) else 2
        os._exit(code)
    code = exit_code(os.waitpid(pid, 0)[1])
    only_root = f"only root may run {sys.executable}: its jobs have no users of their own"
    return code == 0, {1: "jobs cannot have users of their own here", 2: only_root}.get(code, "")


def exit_code(raw: int) -> int:
    """A wait status as an exit code; negative for a signal."""
    return -os.WTERMSIG(raw) if os.WIFSIGNALED(raw) else os.WEXITSTATUS(raw)


# --- supervisor ---
# Messages of the link are JSON, one a packet. The worker says
#   {"do": "start", "name", "spec": file}, with two descriptors: input and output
#   {"do": "term" | "kill", "name"} and {"do": "lease", "until": monotonic seconds}
# and hears
#   {"is": "started", "name", "pid"}, {"is": "refused", "name", "why"}, {"is": "sigterm"}
#   {"is": "ended", "name", "code": exit code or null, "error", "lease": whether for want of it,
#    "memory": MiB where the job used too many, else null}

PACKET = 4096
CRASHED = 70
"""The exit code of a node that ends by a fault of its own."""


class Kept:
    """A job, as the supervisor knows it: its keeper, and where the keeper says how it ended."""

    def __init__(self, name: str, keeper: int, status: int) -> None:
        self.name, self.keeper, self.status = name, keeper, status
        self.lost_lease = False


class Supervisor:
    """Starts and ends jobs for the worker, and ends all of them when the lease or the worker is
    gone."""

    def __init__(
        self,
        say_to_worker: Callable[[Mapping[str, Any]], None],
        *,
        launch: Callable[[Mapping[str, Any], Sequence[int]], Kept],
        kill: Callable[[int, int], None] = os.kill,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say, self._launch, self._kill, self._clock = say_to_worker, launch, kill, clock
        self._lease_until = -math.inf
        """By one clock that never goes back. Each renewal counts, also one that shortens it."""
        self.kept: dict[str, Kept] = {}

    def obey(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Do what the worker says. Never starts a job without a lease."""
        word, name = message["do"], str(message.get("name", ""))
        if word == "lease":
            self._lease_until = float(message["until"])
        elif word == "start":
            self._start(name, message, descriptors)
        elif name in self.kept:
            self._signal(self.kept[name], signal.SIGUSR1 if word == "term" else signal.SIGTERM)

    def _start(self, name: str, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        if self._clock() >= self._lease_until:
            self._say({"is": "refused", "name": name, "why": "the node has no lease"})
            return
        try:
            kept = self._launch(message, descriptors)
        except OSError as error:
            self._say({"is": "refused", "name": name, "why": f"cannot fork: {error}"})
            return
        self.kept[name] = kept
        self._say({"is": "started", "name": name, "pid": kept.keeper})

    def check(self) -> float | None:
        """Kill every job if the lease is over. Returns seconds until that, None without jobs."""
        left = self._lease_until - self._clock()
        if left > 0:
            return left if self.kept else None
        for kept in self.kept.values():
            if not kept.lost_lease:
                kept.lost_lease = True
                self._signal(kept, signal.SIGTERM)
        return None

    def reaped(self, pid: int, read_status: Callable[[int], Mapping[str, Any]]) -> bool:
        """Take in that a child has ended. Returns False for a child that is no keeper."""
        kept = next((kept for kept in self.kept.values() if kept.keeper == pid), None)
        if kept is None:
            return False
        del self.kept[kept.name]
        status = read_status(kept.status)
        ended = {"is": "ended", "name": kept.name, "lease": kept.lost_lease}
        self._say({**ended, "code": None, "error": "", "memory": None, **status})
        return True

    def _signal(self, kept: Kept, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._kill(kept.keeper, number)


def supervise(link: socket.socket, worker: int) -> int:
    """Run the supervisor until the worker ends. Returns the node's exit code.

    What is left of a keeper that was killed comes to the supervisor, which kills it.
    """
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(waker)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    link.setblocking(False)  # noqa: FBT003

    def send(message: Mapping[str, Any]) -> None:
        with contextlib.suppress(ConnectionError):
            link.send(json.dumps(message).encode())

    supervisor = Supervisor(send, launch=launch)
    code: int | None = None
    try:
        while code is None:
            watched: list[Any] = [link, wake]
            ready, _, _ = select.select(watched, [], [], supervisor.check())
            if link in ready:
                _receive(link, supervisor)
            if wake in ready and signal.SIGTERM in os.read(wake, 4096):
                send({"is": "sigterm"})
            code = _reap(supervisor, worker)
    finally:
        _kill_all()
    return code


def _receive(link: socket.socket, supervisor: Supervisor) -> None:
    with contextlib.suppress(BlockingIOError, ConnectionError):
        size = socket.CMSG_SPACE(2 * 4)
        packet, extra, _, _ = link.recvmsg(PACKET, size)
        descriptors = [
            int.from_bytes(data[at : at + 4], sys.byteorder)
            for _, _, data in extra
            for at in range(0, len(data), 4)
        ]
        try:
            if packet:
                supervisor.obey(json.loads(packet), descriptors)
            else:
                time.sleep(0.01)  # The worker is ending: its end is reaped next.
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _reap(supervisor: Supervisor, worker: int) -> int | None:
    """Reap what has ended, and kill orphans of dead keepers. Returns the exit code of the node, if
    the worker has ended."""
    code = None
    orphaned = False
    for pid, raw in _waited():
        if pid == worker:
            code = exit_code(raw)
        else:
            orphaned |= supervisor.reaped(pid, _read_status)
    if orphaned:
        own = {worker, *(kept.keeper for kept in supervisor.kept.values())}
        for pid, parent in parents().items():
            if parent == os.getpid() and pid not in own:
                for each in (*below(pid), pid):
                    _kill(each)
    return code if code is None or code == 0 else CRASHED


def _waited() -> Iterator[tuple[int, int]]:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, raw = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            yield pid, raw


def _read_status(descriptor: int) -> Mapping[str, Any]:
    """What a keeper has said: one JSON object a line; the first error counts."""
    with open(descriptor, "rb") as file:
        lines = [json.loads(line) for line in file.read().splitlines()]
    said: dict[str, Any] = {}
    for line in lines:
        said = {**line, **said}
    return said


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _kill_all() -> None:
    """Kill everything below this process, until nothing is left."""
    while True:
        for pid in below(os.getpid()):
            _kill(pid)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


# --- keeper ---


def launch(message: Mapping[str, Any], descriptors: Sequence[int]) -> Kept:
    """Fork a keeper. It ends when nothing of its job is left. Raises OSError."""
    spec = json.loads(Path(message["spec"]).read_text())
    Path(message["spec"]).unlink()
    status, writes = os.pipe()
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            os.close(status)
            Keeper(spec, writes).keep(supervisor, descriptors)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(CRASHED)
    os.close(writes)
    return Kept(str(message["name"]), pid, status)


class Keeper:
    """Keeps one job's processes: SIGUSR1 asks them to end, SIGTERM kills them.

    `spec`: {"command": [words], "environment", "folder"} or {"metrics": [[name, regex]]}, and
    {"uid": or null, "cpus": [ids], "processes": the most, "memory_mib": or null}.
    """

    def __init__(self, spec: Mapping[str, Any], status: int) -> None:
        self._spec, self._status = spec, status
        self._uid: int | None = spec["uid"]
        self._is_uid_ours = False
        """Whether no other container can have processes of the job's user."""
        self._code: int | None = None
        self._kills = False

    def keep(self, supervisor: int, descriptors: Sequence[int]) -> NoReturn:
        """Start the job and stay until nothing is left of it. Ends the job with its supervisor."""
        watched = {signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1}
        signal.pthread_sigmask(signal.SIG_BLOCK, watched)
        os.setsid()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        self._kills = os.getppid() != supervisor
        self._is_uid_ours = self._uid is not None and supervisor == 1
        first = os.fork()
        if first == 0:
            self._become(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        while self._reap(first):
            if self._kills:
                self._kill_tree()
            got = signal.sigtimedwait(watched, 0.02 if self._kills else self._check_memory())
            if got is not None and got.si_signo == signal.SIGTERM:
                self._kills = True
            elif got is not None and got.si_signo == signal.SIGUSR1:
                self._ask_to_end(first)
        self._tell({"code": self._code})
        os._exit(0)

    def _reap(self, first: int) -> bool:
        """Reap what has ended. Returns whether anything is left. As in a container, all ends with
        the first process."""
        try:
            while True:
                pid, raw = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == first:
                    self._code, self._kills = exit_code(raw), True
        except ChildProcessError:
            return False

    def _check_memory(self) -> float:
        """Kill the job if it uses more memory than its part. Returns seconds until the next look,
        of which one takes a twentieth at most."""
        memory = self._spec.get("memory_mib")
        if memory is None:
            return 3600.0
        began = time.monotonic()
        pids = below(os.getpid())
        used = sum(resident(pid) for pid in pids)
        if used > memory << 20:
            used = proportional(pids, self._uid)
        if used > memory << 20:
            self._tell({"memory": used >> 20})
            self._kills = True
            return 0.0
        return max(1.0, 20 * (time.monotonic() - began))

    def _kill_tree(self) -> None:
        """Kill the whole tree; in a container, where the job has a user of its own, at one stroke,
        so that no fork escapes."""
        for pid in below(os.getpid()):
            _kill(pid)
        helper = os.fork() if self._is_uid_ours else -1
        if helper == 0:
            with contextlib.suppress(OSError):
                uid = self._spec["uid"]
                os.setresuid(uid, uid, uid)
                os.kill(-1, signal.SIGKILL)
            os._exit(0)
        if helper > 0:
            os.waitpid(helper, 0)

    def _ask_to_end(self, first: int) -> None:
        """SIGTERM to those that handle it: a first process without a handler, such as the training
        toolkit, would end and take the script's grace with it. If none does, to all."""
        pids = below(os.getpid())
        for pid in [pid for pid in pids if handles(pid, signal.SIGTERM)] or [first, *pids]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)

    def _tell(self, message: Mapping[str, Any]) -> None:
        os.write(self._status, json.dumps(message).encode() + b"\n")

    def _become(self, descriptors: Sequence[int]) -> NoReturn:
        """Become the job's first process."""
        try:
            os.setsid()
            for target, descriptor in zip((0, 1, 2), (*descriptors, descriptors[-1])):
                os.dup2(descriptor, target)
            self._restrict()
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            if "metrics" in self._spec:
                os.closerange(3, 1024)
                find_metrics(self._spec["metrics"])
                os._exit(0)
            os.chdir(self._spec["folder"])
            command = self._spec["command"]
            os.execvpe(command[0], command, self._spec["environment"])  # nosec B606
        except OSError as error:
            what = "cannot run {}: {}".format(self._spec.get("command", ["it"])[0], error.strerror)
            with contextlib.suppress(OSError):
                self._tell({"error": what})
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(127)

    def _restrict(self) -> None:
        """Take from the job what it must not have. Raises OSError."""
        most = self._spec["processes"]
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # The kernel ends jobs before the agent.
            Path("/proc/self/oom_score_adj").write_text("500")
        if self._spec["cpus"]:
            os.sched_setaffinity(0, self._spec["cpus"])
        if self._uid is not None:
            become_user(self._uid)
        elif os.geteuid() == 0:
            with contextlib.suppress(OSError):  # The node's /opt/ml is locked for root, too.
                prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE)
        os.umask(0o022)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def find_metrics(definitions: Sequence[Sequence[str]]) -> None:
    """Find the job's metrics in the lines of stdin, and write each as a JSON object to stdout.

    In a process of its own, as the job's user: an expression may take for ever.
    """
    patterns = []
    for name, expression in definitions:
        with contextlib.suppress(re.error):
            patterns.append((name, re.compile(expression)))
    with open(0, errors="replace") as lines, open(1, "w") as found:
        for line in lines:
            for name, pattern in patterns:
                for match in pattern.finditer(line):
                    with contextlib.suppress(ValueError, IndexError, TypeError):
                        found.write(json.dumps({name: float(match.group(1))}) + "\n")
                        found.flush()


# --- link ---


class Process:
    """A process tree that the supervisor runs for the worker."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.begun, self.ended = threading.Event(), threading.Event()
        self.code: int | None = None
        self.error = ""
        self.refused = False
        self.lost_lease = False
        self.memory: int | None = None
        """MiB that it used when it was killed for them."""


class Link:
    """The worker's end. Thread-safe."""

    def __init__(self, link: socket.socket, folder: Path) -> None:
        """`folder` is the agent's own, for what does not fit a packet."""
        self._link, self._folder = link, folder
        self._processes: dict[str, Process] = {}
        self._lock = threading.Lock()
        self.on_sigterm: Callable[[], None] = lambda: None

    def start(self, name: str, spec: Mapping[str, Any], stdin: int, stdout: int) -> Process:
        """Start a job's tree. Both descriptors stay the caller's."""
        process = Process()
        file = self._folder / "{}.json".format(name.replace("/", "."))
        file.write_text(json.dumps(spec))
        with self._lock:
            self._processes[name] = process
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _packed(stdin, stdout))]
        message = {"do": "start", "name": name, "spec": str(file)}
        self._link.sendmsg([json.dumps(message).encode()], rights)
        return process

    def tell(self, word: str, **details: Any) -> None:
        self._link.send(json.dumps({"do": word, **details}).encode())

    def listen(self) -> None:
        """Take in what the supervisor says, for ever. Its end is this process's end."""
        while True:
            packet = self._link.recv(PACKET)
            if not packet:
                raise ConnectionError("the supervisor is gone")
            self.hear(json.loads(packet))

    def hear(self, message: Mapping[str, Any]) -> None:
        if message["is"] == "sigterm":
            self.on_sigterm()
            return
        with self._lock:
            process = self._processes[message["name"]]
            if message["is"] == "started":
                process.pid = message["pid"]
                process.begun.set()
                return
            del self._processes[message["name"]]
        process.refused = message["is"] == "refused"
        process.code, process.lost_lease = message.get("code"), message.get("lease") is True
        process.memory = message.get("memory")
        process.error = str(message.get("error") or message.get("why") or "")
        process.begun.set()
        process.ended.set()


def _packed(*descriptors: int) -> bytes:
    return b"".join(descriptor.to_bytes(4, sys.byteorder) for descriptor in descriptors)


# --- folders ---
# A job may replace any of its folders and files by links at any moment, and the agent may be root.
# So the agent walks from a folder of its own, and follows no link on the way.


class Tree:
    """The files of one job. Nothing outside its folder is read or written, whatever it does."""

    def __init__(self, top: Path, root: Path, uid: int | None) -> None:
        """`top` is the agent's own folder, above the job's `root`."""
        self._top, self._root, self._uid = top, root, uid

    def files(self, folder: Path) -> list[tuple[str, Path]]:
        """The files below a folder, by name: regular ones, and links to such ones of the job."""
        with contextlib.suppress(RuntimeError):  # A loop of links, which is no folder.
            if self._root not in folder.resolve().parents:
                return []
        found = []
        for path in no_folders(folder):
            with contextlib.suppress(OSError, RuntimeError):
                real = path.resolve(strict=True)
                if stat.S_ISREG(real.stat().st_mode) and self._root in real.parents:
                    found.append((path.relative_to(folder).as_posix(), path))
        return sorted(found)

    def open(self, path: Path) -> BinaryIO:
        """Open a file for reading. Raises OSError, also for a file that the job may not read."""
        real = path.resolve(strict=True)
        if self._root not in real.parents:
            raise PermissionError(f"{path} is outside the job's folder")
        folder = self._walk(real.parent)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(real.name, flags, dir_fd=folder)
        finally:
            os.close(folder)
        found = os.fstat(descriptor)
        mine = self._uid in {None, found.st_uid} or found.st_mode & stat.S_IROTH
        if not stat.S_ISREG(found.st_mode) or not mine:
            os.close(descriptor)
            raise PermissionError(f"{path} is not the job's own")
        return os.fdopen(descriptor, "rb")

    def read(self, path: Path, most: int) -> bytes:
        """The beginning of a file; nothing if it cannot be read."""
        with contextlib.suppress(OSError, RuntimeError), self.open(path) as file:
            return file.read(most)
        return b""

    def write(self, path: Path, content: bytes) -> None:
        """Write a file of the job, in folders that are made as needed. Raises OSError."""
        folder = self._walk(path.parent, make=True)
        unfinished = f".{path.name}.slotq-{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished, dir_fd=folder)
            with os.fdopen(os.open(unfinished, flags, 0o644, dir_fd=folder), "wb") as file:
                self._give(file.fileno())
                file.write(content)
            os.rename(unfinished, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)

    def _walk(self, folder: Path, *, make: bool = False) -> int:
        """A descriptor of a folder below `top`. Raises OSError and ValueError."""
        at = os.open(str(self._top), os.O_RDONLY | os.O_DIRECTORY)
        for part in folder.relative_to(self._top).parts:
            above = at
            try:
                made = make and _is_made(part, above)
                at = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
                if made:
                    self._give(at)
            finally:
                os.close(above)
        return at

    def _give(self, descriptor: int) -> None:
        if self._uid is not None:
            os.fchown(descriptor, self._uid, self._uid)


def _is_made(name: str, above: int) -> bool:
    """Make a folder in another one, unless it is there."""
    try:
        os.mkdir(name, 0o755, dir_fd=above)
    except FileExistsError:
        return False
    return True


def no_folders(folder: Path) -> Iterator[Path]:
    """Everything below a folder but the folders. `os.walk` fails a thousand levels deep."""
    left = [str(folder)]
    while left:
        for entry in _entries(left.pop()):
            if entry.is_dir(follow_symlinks=False):
                left.append(entry.path)
            else:
                yield Path(entry.path)


def remove_tree(top: Path) -> None:
    """Remove a folder in which nobody changes anything any more, however deep it nests. What cannot
    be removed stays."""
    number, is_deep = 0, True
    while is_deep:
        is_deep = False
        for folder in _folders_in(str(top)):
            for inner in _folders_in(folder):
                number += 1
                with contextlib.suppress(OSError):
                    os.rename(inner, str(top / f"slotq-{number}"))
                    is_deep = True
            remove_shared(folder)
    remove_shared(str(top))


def remove_shared(folder: str) -> None:
    """Remove a folder in which somebody else may change something meanwhile. What cannot be removed
    stays, and so does one that nests a thousand deep."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)


def _folders_in(folder: str) -> list[str]:
    return [entry.path for entry in _entries(folder) if entry.is_dir(follow_symlinks=False)]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        return list(found)
    return []


def inside(folder: Path, name: str) -> Path:
    """The path of a name that a user chose, below the folder. Raises JobFault for one outside."""
    path = os.path.normpath("/".join(part for part in name.split("/") if part) or ".")
    if path == ".." or path.startswith("../") or "\0" in path:
        raise JobFault(f"'{cut(name, 200)}' points outside its folder")
    return folder / path


def make_folder(path: Path, uid: int | None, mode: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    if uid is not None:
        os.chown(str(path), uid, uid)
    path.chmod(mode)


def empty(folder: Path) -> None:
    """Remove what is in a folder, not the folder: it may be a mount."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            if os.path.ismount(str(path)):
                empty(path)
            else:
                remove_shared(str(path))
        else:
            with contextlib.suppress(OSError):
                path.unlink()


# --- storage ---


class JobFault(Exception):
    """The user's input prevents the job: it fails with `ClientError: …`."""


class Aws:
    """boto3's clients. Raises ImportError where the image has no boto3."""

    def __init__(self) -> None:
        import boto3
        from boto3.exceptions import Boto3Error
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError

        self.errors = (BotoCoreError, ClientError, Boto3Error)
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        self.session = boto3.session.Session(region_name=region)
        quick = Config(connect_timeout=3, read_timeout=10, retries={"max_attempts": 1})
        patient = Config(
            connect_timeout=10,
            read_timeout=60,
            retries={"max_attempts": 6},
            max_pool_connections=50,
        )
        self.control = self.session.client("s3", config=quick)
        self.s3 = self.session.client("s3", config=patient)
        self.logs = self.session.client("logs", config=quick)

    def code(self, error: BaseException) -> str:
        """S3's word for an error."""
        answer = getattr(error, "response", None) or {}
        return str((answer.get("Error") or {}).get("Code", ""))

    def refuses(self, error: BaseException | None) -> bool:
        """Whether S3 has answered that it will not, so that nothing is won by trying again."""
        answer = getattr(error, "response", None) or {}
        status = (answer.get("ResponseMetadata") or {}).get("HTTPStatusCode", 0)
        return 400 <= status < 500 and status not in {408, 429}

    def post(self, url: str, body: bytes) -> int:
        """POST a signed request to API Gateway. Returns the status. Raises `errors`."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.httpsession import URLLib3Session

        request = AWSRequest("POST", url, data=body, headers={"Content-Type": "application/json"})
        region = self.session.region_name or "us-east-1"
        SigV4Auth(self.session.get_credentials(), "execute-api", region).add_auth(request)
        answer = URLLib3Session(timeout=10).send(request.prepare())
        return int(answer.status_code)


class Storage:
    """S3 as a job uses it. Raises JobFault with the URI where S3 refuses."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws

    def objects(self, uri: str) -> list[tuple[str, str, int]]:
        """Key, ETag and size of each object whose key begins with the URI's, folders left out."""
        bucket, prefix = self.split(uri)
        try:
            pages = self._aws.s3.get_paginator("list_objects_v2")
            return [
                (found["Key"], found["ETag"], found["Size"])
                for page in pages.paginate(Bucket=bucket, Prefix=prefix)
                for found in page.get("Contents", ())
                if not found["Key"].endswith("/")
            ]
        except self._aws.errors as error:
            raise JobFault(f"Data download failed: {uri}: {error}") from error

    def fetch(self, bucket: str, key: str, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._aws.s3.download_file(bucket, key, str(path))
        except (*self._aws.errors, OSError) as error:
            place = f"s3://{bucket}/{key}"
            raise JobFault(f"Data download failed: {place}: {error}") from error

    def put(self, file: BinaryIO, uri: str, key_id: str = "") -> None:
        bucket, key = self.split(uri)
        kms = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key_id} if key_id else {}
        try:
            self._aws.s3.upload_fileobj(file, bucket, key, ExtraArgs=kms)
        except Exception as error:  # A file may change in any way while it is read.
            raise JobFault(f"Artifact upload failed: {uri}: {error}") from error

    @staticmethod
    def split(uri: str) -> tuple[str, str]:
        try:
            return split(uri)
        except ValueError as error:
            raise JobFault(str(error)) from None


# --- inputs ---

_RESERVE = 1 << 30
"""Bytes of the disk that no input may take."""


class Inputs:
    """Channels of all jobs, each fetched once while its objects stay the same.

    A job gets folders of its own with hard links to files that nobody may write.
    """

    def __init__(self, storage: Storage, folder: Path) -> None:
        self._storage, self._folder = storage, folder
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._used: dict[str, set[str]] = {}
        """Live attempts by entry, the entry used last at the end."""

    def lay(self, attempt: str, channel: Mapping[str, Any], folder: Path, uid: int | None) -> None:
        """Bring a channel to a folder of its name. Raises JobFault."""
        uri, gzipped = _checked(channel)
        objects = self._storage.objects(uri)
        if not objects:
            raise JobFault(f'Data download failed: no S3 objects found under S3 URL "{uri}"')
        name = hashlib.sha256(canonical({"of": [uri, gzipped, objects]})).hexdigest()
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
            self._used.setdefault(name, set()).add(attempt)
            self._used[name] = self._used.pop(name)
        entry = self._folder / name
        with lock:
            if not entry.is_dir():
                self._fetch(uri, objects, entry, gzipped=gzipped)
        copies = channel["ChannelName"] == "sm_drivers"  # Their text is changed for each job.
        _link(entry, folder / str(channel["ChannelName"]), uid, copies=copies)

    def release(self, attempt: str) -> None:
        """The attempt needs its channels no more."""
        with self._lock:
            for users in self._used.values():
                users.discard(attempt)

    def _fetch(
        self, uri: str, objects: Sequence[tuple[str, str, int]], entry: Path, *, gzipped: bool
    ) -> None:
        self._make_room(sum(size for _, _, size in objects), uri)
        bucket, prefix = self._storage.split(uri)
        unfinished = entry.with_name(entry.name + ".unfinished")
        shutil.rmtree(str(unfinished), ignore_errors=True)

        def fetch(key: str) -> None:
            path = inside(unfinished, _relative(key, prefix))
            self._storage.fetch(bucket, key, path)
            if gzipped:
                _unzip(path, uri)

        unfinished.mkdir(parents=True)
        try:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for done in [pool.submit(fetch, key) for key, _, _ in objects]:
                    done.result()
            for path in unfinished.rglob("*"):
                path.chmod(0o755 if path.is_dir() else 0o444)
            unfinished.rename(entry)
        except OSError as error:
            raise JobFault(f"Data download failed: {uri}: {error}") from error
        finally:
            shutil.rmtree(str(unfinished), ignore_errors=True)

    def _make_room(self, size: int, uri: str) -> None:
        """Remove entries that no job uses, the one used longest ago first. Raises JobFault."""
        with self._lock:
            for name in [name for name, users in self._used.items() if not users]:
                if self._free() >= size:
                    break
                del self._used[name]
                shutil.rmtree(str(self._folder / name), ignore_errors=True)
            free = max(0, self._free())
            if free < size:
                raise JobFault(
                    f"Data download failed: {uri}: {size:,} bytes are more than the {free:,} that "
                    "are free on the node"
                )

    def is_full(self) -> bool:
        """Whether the disk has no room for any input."""
        return self._free() <= 0

    def _free(self) -> int:
        return shutil.disk_usage(str(self._folder)).free - _RESERVE


def _checked(channel: Mapping[str, Any]) -> tuple[str, bool]:
    """A channel's URI, and whether its files are gzipped. Raises JobFault for other kinds."""
    name = str(channel.get("ChannelName", ""))
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name) or not name.strip("."):
        raise JobFault(f"a channel cannot be called '{cut(name, 64)}'")
    source = (channel.get("DataSource") or {}).get("S3DataSource") or {}
    compression = channel.get("CompressionType", "None")
    known = (
        source.get("S3DataType", "S3Prefix") == "S3Prefix"
        and source.get("S3DataDistributionType", "FullyReplicated") == "FullyReplicated"
        and channel.get("InputMode", "File") == "File"
        and compression in {"None", "Gzip"}
        and "S3Uri" in source
    )
    if not known:
        raise JobFault(
            f"channel '{name}': a node reads S3Prefix, FullyReplicated, File mode, no or gzip "
            "compression; other channels need a whole instance"
        )
    return str(source["S3Uri"]), compression == "Gzip"


def _relative(key: str, prefix: str) -> str:
    """A key's path below a prefix. The prefix may lack a final slash, or be a whole key."""
    folder = prefix if prefix.endswith("/") or not prefix else prefix + "/"
    return key[len(folder) :] if key.startswith(folder) else key[prefix.rfind("/") + 1 :]


def _unzip(path: Path, uri: str) -> None:
    unfinished = path.with_name(path.name + ".unzipped")
    try:
        with gzip.open(str(path), "rb") as packed, unfinished.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
    except (OSError, EOFError, zlib.error) as error:
        raise JobFault(f"Data download failed: {uri}: {path.name}: {error}") from error
    path.unlink()
    unfinished.rename(path.with_suffix("") if path.suffix == ".gz" else path)


def _link(entry: Path, folder: Path, uid: int | None, *, copies: bool) -> None:
    make_folder(folder, uid, 0o755)
    for where, folders, names in os.walk(str(entry)):
        to = folder / Path(where).relative_to(entry)
        for name in folders:
            make_folder(to / name, uid, 0o755)
        for name in names:
            source, target = os.path.join(where, name), str(to / name)
            try:
                if copies:
                    raise OSError
                os.link(source, target)
            except OSError:  # Another file system, or too many links.
                shutil.copyfile(source, target)
                os.chown(target, *((-1, -1) if uid is None else (uid, uid)))


# --- surroundings ---

OPT_ML = re.compile(r"(?:(?<=://)|(?<![\w./-]))/opt/ml(?![\w.-])")
"""Where a text names it, also in a URI, and not as a part of another path."""
PROGRAM, DIRECTORY = "sagemaker_program", "sagemaker_submit_directory"
LITERAL = (
    "it names /opt/ml, which belongs to the node: use SM_CHECKPOINT_DIR or "
    "slotq_training.checkpoint_dir(), SM_MODEL_DIR, SM_CHANNEL_…"
)
"""Why a script that writes below /opt/ml fails."""
OR_TAG = "; or tag the job slotq:literal-paths"
NO_LITERAL = (
    "literal paths need a node on which each job has a user of its own: here every job could write "
    "below /opt/ml. Submit it without slotq:gpus, or let the script use SM_MODEL_DIR, "
    "SM_CHECKPOINT_DIR and so on"
)
"""Why a job with literal paths fails where the agent is not root."""


class Place:
    """A job's folders. `base` is its /opt/ml: below its own folder, or the node's own."""

    def __init__(self, order: Order, settings: Settings, uid: int | None) -> None:
        self.top = settings.work / "jobs"
        self.root = self.top / order.attempt
        self.literal = order.literal
        self.base = settings.base if order.literal else self.root / "ml"
        self.home, self.tmp = self.root / "home", self.root / "tmp"
        self.uid = uid
        top, root = (self.base.parent, self.base) if order.literal else (self.top, self.root)
        self.tree = Tree(top.resolve(), root.resolve(), uid)

    def make(self) -> None:
        """Make the folders, which only the job can enter."""
        remove_tree(self.root)
        make_folder(self.root, self.uid, 0o700)
        for path in (self.base, self.home, self.tmp):
            if path != self.base or not self.literal:
                make_folder(path, self.uid, 0o700)
        for name in ("input/config", "input/data", "model", "output/data", "code", "checkpoints"):
            path = self.base / name
            make_folder(path.parent, self.uid if path.parent != self.base else None, 0o755)
            make_folder(path, self.uid, 0o700)
            if self.literal:
                empty(path)

    def remove(self) -> None:
        """Remove all that the job has left, in shared folders too where it had its own user."""
        if self.literal and self.root.is_dir():  # Else it has never had the node's /opt/ml.
            for name in ("input", "model", "output", "code", "checkpoints"):
                with contextlib.suppress(OSError):
                    empty(self.base / name)
            lock_base(self.base, has_uids=True)
        remove_tree(self.root)
        for shared in ("/tmp", "/var/tmp", "/dev/shm") if self.uid is not None else ():  # nosec B108
            for path in Path(shared).iterdir() if os.access(shared, os.R_OK) else ():
                with contextlib.suppress(OSError):
                    if path.lstat().st_uid != self.uid:
                        continue
                    if path.is_dir() and not path.is_symlink():
                        remove_shared(str(path))
                    else:
                        path.unlink()

    def text(self, text: str) -> str:
        """A text of the request, with the job's own folder for /opt/ml."""
        return text if self.literal else OPT_ML.sub(lambda _: str(self.base), text)

    def path(self, seen: str) -> Path:
        """The path of one that the request names below /opt/ml. Raises JobFault."""
        if not OPT_ML.match(seen):
            raise JobFault(f"'{seen}': a job on a node has folders below /opt/ml only")
        return inside(self.base, seen[len("/opt/ml") :])

    def write_cap(self) -> str:
        """Write the framework's cap. Returns the folder for PYTHONPATH."""
        path = self.root / "cap/sitecustomize.py"
        make_folder(path.parent, None, 0o755)
        path.write_text(FRAMEWORK_CAP)
        path.chmod(0o644)
        return str(path.parent)

    def write_config(self, name: str, document: Mapping[str, Any]) -> None:
        path = self.base / "input/config" / (name + ".json")
        path.write_text(json.dumps(document))
        path.chmod(0o644)


class Surroundings:
    """The variables and files of one job."""

    def __init__(
        self,
        order: Order,
        place: Place,
        settings: Settings,
        *,
        gpus: Sequence[str],
        cpus: int,
        instance: Mapping[str, Any],
    ) -> None:
        """`gpus`: what CUDA calls them. `instance`: the node's own resource configuration."""
        self._order, self._place, self._settings = order, place, settings
        self._gpus, self._cpus = gpus, cpus
        request = order.request
        self._parameters = {
            str(name): place.text(str(text))
            for name, text in (request.get("HyperParameters") or {}).items()
        }
        self._decoded = {name: _decoded(text) for name, text in self._parameters.items()}
        self._channels = {
            str(channel["ChannelName"]): {
                "TrainingInputMode": "File",
                "S3DistributionType": "FullyReplicated",
                "RecordWrapperType": channel.get("RecordWrapperType", "None"),
            }
            for channel in request.get("InputDataConfig") or ()
        }
        host = str(instance.get("current_host") or "algo-1")
        kind = str(instance.get("current_instance_type") or "")
        group = {
            "instance_group_name": "homogeneousCluster",
            "instance_type": kind,
            "hosts": [host],
        }
        self._resources = {
            "current_host": host,
            "current_instance_type": kind,
            "current_group_name": group["instance_group_name"],
            "hosts": [host],
            "instance_groups": [group],
            "network_interface_name": str(instance.get("network_interface_name") or "eth0"),
        }

    def write(self) -> None:
        """Write the files below input/config."""
        self._place.write_config("hyperparameters", self._parameters)
        self._place.write_config("resourceconfig", self._resources)
        self._place.write_config("inputdataconfig", self._channels)

    def variables(self, checkpoints: str, folder: Path, part: Mapping[str, str]) -> dict[str, str]:
        """The job's whole environment. `checkpoints` is their URI, `part` what its part of a GPU
        adds."""
        place, order = self._place, self._order
        threads = str(max(1, self._cpus))
        asked = order.request.get("Environment") or {}
        variables = {
            **self._settings.inherited,
            "OMP_NUM_THREADS": threads,
            "PYTHONUNBUFFERED": "1",
            **self._script_mode(),
            **_ports(),
            **{str(name): place.text(str(text)) for name, text in asked.items()},
            "HOME": str(place.home),
            "TMPDIR": str(place.tmp),
            "USER": "slotq",
            "LOGNAME": "slotq",
            "SAGEMAKER_BASE_DIR": str(place.base),
            "SM_STUDIO_LOCAL_MODE": "true",  # The toolkit need not look up the job's hosts.
            "SM_CHECKPOINT_DIR": str(folder),
            "SLOTQ_CHECKPOINT_DIR": str(folder),
            "SLOTQ_CHECKPOINTS": checkpoints or "none",
            "SLOTQ_ATTEMPT": str(order.number),
            "SLOTQ_PASSES_SIGTERM": "1",
            "CUDA_VISIBLE_DEVICES": ",".join(self._gpus),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "TRAINING_JOB_NAME": order.attempt,
            "TRAINING_JOB_ARN": self._settings.arn.rpartition("/")[0] + "/" + order.attempt,
        }
        if "PYTHONPATH" in part and variables.get("PYTHONPATH"):
            behind = os.pathsep + variables["PYTHONPATH"]
            part = {**part, "PYTHONPATH": part["PYTHONPATH"] + behind}
        variables.update(part)
        path = variables.get("PATH", os.defpath)
        variables["PATH"] = os.pathsep.join([path, str(place.home / ".local/bin")])
        return {name: text for name, text in variables.items() if _is_variable(name, text)}

    def _script_mode(self) -> dict[str, str]:
        """The toolkit's variables. Its names keep a hyphen: `SM_HP_BATCH-SIZE`."""
        base = str(self._place.base)
        mine = {
            name: value
            for name, value in self._decoded.items()
            if not name.startswith("sagemaker_")
        }
        program = str(self._decoded.get(PROGRAM, ""))
        values: dict[str, Any] = {
            "model_dir": base + "/model",
            "input_dir": base + "/input",
            "input_config_dir": base + "/input/config",
            "output_dir": base + "/output",
            "output_data_dir": base + "/output/data",
            "output_intermediate_dir": base + "/output/intermediate",
            "module_dir": str(self._decoded.get(DIRECTORY, base + "/code")),
            "module_name": program[:-3] if program.endswith(".py") else program,
            "user_entry_point": program,
            "user_args": self.arguments(),
            "hps": mine,
            **{"hp_" + name: value for name, value in mine.items()},
            "channels": sorted(self._channels),
            "input_data_config": self._channels,
            **{"channel_" + name: base + "/input/data/" + name for name in self._channels},
            "hosts": self._resources["hosts"],
            "current_host": self._resources["current_host"],
            "current_instance_type": self._resources["current_instance_type"],
            "current_instance_group": self._resources["current_group_name"],
            "current_instance_group_hosts": self._resources["hosts"],
            "instance_groups": [self._resources["current_group_name"]],
            "is_hetero": False,
            "resource_config": self._resources,
            "network_interface_name": self._resources["network_interface_name"],
            "num_cpus": self._cpus,
            "num_gpus": len(self._gpus),
            "num_neurons": 0,
            "log_level": self._decoded.get("sagemaker_container_log_level", 20),
        }
        return {"SM_" + name.upper(): _text(value) for name, value in values.items()}

    def arguments(self) -> list[str]:
        """`--name value` for each hyperparameter of the user, by name."""
        words = []
        for name, value in sorted(self._decoded.items()):
            if not name.startswith("sagemaker_"):
                words += [("--" if len(name) > 1 else "-") + name, _argument(value)]
        return words

    def command(self, fetch_code: Callable[[str, Path], None]) -> tuple[list[str], Path]:
        """The job's command and its folder: the request's own, the image's `train`, or the script
        as the toolkit runs it. Raises JobFault."""
        algorithm = self._order.request.get("AlgorithmSpecification") or {}
        entry = algorithm.get("ContainerEntrypoint")
        if entry:
            words = [*entry, *(algorithm.get("ContainerArguments") or ())]
            return [self._place.text(str(word)) for word in words], self._place.base
        found = shutil.which("train", path=self._settings.inherited.get("PATH", os.defpath))
        if found:
            return [found, *(algorithm.get("ContainerArguments") or ())], self._place.base
        if PROGRAM not in self._decoded or DIRECTORY not in self._decoded:
            raise JobFault(
                "a job on a node needs ContainerEntrypoint, or an image with `train` on its PATH: "
                "an agent cannot see the image's own entry point"
            )
        fetch_code(str(self._decoded[DIRECTORY]), self._place.base / "code")
        return self._script(str(self._decoded[PROGRAM])), self._place.base / "code"

    def _script(self, program: str) -> list[str]:
        path = inside(self._place.base / "code", program)
        if not path.is_file():
            raise JobFault(f"the script '{program}' is not in {self._decoded[DIRECTORY]}")
        if not program.endswith(".py"):
            words = " ".join(shlex.quote(word) for word in self.arguments())
            return ["/bin/sh", "-c", f"exec /bin/sh {shlex.quote(program)} {words}"]
        command = [sys.executable, program, *self.arguments()]
        if (path.parent / "requirements.txt").is_file():
            return [sys.executable, "-c", _INSTALL_FIRST, *command]
        return command


_INSTALL_FIRST = """
import os, subprocess, sys
if subprocess.run([sys.executable, "-m", "pip", "install", "-r", "requirements.txt"]).returncode:
    sys.exit("the packages of requirements.txt cannot be installed")
os.execv(sys.argv[1], sys.argv[1:])
"""


_LONGEST_VARIABLE = 131_071
"""Bytes of a variable with its name: the kernel starts nothing with a longer one."""


def _is_variable(name: str, text: str) -> bool:
    """Whether a process can have the variable: a hyperparameter may have any name and value."""
    if not name or "=" in name or "\0" in name + text:
        return False
    try:
        return len(os.fsencode(f"{name}={text}")) <= _LONGEST_VARIABLE
    except UnicodeEncodeError:
        return False


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, sort_keys=True, separators=(",", ":"))


def _argument(value: Any) -> str:
    """A value as the toolkit writes it: a map as `key=value` pairs, None as nothing."""
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in sorted(value.items()))
    return "" if value is None else str(value)


_taken_ports: collections.deque[int] = collections.deque(maxlen=8 * MOST_JOBS)
"""The ports that jobs were given last."""


def _ports() -> dict[str, str]:
    """Free ports that no other job of the node was given lately."""
    found = {}
    with contextlib.ExitStack() as held:
        for name in ("MASTER_PORT", "SLOTQ_PORT"):
            while True:
                listener = held.enter_context(socket.socket())
                listener.bind(("127.0.0.1", 0))
                port = listener.getsockname()[1]
                if port not in _taken_ports:
                    break
            _taken_ports.append(port)
            found[name] = str(port)
    return found


def unpack_code(content: BinaryIO, folder: Path, uid: int | None) -> None:
    """Unpack a tar file into the folder: files and folders alone, nothing outside. Raises JobFault,
    and tarfile's errors."""
    with tarfile.open(fileobj=content) as tar:
        for member in tar:
            path = inside(folder, member.name)
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
            elif member.isreg() or member.islnk() or member.issym():
                path.parent.mkdir(parents=True, exist_ok=True)
                source = _extracted(tar, member)
                if source is not None:
                    with source, path.open("wb") as file:
                        shutil.copyfileobj(source, file)
                    path.chmod(member.mode & 0o755 | 0o600)
    own_all(folder, uid)


def _extracted(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Any:
    """The content of a file or of what a link in the archive points to; None: nowhere."""
    with contextlib.suppress(KeyError):
        return tar.extractfile(member)
    return None


def own_all(folder: Path, uid: int | None) -> None:
    """Give a folder that no process can change yet to the job."""
    if uid is not None:
        for where, folders, names in os.walk(str(folder)):
            for name in (".", *folders, *names):
                path = os.path.join(where, name)
                os.chown(path, uid, uid, follow_symlinks=False)


# --- output ---

GROUP = "/aws/sagemaker/TrainingJobs"
_LONGEST_LINE = (256 * 1024 - 26 - 66) // 3
"""Bytes. With an attempt's mark, and each byte replaced by three, they still fit a log event."""
_MOST_EVENTS, _MOST_BYTES, _PER_EVENT = 10_000, 1_048_576, 26
_MOST_WAITING = 4 << 20
"""Bytes of a job's lines that wait. A job that prints faster waits at its pipe."""
_printing = threading.Lock()


def lines_of(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of an output. A line longer than a log event goes on in the next one."""
    while True:
        raw = stream.readline(_LONGEST_LINE)
        if not raw:
            return
        yield raw.rstrip(b"\r\n")


class LogStream:
    """A job's lines, in order: to its own stream of CloudWatch Logs, or, where that cannot be
    reached, to the node's output with the attempt's name in brackets."""

    def __init__(
        self, logs: Any, attempt: str, host: str, *, now: Callable[[], float] = time.time
    ) -> None:
        """`logs` is boto3's client; None: there is none."""
        self._logs, self._attempt, self._now = logs, attempt, now
        self._name = f"{attempt}/{host}-{int(now() * 1000)}"
        self._events: collections.deque[tuple[int, str, int]] = collections.deque()
        self._waiting = 0
        self._last = 0
        self._is_closed = False
        self._news = threading.Condition()
        self._ended = threading.Event()

    def line(self, raw: bytes) -> None:
        """Add a line. Waits while too many bytes wait."""
        text = raw.decode(errors="replace")
        size = len(text.encode()) + _PER_EVENT
        with self._news:
            self._news.wait_for(lambda: self._waiting < _MOST_WAITING)
            self._last = max(self._last, int(self._now() * 1000))
            self._events.append((self._last, text or " ", size))
            self._waiting += size
            self._news.notify_all()

    def close(self, patience: float = 20.0) -> None:
        """Wait until all lines are sent, or for so many seconds."""
        with self._news:
            self._is_closed = True
            self._news.notify_all()
        self._ended.wait(patience)

    def run(self) -> None:
        """Send lines until `close`."""
        self._open()
        while True:
            with self._news:
                self._news.wait_for(lambda: self._events or self._is_closed)
                if not self._events:
                    break
                self._news.wait_for(lambda: self._is_closed, 0.3)  # Some more may come.
                batch = self._batch()
            self._send(batch)
            with self._news:
                self._waiting -= sum(size for _, _, size in batch)
                self._news.notify_all()
        self._ended.set()

    def _open(self) -> None:
        for word, more in (
            ("create_log_group", {}),
            ("create_log_stream", {"logStreamName": self._name}),
        ):
            try:
                if self._logs is not None:
                    getattr(self._logs, word)(logGroupName=GROUP, **more)
            except Exception as error:
                answer = getattr(error, "response", None) or {}
                code = (answer.get("Error") or {}).get("Code", "")
                group_is_not_ours = word == "create_log_group" and code.startswith("AccessDenied")
                if code != "ResourceAlreadyExistsException" and not group_is_not_ours:
                    say(f"the log lines of {self._attempt} follow here: {error}")
                    self._logs = None

    def _batch(self) -> list[tuple[int, str, int]]:
        batch: list[tuple[int, str, int]] = []
        size = 0
        while self._events and len(batch) < _MOST_EVENTS:
            size += self._events[0][2]
            if batch and size > _MOST_BYTES:
                break
            batch.append(self._events.popleft())
        return batch

    def _send(self, batch: Sequence[tuple[int, str, int]]) -> None:
        events = [{"timestamp": at, "message": text} for at, text, _ in batch]
        for patience in (1.0, 3.0, 0.0):
            if self._logs is None:
                break
            try:
                self._logs.put_log_events(
                    logGroupName=GROUP, logStreamName=self._name, logEvents=events
                )
                return
            except Exception as error:
                if not patience:
                    say(f"the log lines of {self._attempt} follow here: {error}")
                    self._logs = None
            with self._news:
                self._news.wait_for(lambda: self._is_closed, patience)
        # Whatever begins an event there has the mark, or jobs could write lines of others.
        lines = [line for _, text, _ in batch for line in text.splitlines()]
        with _printing:
            sys.stdout.write("".join(f"[{self._attempt}] {line}\n" for line in lines))
            sys.stdout.flush()


class Output:
    """Reads a job's output: to its log, to the search for metrics, and its end for failures."""

    def __init__(self, log: LogStream) -> None:
        self._log = log
        self._metrics: int | None = None
        self._patience = 5.0
        self._last: collections.deque[str] = collections.deque(maxlen=20)
        self.over = threading.Event()

    def search_by(self, metrics: int | None) -> None:
        """`metrics` is the pipe to the search, if the job has definitions."""
        self._metrics = metrics

    def abandon(self) -> None:
        """End the log and the search of a job that cannot start."""
        self._close_search()
        self._log.close()

    def close(self) -> None:
        """Wait until the log has all lines."""
        self._log.close()

    def tail(self) -> str:
        """The last lines."""
        return "\n".join(self._last)

    def read(self, descriptor: int) -> None:
        """Read until the job has closed its output."""
        if self._metrics is not None:
            os.set_blocking(self._metrics, False)
        with open(descriptor, "rb") as stream:
            for raw in lines_of(stream):
                self._last.append(raw[:2000].decode(errors="replace"))
                self._log.line(raw)
                self._search(raw)
        self._close_search()
        self.over.set()

    def _search(self, raw: bytes) -> None:
        """Hand a line to the search. A search that falls five seconds behind is given up."""
        while self._metrics is not None:
            try:
                os.write(self._metrics, raw[: select.PIPE_BUF - 1].replace(b"\n", b"") + b"\n")
                return
            except BlockingIOError:
                began = time.monotonic()
                select.select([], [self._metrics], [], self._patience)
                self._patience -= time.monotonic() - began
                if self._patience <= 0:
                    self._close_search()
            except OSError:
                self._close_search()

    def _close_search(self) -> None:
        if self._metrics is not None:
            os.close(self._metrics)
            self._metrics = None


# --- checkpoints ---

_MOST_SKIPPED = 10
"""How many looks a file that changes all the time is left out for."""


class Checkpoints:
    """A job's checkpoint folder, kept in S3 while the job runs. Nothing is removed from S3."""

    def __init__(self, storage: Storage, uri: str, folder: Path, tree: Tree) -> None:
        self._storage, self._uri, self._folder, self._tree = storage, uri.rstrip("/"), folder, tree
        self._kept: dict[str, tuple[int, int, int]] = {}
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._skipped: dict[str, int] = {}
        self.markers: set[str] = set()
        """Files that the agent has laid itself."""

    def restore(self) -> None:
        """Bring the checkpoints of earlier attempts, before the job starts. Raises JobFault."""
        bucket, prefix = self._storage.split(self._uri + "/")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for done in [
                pool.submit(
                    self._storage.fetch, bucket, key, inside(self._folder, key[len(prefix) :])
                )
                for key, _, _ in self._storage.objects(self._uri + "/")
            ]:
                done.result()

    def begin(self) -> None:
        """What is there now is in S3."""
        self._kept = {name: signature for name, _, signature in self._scan()}

    def sync(self, *, last: bool = False) -> None:
        """Upload the files that have changed, and have not changed again since the previous look;
        with `last` all that have changed. Raises JobFault."""
        found = list(self._scan())
        for name, path, signature in found:
            if self._kept.get(name) == signature:
                continue
            self._skipped[name] = self._skipped.get(name, 0) + 1
            settled = self._seen.get(name) == signature or self._skipped[name] > _MOST_SKIPPED
            if last or settled:
                self._upload(name, path, signature)
        self._seen = {name: signature for name, _, signature in found}

    def _upload(self, name: str, path: Path, signature: tuple[int, int, int]) -> None:
        try:
            file = self._tree.open(path)
        except (OSError, RuntimeError, ValueError):
            return  # It is gone, or not the job's.
        with file:
            self._storage.put(file, f"{self._uri}/{name}")
        self._kept[name] = signature
        self._skipped.pop(name, None)

    def _scan(self) -> Iterator[tuple[str, Path, tuple[int, int, int]]]:
        for name, path in self._tree.files(self._folder):
            with contextlib.suppress(OSError):
                found = path.stat()
                if name not in self.markers:
                    yield name, path, (found.st_ino, found.st_mtime_ns, found.st_size)


# --- job ---


class Withdrawn(Exception):
    """The job was stopped before its script began."""


_MOST_METRICS = 40
"""SageMaker's own limit."""
_KILLED = frozenset({-15, -9, 143, 137})
_TERMINATED = re.compile(r"\bExitCode -15\b")
"""What the toolkit makes of a script that SIGTERM has ended."""


def verdict(code: int | None, failure: str, *, asked: bool) -> str:
    """How an attempt has ended. Completed always wins; stopped requires that the stop killed it."""
    if code == 0:
        return "completed"
    if RELEASED.search(failure):
        return "released"
    killed = code is None or code in _KILLED or bool(_TERMINATED.search(failure))
    return "stopped" if asked and killed else "failed"


def reason(code: int | None, failure: str) -> str:
    """FailureReason in SageMaker's words."""
    if code is None:
        return "AlgorithmError: its processes were killed from outside"
    begin, end = "AlgorithmError: ", f", exit code: {code if code >= 0 else 128 - code}"
    return begin + cut(failure, LONGEST_FAILURE - len(begin) - len(end)) + end


class Job:
    """One attempt, from download to upload, in a thread of its own."""

    def __init__(self, order: Order, node: Node) -> None:
        self.order, self._node = order, node
        self.state = "fetching"
        self.began: float | None = None
        self.ended: float | None = None
        self.code: int | None = None
        self.failure = self.why = self.artifact = ""
        self.metrics: dict[str, float] = {}
        self.pid: int | None = None
        self.bound = NONE
        """What holds it to its part of a GPU."""
        self.mps: Mps | None = None
        self._is_hit = False
        """Whether a fault that the jobs of its GPU share has ended it."""
        self.is_removed = False
        """Whether nothing is left of it on the disk."""
        self._uid = node.machine.new_uid()
        self._place = Place(order, node.settings, self._uid)
        config = order.request.get("CheckpointConfig") or {}
        self.checkpoints = str(config.get("S3Uri") or "")
        self._kept: Checkpoints | None = None
        self._cpus: list[int] = []
        self._process: Process | None = None
        self._asked_at: float | None = None
        self._suspended_at: float | None = None
        self._lock = threading.Lock()
        """Never held while the node's is waited for."""
        self._kept_last = threading.Event()
        self._found: threading.Event | None = None
        self._definitions: list[list[str]] = []
        self._since, self._longest = node.clock(), 86_400.0

    # What the orders ask.

    def follow(self, order: Order) -> None:
        """Take in new orders for the attempt."""
        self.order.grace, self.order.suspend = order.grace, order.suspend
        if order.stop:
            self.stop("order")
        elif order.suspend is not None and self.state == "running":
            self._suspend()

    def stop(self, why: str, *, grace: float | None = None) -> None:
        """Begin to end the attempt: SIGTERM now, SIGKILL after the grace."""
        with self._lock:
            if grace is not None:
                self.order.grace = min(grace, self.order.grace)
            if self._asked_at is not None or self.state not in LIVE - {"saving"}:
                return
            self._asked_at, self.why = self._node.clock(), why
            if self._process is not None:
                self._node.link.tell("term", name=self.order.attempt)
                self.state = "stopping"
        self._node.changed()

    def _suspend(self) -> None:
        """Ask the script to release, by the marker that it looks for beside its checkpoints."""
        if self._suspended_at is not None:
            return
        self._suspended_at = self._node.clock()
        name = f"_slotq/{self.order.attempt}/suspend.json"
        asked = int(time.time() * 1000)
        marker = {"version": 1, "asked_at": asked, "grace": self.order.grace}
        with contextlib.suppress(OSError, ValueError):
            if self._kept is not None:
                self._kept.markers.add(name)
            self._place.tree.write(self._folder() / name, json.dumps(marker).encode())

    # Its life.

    def run(self) -> None:
        """Run the attempt. Whatever goes wrong with it ends neither its neighbours nor the node."""
        try:
            process, output = self._start()
            self._watch(process)
            self._is_hit = self._was_hit(process, output)
            self._node.machine.give_back(self)  # Another job may start while this one is saved.
            with contextlib.closing(output):
                state, failure = self._finish(process, output)
            self._end(state, failure)
        except Withdrawn:
            self._end("stopped")
        except JobFault as fault:
            if getattr(fault.__cause__, "errno", None) in {errno.ENOSPC, errno.EDQUOT}:
                self._place.remove()
                self.why = "node" if self._node.inputs.is_full() else self.why
            self._end("failed", f"ClientError: {fault}")
        except Exception as error:
            traceback.print_exc()
            self._kill()
            self.why = "node"
            self._end("failed", f"InternalServerError: the node's agent failed: {error!r}")
        self._node.machine.give_back(self)
        self._node.inputs.release(self.order.attempt)
        try:
            self._place.remove()
        except Exception:
            traceback.print_exc()
        self.is_removed = True
        self._node.changed()

    def _kill(self) -> None:
        """Let nothing of the job run on."""
        if self._process is not None:
            self._node.link.tell("kill", name=self.order.attempt)
            self._process.ended.wait()

    def _start(self) -> tuple[Process, Output]:
        """Prepare and start the job. Raises Withdrawn and JobFault, and OSError where the node
        lacks what a process needs: a full disk, say."""
        try:
            self._node.machine.wait_for_literal(self)
            command, surroundings = self._prepare()
            self._cpus = self._node.machine.wait_for_gpus(self)
            part = self._bind()
            folder = self._folder()
            spec = {
                "command": command[0],
                "folder": str(command[1]),
                "environment": surroundings.variables(self.checkpoints, folder, part),
                "memory_mib": self.order.memory_mib,
                **self._limits(self._uid),
            }
        except (Withdrawn, JobFault):
            raise
        except Exception as error:
            traceback.print_exc()
            raise JobFault(f"the job cannot be prepared: {error!r}") from error
        log = self._node.log_of(self.order.attempt)
        crew(log.run)
        output = Output(log)
        try:
            output.search_by(self._search())
            reads = self._launch(spec)
        except OSError:
            output.abandon()
            raise
        crew(output.read, reads)
        if self._process is None:
            output.close()
            raise Withdrawn
        self._process.begun.wait()
        self.pid = self._process.pid
        self._node.changed()
        if self.order.suspend is not None:
            self._suspend()
        return self._process, output

    def _launch(self, spec: Mapping[str, Any]) -> int:
        """Start the job's process, unless it is withdrawn. Returns its output. Raises OSError."""
        reads, writes = os.pipe()
        try:
            with open(os.devnull, "rb") as nothing, self._lock:
                if self._asked_at is None:
                    start = self._node.link.start
                    self._process = start(self.order.attempt, spec, nothing.fileno(), writes)
                    self.began, self.state = self._node.clock(), "running"
        except OSError:
            os.close(reads)
            raise
        finally:
            os.close(writes)
        return reads

    def check_withdrawn(self) -> None:
        """Raises Withdrawn."""
        if self._asked_at is not None:
            raise Withdrawn

    def _bind(self) -> dict[str, str]:
        """Hold the job to its part of a GPU. Returns the variables for that."""
        self.bound, self.mps, part = self._node.machine.bind(self.order)
        if self.bound == FRAMEWORK:
            part["PYTHONPATH"] = self._place.write_cap()
        return part

    def _prepare(self) -> tuple[tuple[list[str], Path], Surroundings]:
        """Lay out everything that the script needs. Raises Withdrawn and JobFault."""
        order, place, node = self.order, self._place, self._node
        algorithm = order.request.get("AlgorithmSpecification") or {}
        self._definitions = [
            [str(metric["Name"]), str(metric["Regex"])]
            for metric in (algorithm.get("MetricDefinitions") or ())[:_MOST_METRICS]
        ]
        condition = order.request.get("StoppingCondition") or {}
        self._longest = float(condition.get("MaxRuntimeInSeconds") or self._longest)
        place.make()
        gpus = [node.machine.gpu(index) for index in order.gpus]
        cpus = order.cpus or node.machine.cpus_of(len(gpus) * (order.gpu_part or 100))
        around = Surroundings(
            order, place, node.settings, gpus=gpus, cpus=cpus, instance=node.machine.instance
        )
        around.write()
        for channel in order.request.get("InputDataConfig") or ():
            self.check_withdrawn()
            node.inputs.lay(order.attempt, channel, place.base / "input/data", self._uid)
        self._replace_in_drivers()
        self.check_withdrawn()
        folder = self._folder()
        make_folder(folder, None, 0o700)
        if self.checkpoints:
            self._kept = Checkpoints(node.storage, self.checkpoints, folder, place.tree)
            self._kept.restore()
        own_all(place.base / "checkpoints", self._uid)
        own_all(folder, self._uid)
        if self._kept is not None:
            self._kept.begin()
        return around.command(self._fetch_code), around

    def _folder(self) -> Path:
        config = self.order.request.get("CheckpointConfig") or {}
        seen = str(config.get("LocalPath") or "/opt/ml/checkpoints")
        folder = self._place.path(seen)
        if folder == self._place.base or "input" in folder.relative_to(self._place.base).parts[:1]:
            raise JobFault(f"'{seen}' cannot be the folder of checkpoints")
        return folder

    def _replace_in_drivers(self) -> None:
        """Put the job's own folder for /opt/ml into the SDK's driver scripts."""
        for path in (self._place.base / "input/data/sm_drivers").rglob("*"):
            if path.suffix in {".sh", ".py", ".json"} and path.is_file():
                path.write_text(self._place.text(path.read_text()))

    def _fetch_code(self, source: str, folder: Path) -> None:
        if not source.startswith("s3://"):
            brought = self._place.path(OPT_ML.sub("/opt/ml", source.replace("file://", "")))
            shutil.copytree(str(brought), str(folder), dirs_exist_ok=True)
            own_all(folder, self._uid)
            return
        archive = self._place.root / "code.tar.gz"
        self._node.storage.fetch(*self._node.storage.split(source), archive)
        try:
            with archive.open("rb") as file:
                unpack_code(file, folder, self._uid)
        except (tarfile.TarError, EOFError, OSError, RecursionError, zlib.error) as error:
            raise JobFault(f"{source} is not a tar file: {error}") from error
        archive.unlink()

    def _limits(self, uid: int | None) -> dict[str, Any]:
        return {"uid": uid, "cpus": self._cpus, "processes": self._node.settings.processes}

    def _search(self) -> int | None:
        """Start the search for metrics. Returns the pipe to it; None without definitions."""
        if not self._definitions:
            return None
        lines, feed = os.pipe()
        found, finds = os.pipe()
        uid = None if self._uid is None else self._uid + 1  # It outlives the job for a moment.
        spec = {"metrics": self._definitions, **self._limits(uid)}
        try:
            self._node.link.start(self.order.attempt + "/metrics", spec, lines, finds)
        except OSError:
            os.close(feed)
            os.close(found)
            raise
        finally:
            os.close(lines)
            os.close(finds)
        self._found = threading.Event()
        crew(self._take_metrics, found)
        return feed

    def _take_metrics(self, descriptor: int) -> None:
        with open(descriptor, "rb") as stream:
            for raw in stream:
                with contextlib.suppress(ValueError, TypeError, AttributeError):
                    for name, value in json.loads(raw).items():
                        if math.isfinite(value) and len(self.metrics) < _MOST_METRICS:
                            self.metrics[cut(name, 255)] = float(value)
        assert self._found is not None
        self._found.set()

    def _watch(self, process: Process) -> None:
        """Wait until nothing is left of the job. Enforces the graces and the maximum runtime, and
        uploads checkpoints."""
        done = threading.Event()
        crew(self._keep, done)
        was_killed = False
        while not process.ended.wait(0.1):
            now = self._node.clock()
            if now - self._since > self._longest:
                self.stop("max_runtime")
            if self._suspended_at is not None and now > self._suspended_at + self.order.grace:
                self.stop("suspend")
            if self._asked_at is not None and now > self._asked_at + self.order.grace:
                if not was_killed:
                    if self.mps is not None and self.pid is not None:
                        self.mps.terminate(self.pid)
                    self._node.link.tell("kill", name=self.order.attempt)
                was_killed = True
            if self.mps is not None:
                self.mps.look()
        done.set()

    def _was_hit(self, process: Process, output: Output) -> bool:
        """Whether the job failed because of a fault that the jobs of its GPU share."""
        if self.mps is None or not process.code or self.why:
            return False
        output.over.wait(5.0)
        return self.mps.has_hit(self.order.attempt, output.tail())

    def _keep(self, done: threading.Event) -> None:
        """Upload checkpoints while the job runs."""
        while not done.wait(self._node.settings.sync):
            try:
                if self._kept is not None:
                    self._kept.sync()
            except Exception as fault:
                say(f"checkpoints of {self.order.attempt}: {fault}")
        self._kept_last.set()

    def _finish(self, process: Process, output: Output) -> tuple[str, str]:
        """Save what the job has left. Returns how it ended, and its failure. Raises JobFault."""
        output.over.wait(5.0)
        if self._found is not None and not self._found.wait(2.0):
            self._node.link.tell("kill", name=self.order.attempt + "/metrics")
        self.code = process.code
        if process.lost_lease or (process.refused and not process.error.startswith("cannot")):
            self.why = "lease"
        with self._lock:
            self.state = "saving"
        self._node.changed()
        failure = self._failure_of(process, output)
        state = verdict(self.code, failure, asked=bool(self.why))
        if process.memory is not None:
            state, self.why = "failed", "memory"
            said = "AlgorithmError: it used {:,} MiB of memory: its part of the node is {:,} MiB"
            text = said.format(process.memory, self.order.memory_mib or 0)
        elif process.error and self.why != "lease":
            state, text = "failed", "ClientError: " + process.error
        elif state == "failed" and self._is_hit:
            self.why, text = "shared_fault", SHARED_FAULT.format(self.order.gpus[0])
        else:
            text = "" if state in {"completed", "stopped"} else reason(self.code, failure)
        self._kept_last.wait()
        self._save(state)
        return state, text

    def _failure_of(self, process: Process, output: Output) -> str:
        """What the job says of its failure: its own words, or the end of its output."""
        tree, base = self._place.tree, self._place.base
        said = tree.read(base / "output/failure", 64 << 10).decode(errors="replace").strip()
        tail = output.tail()
        if (
            not said
            and process.code
            and PROGRAM in (self.order.request.get("HyperParameters") or ())
        ):
            said = f'ExecuteUserScriptError:\nExitCode {process.code}\nErrorMessage "{tail[-700:]}"'
        if process.code and not self.order.literal and self._node.machine.names_base(tail):
            advice = LITERAL + (OR_TAG if self._node.machine.has_uids else "")
            said = f"{advice}. {said}" if said else advice
        return said

    def _save(self, state: str) -> None:
        """Upload the checkpoints, and of what completed or was stopped the artifacts. A fault of
        the network is tried again for some minutes. Raises JobFault."""
        until = self._node.clock() + 300
        while True:
            try:
                if self._kept is not None:
                    self._kept.sync(last=True)
                if state in {"completed", "stopped"}:
                    self._upload()
                return
            except JobFault as fault:
                if self._node.aws.refuses(fault.__cause__) or self._node.clock() > until:
                    raise
            except Exception as error:
                traceback.print_exc()
                raise JobFault(f"Artifact upload failed: {error!r}") from error
            time.sleep(2)

    def _upload(self) -> None:
        """Upload the model as model.tar.gz, or as single files if CompressionType is NONE, and
        output/data as output.tar.gz. Raises JobFault."""
        config = self.order.request.get("OutputDataConfig") or {}
        if not config.get("S3OutputPath"):
            return
        base = "{}/{}/output".format(config["S3OutputPath"].rstrip("/"), self.order.attempt)
        key_id = str(config.get("KmsKeyId") or "")
        tree, storage = self._place.tree, self._node.storage
        model = tree.files(self._place.base / "model")
        if config.get("CompressionType") == "NONE":
            for name, path in model:
                with contextlib.suppress(PermissionError), tree.open(path) as file:
                    storage.put(file, f"{base}/model/{name}", key_id)
            self.artifact = base + "/model/"
        else:
            self._upload_tar(model, base + "/model.tar.gz", key_id)
            self.artifact = base + "/model.tar.gz"
        data = tree.files(self._place.base / "output/data")
        if data:
            self._upload_tar(data, base + "/output.tar.gz", key_id)

    def _upload_tar(self, files: Sequence[tuple[str, Path]], uri: str, key_id: str) -> None:
        archive = self._node.private / f"{self.order.attempt}.tar.gz"
        try:
            with tarfile.open(str(archive), "w:gz", compresslevel=1) as tar:
                for name, path in files:
                    with contextlib.suppress(PermissionError), self._place.tree.open(path) as file:
                        tar.addfile(_entry(tar, name, file), file)
            with archive.open("rb") as file:
                self._node.storage.put(file, uri, key_id)
        except OSError as error:
            raise JobFault(f"Artifact upload failed: {uri}: {error}") from None
        finally:
            with contextlib.suppress(FileNotFoundError):
                archive.unlink()

    def _end(self, state: str, failure: str = "") -> None:
        with self._lock:
            self.ended, self.state = self._node.clock(), state
            self.failure = cut(failure, LONGEST_FAILURE)
        self._node.changed()


def _entry(tar: tarfile.TarFile, name: str, file: BinaryIO) -> tarfile.TarInfo:
    entry = tar.gettarinfo(arcname=name, fileobj=file)
    entry.type, entry.linkname = tarfile.REGTYPE, ""
    entry.size = os.fstat(file.fileno()).st_size
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


# --- parts ---

MPS, FRAMEWORK, NONE = "mps", "framework", "none"
"""What holds a job to its part of a GPU. None: it has whole GPUs."""
MPS_CONTROL = "nvidia-cuda-mps-control"
SHARED_FAULT = "a fatal fault on GPU {}, of one of the jobs that share it, ended this one"

FRAMEWORK_CAP = """
# Caps the memory of torch and TensorFlow on the GPU once the script imports them.
import importlib.machinery, importlib.util, os, sys

fraction = float(os.environ.get("SLOTQ_GPU_FRACTION", 1))
memory = int(os.environ.get("SLOTQ_GPU_MEMORY", 0)) >> 20


def attempted(cap, *arguments):
    try:
        cap(*arguments)
    except Exception as error:
        print("slotq: no cap on GPU memory:", repr(error), file=sys.stderr)


def cap_torch(cuda):  # Not before the script uses CUDA: this must not initialise it.
    cuda._lazy_call(lambda: attempted(cuda.set_per_process_memory_fraction, fraction))


def cap_tensorflow(tensorflow):
    config = tensorflow.config
    gpus = config.list_physical_devices("GPU")
    if gpus and memory:
        limit = config.LogicalDeviceConfiguration(memory_limit=memory)
        config.set_logical_device_configuration(gpus[0], [limit])
        # TensorFlow refuses it beside a limit, and TF_FORCE_GPU_ALLOW_GROWTH says the same.
        config.experimental.set_memory_growth = lambda device, enable: None


class Caps:
    caps = {"torch.cuda": cap_torch, "tensorflow": cap_tensorflow}

    def find_spec(self, name, path=None, target=None):
        cap = self.caps.pop(name, None)
        if cap is None:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find and find(name, path, target)
            if spec:
                run = getattr(spec.loader, "exec_module", None)
                if run:
                    spec.loader.exec_module = lambda module: self.run(run, module, cap)
                return spec

    def run(self, run, module, cap):
        run(module)
        attempted(cap, module)


sys.meta_path.insert(0, Caps())

# The sitecustomize that Python would have found without this one.
here = os.path.dirname(os.path.abspath(__file__))
path = [entry for entry in sys.path if os.path.abspath(entry) != here]
spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
if spec and spec.loader:
    sys.modules["sitecustomize"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
"""
"""A `sitecustomize.py` for jobs with a part of a GPU."""


class Mps:
    """The MPS control daemon of one GPU: it runs while jobs have parts of the GPU. Thread-safe.

    A fatal fault of one client ends all clients of the server, and nothing says for certain which
    one it was. So it blames none of them.
    """

    SECONDS = 2.0
    """How long one answer may take: a stopped client hangs the daemon."""
    MOMENTS = 60.0
    """How long after a fault a client may go on before it asks the GPU again."""
    TOGETHER = 5.0
    """How long a job that names a fault of its GPU waits for another one that does, too."""
    _FATAL = re.compile(rb"fatal|\bFAULT\b")
    """What the server logs of a fault."""
    _NAMED = re.compile(
        r"illegal (memory access|address|instruction)|misaligned address|unspecified launch failure"
        r"|CUDA_ERROR_(ILLEGAL|MISALIGNED|LAUNCH_FAILED|MPS)|\bMPS (server|client|RPC)",
        re.IGNORECASE,
    )
    """What a job prints that a fault has hit. A failed device-side assert hits its own alone."""

    def __init__(self, gpu: Gpu, folder: Path, *, many_users: bool) -> None:
        self._gpu, self._folder, self._many_users = gpu, folder, many_users
        self._environment = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": gpu.uuid,
            "CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(folder / "log"),
        }
        self._daemon: subprocess.Popen[bytes] | None = None
        self._jobs: dict[str, float] = {}
        """When each joined."""
        self._faults: list[tuple[float, bool]] = []
        """When, and whether even a job that was alone then is not to blame."""
        self._named: dict[str, float] = {}
        """When jobs named a fault."""
        self._read = 0
        self._news = threading.Condition()

    def join(self, attempt: str) -> bool:
        """Let a job be a client. Returns False if no daemon can be started for it."""
        self.look()
        with self._news:
            is_there = self._daemon is not None or self._start()
            if is_there:
                self._jobs[attempt] = time.monotonic()
            return is_there

    def leave(self, attempt: str) -> None:
        """Nothing of the job runs any more. The daemon ends with its last one."""
        with self._news:
            self._jobs.pop(attempt, None)
            if not self._jobs:
                self._end()

    def variables(self, part: int, memory_mib: int) -> dict[str, str]:
        """The variables of a client. By its UUID alone is a GPU the same before and behind the
        daemon."""
        return {
            "CUDA_VISIBLE_DEVICES": self._gpu.uuid,
            "CUDA_MPS_PIPE_DIRECTORY": self._environment["CUDA_MPS_PIPE_DIRECTORY"],
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"{self._gpu.uuid}={memory_mib}M",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(part),
        }

    def terminate(self, keeper: int) -> None:
        """Let the server end a job's clients, so that the kill to come meets no work of theirs on
        the GPU. Gives up with the first answer that is late."""
        for server in self._ask("get_server_list") or ():
            clients = self._ask(f"get_client_list {server}") or ()
            for pid in below(keeper):
                if str(pid) in clients and self._ask(f"terminate_client {server} {pid}") is None:
                    return

    def look(self) -> None:
        """Note the faults since the last look: those that the server has logged, and the daemon's
        end."""
        with self._news:
            now = time.monotonic()
            if self._FATAL.search(self._logged()):
                self._faults.append((now, len(self._jobs) > 1))
            if self._daemon is not None and self._daemon.poll() is not None:
                self._faults.append((now, True))
                self._end()

    def has_hit(self, attempt: str, tail: str) -> bool:
        """Whether a job that has failed, with this end of its output, did so by a fault that it
        shares: there was one moments ago, and the job was not alone or came later; or it and
        another job name one in their outputs within moments."""
        self.look()
        with self._news:
            now, joined = time.monotonic(), self._jobs[attempt]
            for at, is_shared in self._faults:
                is_recent = now - at < self.MOMENTS and joined - at < self.TOGETHER
                if is_recent and (is_shared or joined > at):
                    return True
            if not self._NAMED.search(tail):
                return False
            self._named[attempt] = now
            self._news.notify_all()
            return self._news.wait_for(
                lambda: sum(at > now - self.TOGETHER for at in self._named.values()) > 1,
                self.TOGETHER if len(self._jobs) > 1 else 0,
            )

    def _logged(self) -> bytes:
        """The whole lines that the server has logged since the last look."""
        log = self._folder / "log/server.log"
        with contextlib.suppress(OSError):
            if log.stat().st_size > self._read:
                with log.open("rb") as file:
                    file.seek(self._read)
                    new = file.read()
                new = new[: new.rfind(b"\n") + 1]
                self._read += len(new)
                return new
        return b""

    def _start(self) -> bool:
        self._read = 0
        remove_tree(self._folder)
        words = [MPS_CONTROL, "-f", *(["-multiuser-server"] if self._many_users else [])]
        try:
            for path, mode in (
                (self._folder.parent, 0o711),
                (self._folder, 0o711),
                (self._folder / "pipe", 0o755),
                (self._folder / "log", 0o700),
            ):
                make_folder(path, None, mode)
            self._daemon = subprocess.Popen(  # nosec B603
                words,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return False
        until = time.monotonic() + 5 * self.SECONDS
        while self._daemon.poll() is None and time.monotonic() < until:
            if self._ask("get_server_list") is not None:
                return True
            time.sleep(0.05)
        self._end()
        return False

    def _end(self) -> None:
        """End the daemon, and kill what is left of it and its server."""
        daemon, self._daemon = self._daemon, None
        if daemon is None:
            return
        if daemon.poll() is None and self._ask("quit") is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(self.SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()

    def _ask(self, command: str) -> list[str] | None:
        """The words of the daemon's answer; None: there is none in time."""
        try:
            ran = subprocess.run(  # nosec B603
                [MPS_CONTROL],
                env=self._environment,
                input=command.encode() + b"\n",
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=self.SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return ran.stdout.decode(errors="replace").split()


# --- machine ---


class Gpu:
    def __init__(
        self, index: int, name: str, memory_mib: int | None = None, uuid: str = ""
    ) -> None:
        self.index, self.name, self.memory_mib, self.uuid = index, name, memory_mib, uuid


def find_gpus(setting: str) -> list[Gpu]:
    """The node's GPUs: a list of names, `pretend:N` or `pretend:NxMIB`, or what nvidia-smi
    finds."""
    if setting.startswith("pretend:"):
        count, _, mib = setting[len("pretend:") :].partition("x")
        return [Gpu(index, str(index), int(mib) if mib else None) for index in range(int(count))]
    found = _gpus_of_machine()
    if not setting:
        return found
    known = {name: gpu for gpu in found for name in (gpu.name, gpu.uuid)}
    named = []
    for index, name in enumerate(name.strip() for name in setting.split(",")):
        gpu = known.get(name)
        named.append(Gpu(index, name, gpu.memory_mib, gpu.uuid) if gpu else Gpu(index, name))
    return named


def _gpus_of_machine() -> list[Gpu]:
    wanted = "--query-gpu=index,memory.total,uuid"
    try:
        ran = subprocess.run(  # nosec B603 B607
            ["nvidia-smi", wanted, "--format=csv,noheader,nounits"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return gpus_in(ran.stdout.decode(errors="replace"))


def gpus_in(text: str) -> list[Gpu]:
    """The GPUs in the answer of nvidia-smi: `0, 81559, GPU-1a2b`, one a line."""
    found: list[Gpu] = []
    for line in text.splitlines():
        number, memory, uuid = (*(part.strip() for part in line.split(",")), "", "")[:3]
        if number.isdigit():
            mib = int(memory) if memory.isdigit() else None
            found.append(Gpu(len(found), number, mib, uuid))
    return found


def memory_of_machine() -> int:
    """MiB that the container may use."""
    total = os.sysconf("SC_PHYS_PAGES") * resource.getpagesize()
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            total = min(total, int(Path("/sys/fs/cgroup", name).read_text()))
    return total >> 20


def lock_base(base: Path, *, has_uids: bool) -> str:
    """Make the node's /opt/ml read-only for jobs, whether or not they have users of their own.
    Returns what could not be done."""
    if not base.is_dir():
        return ""
    refused = ""
    own = 0 if has_uids else stat.S_IWUSR
    for path in (base, *base.iterdir()):
        with contextlib.suppress(FileNotFoundError):
            try:
                if path.is_dir() and not path.is_symlink():
                    mode = stat.S_IMODE(path.stat().st_mode)
                    path.chmod(mode & ~(stat.S_IWGRP | stat.S_IWOTH | own))
            except OSError as error:
                refused = f"{path} stays writable for jobs: {error.strerror}"
    return refused


class Machine:
    """What jobs share, and what each has for itself: GPUs, CPUs, users, /opt/ml."""

    def __init__(self, settings: Settings) -> None:
        self._base, self._work = settings.base, settings.work
        self.instance = _instance(settings.base)
        """The node's own resource configuration."""
        self.gpus = find_gpus(settings.gpus)
        self._free_cpus = sorted(os.sched_getaffinity(0))
        self.cpus, self.memory_mib = len(self._free_cpus), memory_of_machine()
        self.has_uids, without = has_uids(settings.first_uid)
        self.problems = {
            "base": lock_base(settings.base, has_uids=self.has_uids),
            "uids": without,
        }
        self._next_uid = settings.first_uid
        self._literal_user: Job | None = None
        self._gpu_users: dict[int, dict[Job, int]] = {}
        """The hundredths of each GPU that jobs have."""
        self._mps = self._daemons(settings)
        self._cpu_users: dict[Job, list[int]] = {}
        self.moved = threading.Condition()
        """Notified of each change of the node."""

    def new_uid(self) -> int | None:
        """A user for a job, and the next one for its search for metrics. No two jobs of a node have
        one, so that nothing which a job left behind is another's."""
        if not self.has_uids:
            return None
        while True:
            uid = self._next_uid
            self._next_uid += 2
            if not any(_is_known(one) for one in (uid, uid + 1)):
                return uid

    def gpu(self, index: int) -> str:
        """What CUDA calls a GPU. Raises JobFault."""
        if not 0 <= index < len(self.gpus):
            raise JobFault(f"the node has no GPU {index}: it has {len(self.gpus)}")
        return self.gpus[index].name

    def cpus_of(self, hundredths: int) -> int:
        """How many CPUs a job with so many GPUs reckons with that has none of its own."""
        return max(1, self.cpus * hundredths // max(1, 100 * len(self.gpus)))

    def wait_for_literal(self, job: Job) -> None:
        """Wait until no other job has the node's /opt/ml, and take it. Raises Withdrawn, and
        JobFault where jobs have no users of their own: an open /opt/ml is open to all of them."""
        if job.order.literal and not self.has_uids:
            raise JobFault(NO_LITERAL)
        with self.moved:
            while job.order.literal and self._literal_user is not job:
                job.check_withdrawn()
                if self._literal_user is None or self._literal_user.is_removed:
                    self._literal_user = job
                else:
                    self.moved.wait(0.5)

    def wait_for_gpus(self, job: Job) -> list[int]:
        """Wait until the job's GPUs, or its part of one, are free, and take them. Returns the CPUs
        that are the job's; none: all. Raises Withdrawn."""
        wanted = job.order.gpu_part or 100
        with self.moved:
            while any(self._taken(index) + wanted > 100 for index in job.order.gpus):
                job.check_withdrawn()
                self.moved.wait(0.5)
            for index in job.order.gpus:
                self._gpu_users.setdefault(index, {})[job] = wanted
            count = job.order.cpus or 0
            if not 0 < count <= len(self._free_cpus):
                return []
            self._cpu_users[job] = self._free_cpus[:count]
            del self._free_cpus[:count]
            return self._cpu_users[job]

    def _taken(self, index: int) -> int:
        return sum(self._gpu_users.get(index, {}).values())

    def _daemons(self, settings: Settings) -> dict[int, Mps]:
        """MPS for each GPU whose jobs may share a server. None of them runs yet."""
        if settings.is_shared or shutil.which(MPS_CONTROL) is None:
            return {}
        return {
            gpu.index: Mps(gpu, settings.work / "mps" / str(gpu.index), many_users=self.has_uids)
            for gpu in self.gpus
            if gpu.uuid and gpu.memory_mib
        }

    def bind(self, order: Order) -> tuple[str, Mps | None, dict[str, str]]:
        """Hold a job to its part of a GPU. Returns what does, and the variables for that and those
        that tell the job its part."""
        part = order.gpu_part
        if part is None:
            return NONE, None, {}
        gpu = self.gpus[order.gpus[0]]
        variables = {"SLOTQ_GPU_FRACTION": f"{part / 100:g}"}
        memory = (gpu.memory_mib or 0) * part // 100
        if memory:
            variables["SLOTQ_GPU_MEMORY"] = str(memory << 20)
        mps = self._mps.get(gpu.index)
        if mps is not None and mps.join(order.attempt):
            return MPS, mps, {**variables, **mps.variables(part, memory)}
        if mps is not None:
            say(f"MPS does not start on GPU {gpu.index}: {order.attempt} has its framework's cap")
        variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] = variables["SLOTQ_GPU_FRACTION"]
        variables["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
        return FRAMEWORK, None, variables

    def give_back(self, job: Job) -> None:
        """Nothing of the job runs any more."""
        if job.mps is not None:
            job.mps.leave(job.order.attempt)
        with self.moved:
            for users in self._gpu_users.values():
                users.pop(job, None)
            self._free_cpus = sorted(self._free_cpus + self._cpu_users.pop(job, []))
            self.moved.notify_all()

    def names_base(self, text: str) -> bool:
        """Whether the output says that something below the node's /opt/ml was refused."""
        names = re.compile(f"(/opt/ml|{re.escape(str(self._base))})(?![\\w.-])")
        lines = text.replace(str(self._work), "").splitlines()  # Jobs' folders may lie below.
        return any(_REFUSED.search(line) and names.search(line) for line in lines)


def _instance(base: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((base / "input/config/resourceconfig.json").read_text())
        return found if isinstance(found, dict) else {}
    return {}


# --- node ---

REPORT_SECONDS, RETRY_SECONDS = 30.0, 2.0
STOP_SECONDS = 90.0
"""How long a node that SageMaker stops may save: it is killed after 120 s."""
STOP_GRACE = 30.0


def crew(work: Callable[..., None], *arguments: Any) -> None:
    """Run something in a thread. An error that it does not expect ends the worker, and with it the
    node: no job runs on unsupervised."""

    def guarded() -> None:
        try:
            work(*arguments)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(CRASHED)

    threading.Thread(target=guarded, daemon=True).start()


class Node:
    """The jobs of the node, and what the queue and the node say to each other."""

    def __init__(
        self,
        settings: Settings,
        link: Link,
        aws: Aws,
        *,
        token: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self.link, self.aws, self.clock = settings, link, aws, clock
        self._token, self._born = token, clock()
        self.private = settings.work / "agent"
        self.storage = Storage(aws)
        self.inputs = Inputs(self.storage, settings.work / "inputs")
        self._jobs: dict[str, Job] = {}
        self._forgotten: set[str] = set()
        """Attempts that orders did not list any more after their ends."""
        self.machine = Machine(settings)
        self._problems = dict(self.machine.problems)
        self._etag = ""
        self._lease = settings.lease
        self._orders = self._number = 0
        self._leaves = False
        self._stopped_at: float | None = None
        self._reporting = threading.Lock()
        self._moved = self.machine.moved
        self._moves = self._shown = 0
        """How many changes there have been that a report should show, and how many it has shown."""

    def log_of(self, attempt: str) -> LogStream:
        host = str(self.machine.instance.get("current_host") or "algo-1")
        return LogStream(self.aws.logs, attempt, host)

    # Orders.

    def poll(self) -> None:
        """Read the orders again and again."""
        while True:
            self.read_orders()
            time.sleep(self.settings.poll)

    def read_orders(self) -> None:
        """Read the orders once. After an error of S3 nothing changes."""
        known = {"IfNoneMatch": self._etag} if self._etag else {}
        place = {"Bucket": self.settings.bucket, "Key": self.settings.prefix + "orders.json"}
        try:
            found = self.aws.control.get_object(**place, **known)
            content = found["Body"].read(LARGEST_ORDERS + 1)
        except Exception as error:
            if self.aws.code(error) in {"304", "NotModified", "NoSuchKey", "404"}:
                error_text = ""
            else:
                error_text = f"orders cannot be read: {error}"
            self.problem("S3", error_text)
            return
        self.problem("S3", "")
        self.obey(content)
        self._etag = found.get("ETag", "")

    def obey(self, content: bytes) -> None:
        """Make what runs here what the orders say. Orders that cannot be read change nothing."""
        settings = self.settings
        try:
            orders = read_orders(content, settings.node, settings.generation, self._orders)
        except BadOrders as error:
            self.problem("orders", str(error))
            return
        self.problem("orders", "")
        if orders is None:
            return
        with self._moved:
            self._orders, self._lease = orders.number, orders.lease
            self._leaves |= orders.leave
            listed = {order.attempt for order in orders.attempts}
            for name in self._jobs.keys() - listed:
                if self._jobs[name].state in LIVE:
                    self._jobs[name].stop("order")
                else:
                    self._forgotten.add(name)
                    if self._jobs[name].is_removed:
                        del self._jobs[name]
            for order in orders.attempts:
                self._follow(order)
            if self._leaves:
                self._stop_all("order")
        self.changed()

    def _follow(self, order: Order) -> None:
        if order.attempt in self._forgotten:
            say(f"{order.attempt} has run and ended here: it does not run again")
            self.problem(
                "again", "an attempt that has ended here is ordered: it does not run again"
            )
            return
        job = self._jobs.get(order.attempt)
        if job is not None:
            job.follow(order)
            return
        if len([job for job in self._jobs.values() if job.state in LIVE]) >= MOST_JOBS:
            self.problem("jobs", f"a node runs at most {MOST_JOBS} jobs")
            return
        self.problem("jobs", "")
        self._jobs[order.attempt] = job = Job(order, self)
        if order.stop or self._leaves:
            job.stop("order")
        crew(job.run)

    def _stop_all(self, why: str, grace: float | None = None) -> None:
        for job in self._jobs.values():
            job.stop(why, grace=grace)

    def sigterm(self) -> None:
        """SageMaker stops the node."""
        with self._moved:
            if self._stopped_at is None:
                self._stopped_at, self._leaves = self.clock(), True
            self._stop_all("node", STOP_GRACE)
        self.changed()

    # Reports.

    def problem(self, about: str, text: str) -> None:
        """Keep a problem for the report; an empty text takes it back."""
        known, self._problems[about] = self._problems.get(about, ""), text
        if bool(known) != bool(text):  # Other words for a known problem are no news.
            if text:
                say(text)
            self.changed()

    def changed(self) -> None:
        with self._moved:
            self._moves += 1
            self._moved.notify_all()

    def document(self) -> dict[str, Any]:
        """The report, without its proof."""
        with self._moved:
            self._number += 1
            self._shown = self._moves
            return {
                "version": VERSION,
                "node": self.settings.node,
                "generation": self.settings.generation,
                "number": self._number,
                "orders": self._orders,
                "uptime_ms": self._since_birth(self.clock()),
                "state": "leaving" if self._leaves else "ready",
                "uids": self.machine.has_uids,
                "gpus": [
                    {"index": gpu.index, "id": gpu.name, "memory_mib": gpu.memory_mib}
                    for gpu in self.machine.gpus
                ],
                "cpus": self.machine.cpus,
                "memory_mib": self.machine.memory_mib,
                "problems": [
                    cut(text, LONGEST_PROBLEM) for text in self._problems.values() if text
                ][:MOST_PROBLEMS],
                "attempts": [
                    self._attempt(job)
                    for name, job in sorted(self._jobs.items())
                    if name not in self._forgotten
                ],
            }

    def _attempt(self, job: Job) -> dict[str, Any]:
        return {
            "attempt": job.order.attempt,
            "state": job.state,
            "began_ms": self._since_birth(job.began),
            "ended_ms": self._since_birth(job.ended),
            "exit": job.code,
            "failure": job.failure,
            "why": job.why,
            "artifact": cut(job.artifact, LONGEST_URI),
            "checkpoints": cut(job.checkpoints, LONGEST_URI),
            "gpu_bound": job.bound,
            "metrics": dict(job.metrics),
            "pid": job.pid,
        }

    def _since_birth(self, moment: float | None) -> int | None:
        return None if moment is None else int((moment - self._born) * 1000)

    def report(self) -> bool:
        """Write a report. Returns whether it was accepted: that renews the lease, from the moment
        before the first request."""
        with self._reporting:  # A report never overtakes a later one.
            return self._report()

    def _report(self) -> bool:
        began, is_news = self.clock(), self._number == 0 or self._moves != self._shown
        document = self.document()
        body = canonical(with_proof(document, self._token))
        if len(body) > LARGEST_REPORT:
            for attempt in document["attempts"]:
                attempt.update(metrics={}, failure=attempt["failure"][:100])
            body = canonical(with_proof(document, self._token))
        if not self._put(body):
            return False
        self.link.tell("lease", until=began + self._lease)
        if self.settings.route and is_news:
            self._post()
        return True

    def _put(self, body: bytes) -> bool:
        place = {"Bucket": self.settings.bucket, "Key": self.settings.prefix + "report.json"}
        try:
            self.aws.control.put_object(**place, Body=body, ContentType="application/json")
        except self.aws.errors as error:
            self.problem("report", f"reports cannot be written to S3: {error}")
            return False
        self.problem("report", "")
        return True

    def _post(self) -> None:
        """Let the queue read the report now. Without an answer, its tick does."""
        try:
            status = self.aws.post(self.settings.route, b"{}")
            problem = "" if 200 <= status < 300 else f"the route answers {status}"
        except Exception as error:
            problem = f"the route does not answer: {error}"
        self.problem("route", problem)

    def keep_reporting(self) -> None:
        """Report each change, and each 30 s without one."""
        while True:
            accepted = self.report()
            if not accepted:
                time.sleep(RETRY_SECONDS)
                continue
            with self._moved:
                pause = min(REPORT_SECONDS, self._lease / 3)
                self._moved.wait_for(lambda: self._moves != self._shown, pause)

    # Its life.

    def run(self) -> None:
        """Run until the orders say to leave, or SageMaker stops the node."""
        self.link.on_sigterm = self.sigterm
        crew(self.link.listen)
        crew(self.keep_reporting)
        crew(self.poll)
        with self._moved:
            while not self._is_over():
                self._moved.wait(1.0)
        for _ in range(3):
            if self.report():
                return
            time.sleep(RETRY_SECONDS)

    def _is_over(self) -> bool:
        stopped = self._stopped_at
        if stopped is not None and self.clock() > stopped + STOP_SECONDS:
            return True
        return self._leaves and not any(job.state in LIVE for job in self._jobs.values())


_REFUSED = re.compile(r"Permission denied|Read-only file system|No such file", re.IGNORECASE)


def _is_known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def work(settings: Settings, link: socket.socket, token_fd: int) -> None:
    """The worker."""
    with open(token_fd) as file:
        token = file.read()
    make_folder(settings.work, None, 0o711)
    for name, mode in (("agent", 0o700), ("jobs", 0o711), ("inputs", 0o700)):
        shutil.rmtree(str(settings.work / name), ignore_errors=True)
        make_folder(settings.work / name, None, mode)
    try:
        aws = Aws()
    except ImportError as error:
        raise SystemExit(f"the image cannot be a node: {error}") from None
    Node(settings, Link(link, settings.work / "agent"), aws, token=token).run()


def main() -> int:
    """The container's first process. Returns its exit code."""
    if TOKEN in os.environ:
        _start_again_without_token()
    token_fd = int(os.environ.pop(TOKEN_FD))
    settings = Settings(os.environ)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_DUMPABLE, 0)  # No process of the same user reads this one's memory.
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    supervisor = os.getpid()
    worker = os.fork()
    if worker:
        its.close()
        os.close(token_fd)
        return supervise(ours, worker)
    code = CRASHED
    try:
        ours.close()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(PR_SET_CHILD_SUBREAPER, 1)  # The supervisor kills orphans: those of MPS are no job's.
        if os.getppid() == supervisor:
            work(settings, its, token_fd)
            code = 0
    except SystemExit as error:
        _leave_failure(settings, str(error))
    except BaseException as error:
        traceback.print_exc()
        _leave_failure(settings, f"the node's agent failed: {error!r}")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _leave_failure(settings: Settings, text: str) -> None:
    """SageMaker shows it as the node's FailureReason."""
    say(text)
    with contextlib.suppress(OSError):
        (settings.base / "output").chmod(0o755)
        (settings.base / "output/failure").write_text(cut(text, LONGEST_FAILURE))


def _start_again_without_token() -> NoReturn:
    """Start the agent again: the kernel shows the environment that a process began with."""
    reads, writes = os.pipe()
    os.write(writes, os.environ[TOKEN].encode())
    os.close(writes)
    os.set_inheritable(reads, True)  # noqa: FBT003
    environment = {name: text for name, text in os.environ.items() if name != TOKEN}
    environment[TOKEN_FD] = str(reads)
    command = [sys.executable, os.path.abspath(__file__)]
    os.execve(sys.executable, command, environment)  # nosec B606


if __name__ == "__main__":
    sys.exit(main())

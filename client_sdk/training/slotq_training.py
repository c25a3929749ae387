"""Make a training script suspendable: one file, to be imported by the script.

    import slotq_training as slotq

    for step in range(start, steps):
        train()
        slotq.report(step, of=steps)
        if slotq.should_suspend():
            save()
            slotq.suspend()

Standard library only, Python 3.8 or newer. boto3 is imported only on SageMaker, to ask S3 and
SageMaker whether the queue wants the job's slots. Importing this file does nothing else: the first
call starts a background thread.

In reading order:

formats       the marker, the report, the release: what the queue writes and reads
surroundings  where the script runs: folders, names, nodes
checkpoints   saved states on disk: atomic, verified
agreement     all ranks stop at the same step
signals       how the process learns of a suspend
words         should_suspend, suspend, on_suspend, report, life_state …
rendezvous    the members of a group find each other
worlds        the members of an elastic group meet again when one comes or goes
manager       checkpoint.manager
libraries     callbacks for PyTorch Lightning and transformers.Trainer
HFAI          the names of HFAI's library
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import hashlib
import importlib
import io
import itertools
import json
import multiprocessing
import multiprocessing.connection
import operator
import os
import pickle  # nosec B403 - a script reads the checkpoints that it has written itself
import random
import re
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
import zlib
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, Callable, Dict, Iterable, Iterator, Mapping, NamedTuple, Tuple

__all__ = [
    "attempt",
    "checkpoint",
    "checkpoint_dir",
    "distributed_env",
    "hfai",  # noqa: F822 - made at its first use
    "life_state",
    "limit_gpu_memory",
    "on_suspend",
    "rendezvous",
    "report",
    "resumable",
    "should_suspend",
    "suspend",
    "world",
]
__version__ = "0.2.0"

# --- formats ---
# What the queue and the script tell each other. All of it lies below the job's checkpoints, in S3
# (CheckpointConfig.S3Uri) as on disk. Names contain the training job of the attempt, so nothing
# that an earlier attempt left is mistaken for news.

FOLDER = "_slotq"
"""The folder below the checkpoints."""
RELEASED = "slotq-released"
"""The text of /opt/ml/output/failure that says: the job is saved, take its slots."""
EXIT_RELEASED = 75
"""The exit code that goes with it (EX_TEMPFAIL of sysexits.h)."""
ATTEMPT, CHECKPOINTS, CHECKPOINT_DIR, PORT = (
    "SLOTQ_ATTEMPT",
    "SLOTQ_CHECKPOINTS",
    "SLOTQ_CHECKPOINT_DIR",
    "SLOTQ_PORT",
)
"""Environment variables that a job may have: the attempt's number, the S3 URI of the checkpoints,
the folder of the checkpoints, and the port at which the ranks of several nodes agree."""
PASSES_SIGTERM = "SLOTQ_PASSES_SIGTERM"
"""Environment variable, `1`: SIGTERM reaches the script, so it never asks for the job's status."""
FORMAT = 1
"""The version of the documents below."""


def marker_name(training_job: str) -> str:
    """Where the queue asks an attempt to suspend, relative to the checkpoints.

    The object may be empty. Or it is JSON: {"version": 1, "asked_at": ms, "grace": seconds}.
    """
    return f"{FOLDER}/{training_job}/suspend.json"


def report_name(training_job: str) -> str:
    """Where the script writes the report of an attempt, relative to the checkpoints (JSON).

    version        1
    training_job   the attempt's training job
    at             when it was written (ms)
    started_at     when the script first used this file (ms)
    step, of       steps done, and how many there are; null where unknown
    metrics        numbers by name, as the script gave them
    reported_at    when the script reported that step (ms)
    first          null, or {"step", "at" (ms)}: the first that this attempt has reported
    checkpoint     null, or {"step", "epoch", "at" (ms), "seconds": how long the save took}
    suspend        null, or {"via": "marker" | "sigterm" | "status", "asked_at" (ms),
                   "acknowledged_at" (ms or null), "released_at" (ms or null)}
    """
    return f"{FOLDER}/{training_job}/report.json"


LIFE_STATE = FOLDER + "/life_state.json"
"""The value that attempts hand on, relative to the checkpoints: {"version": 1, "value": …}."""
LIFE_STATE_BYTES = 4096

# --- surroundings ---

MASTER_PORT = 2222
_OWN_PORT = 2223
_LOCAL = "local"
"""The training job's name where there is none: the script runs on somebody's machine."""
_ATTEMPT_OF = re.compile(r"-qstamp-(\d+)-[0-9a-f]{6}$")


def _ml() -> Path:
    """/opt/ml, or the folder that stands for it."""
    if "SM_OUTPUT_DIR" in os.environ:
        return Path(os.environ["SM_OUTPUT_DIR"]).parent
    if "SM_OUTPUT_DATA_DIR" in os.environ:
        return Path(os.environ["SM_OUTPUT_DATA_DIR"]).parent.parent
    return Path("/opt/ml")


def _training_job() -> str:
    return os.environ.get("TRAINING_JOB_NAME") or _LOCAL


def checkpoint_dir() -> str:
    """Return the folder for checkpoints; create it if needed.

    On SageMaker that is /opt/ml/checkpoints, which SageMaker copies to S3 and brings to the next
    attempt. Elsewhere it is ./checkpoints. SLOTQ_CHECKPOINT_DIR overrides both.
    """
    given = os.environ.get(CHECKPOINT_DIR)
    ml = _ml()
    here = Path(given) if given else ml / "checkpoints" if ml.is_dir() else Path("checkpoints")
    here.mkdir(parents=True, exist_ok=True)
    return str(here)


def attempt() -> int:
    """Return the number of this attempt: 1 at the first start, 2 after the first eviction …"""
    given = os.environ.get(ATTEMPT, "")
    if given.isdigit():
        return int(given)
    found = _ATTEMPT_OF.search(_training_job())
    return int(found.group(1)) if found else 1


def distributed_env(*, export: bool = False) -> dict[str, str]:
    """Return MASTER_IP, MASTER_ADDR, MASTER_PORT, WORLD_SIZE (nodes) and RANK (this node).

    These count nodes. torch's own WORLD_SIZE and RANK count processes: under torchrun, read those
    from os.environ. `export`: also set them in os.environ, unless they are set.
    """
    config = _resource_config()
    node, hosts = _nodes(config)
    master = hosts[0]
    port = str(MASTER_PORT)
    if "LOCAL_RANK" not in os.environ:  # torchrun chooses another one for its own.
        port = os.environ.get("MASTER_PORT", port)
    found = {
        "MASTER_IP": _address_of(master, config),
        "MASTER_ADDR": master,
        "MASTER_PORT": port,
        "WORLD_SIZE": str(len(hosts)),
        "RANK": str(node),
    }
    if found["MASTER_IP"] == "127.0.0.1":
        found["MASTER_ADDR"] = "127.0.0.1"
    if export:
        for name, value in found.items():
            os.environ.setdefault(name, value)
    return found


def _resource_config() -> dict[str, Any]:
    try:
        text = (_ml() / "input/config/resourceconfig.json").read_text()
        found = json.loads(text)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _nodes(config: Mapping[str, Any]) -> tuple[int, list[str]]:
    """This node's number, and the hosts of the job in order."""
    hosts = sorted(config.get("hosts") or ["localhost"], key=_host_order)
    here = config.get("current_host")
    return (hosts.index(here) if here in hosts else 0), hosts


def _host_order(host: str) -> tuple[int, str]:
    """algo-2 comes before algo-10."""
    digits = host.rpartition("-")[2]
    return (int(digits) if digits.isdigit() else 0, host)


def _address_of(host: str, config: Mapping[str, Any], patience: float = 60.0) -> str:
    """The IP address of a host of the job. A name may resolve only some seconds after the start."""
    if len(config.get("hosts") or ()) < 2 or config.get("network_interface_name") == "lo":
        return "127.0.0.1"  # Alone, or every host is this machine.
    until = time.monotonic() + patience
    while True:
        try:
            return socket.gethostbyname(host)
        except OSError:  # noqa: PERF203 - it waits anyway
            if time.monotonic() > until:
                return host
            time.sleep(1.0)


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"slotq: {text}\n")
        sys.stderr.flush()


def _now() -> int:
    return int(time.time() * 1000)


def _write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader finds the old content or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def _read_json(path: Path) -> dict[str, Any] | None:
    """The document in a file; None if there is none, or if it is damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


# --- checkpoints ---
# A saved state is a folder `slot-N` with a file of each rank, and a manifest, written last, that
# names each file with its size and its CRC. Without a manifest that fits its files it is not there.
#
# The folders are used in turn, one more than are kept. SageMaker copies files to S3 and never
# removes any there: folders named by step would be brought to every later attempt.

_MANIFEST = "manifest.json"


class _Summed:
    """A file being written, with its size and its CRC-32."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.bytes = self.crc32 = 0

    def write(self, content: Any) -> int:
        self.crc32 = zlib.crc32(content, self.crc32)
        self.bytes += len(memoryview(content).cast("B"))
        self._file.write(content)
        return len(content)

    def flush(self) -> None:
        self._file.flush()


_State = Tuple[Path, Dict[str, Any]]
"""A saved state: its folder and its manifest."""


class _Slots:
    """The saved states below a folder."""

    def __init__(self, folder: Path, keep: int) -> None:
        if keep < 1:
            raise ValueError("keep must be at least 1")
        self._folder, self._count = folder, keep + 1

    def slot(self, number: int) -> Path:
        """The folder of the save with this number: the oldest one's."""
        return self._folder / f"slot-{number % self._count}"

    def begin(self, number: int) -> None:
        """Make the slot's old state invalid, before it is written over."""
        slot = self.slot(number)
        slot.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            (slot / _MANIFEST).unlink()

    def write(self, number: int, rank: int, state: Any) -> dict[str, Any]:
        """Write a rank's file. Returns its entry in the manifest."""
        slot = self.slot(number)
        slot.mkdir(parents=True, exist_ok=True)
        name = f"{_rank_file(rank)}.{'pt' if 'torch' in sys.modules else 'pickle'}"
        unfinished = slot / f".{name}.unfinished"
        with unfinished.open("wb") as file:
            summed = _Summed(file)
            _dump(state, summed)
        unfinished.replace(slot / name)
        return {"file": name, "bytes": summed.bytes, "crc32": summed.crc32}

    def commit(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest: from now on the state is there."""
        _write_manifest(self.slot(manifest["number"]) / _MANIFEST, manifest)

    def newest(self, most: float = float("inf")) -> _State | None:
        """The newest state whose files are whole: its folder and manifest. None is newer than
        number `most`."""
        return next(_whole(self._folder.glob("slot-*/" + _MANIFEST), most), None)


def _rank_file(rank: int) -> str:
    return f"rank-{rank:05d}"


def _write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    _write_atomically(path, json.dumps({"version": FORMAT, **manifest}).encode())


def _whole(manifests: Iterable[Path], most: float) -> Iterator[_State]:
    """The states that are whole, each as its folder and manifest, the newest first. None is newer
    than number `most`."""
    found = []
    for path in manifests:
        manifest = _read_json(path)
        number = None if manifest is None else manifest.get("number")
        if manifest is not None and isinstance(number, int) and number <= most:
            found.append((number, path.parent, manifest))
    for _, folder, manifest in sorted(found, key=lambda each: -each[0]):
        if _is_whole(folder, manifest):
            yield folder, manifest
        else:
            step = manifest.get("step")
            _say(f"the checkpoint of step {step} is incomplete: an older one is used")


def _is_whole(slot: Path, manifest: Mapping[str, Any]) -> bool:
    try:
        return all(
            _has_size_and_sum(slot / entry["file"], entry)
            for entry in manifest["files"]
            if not _is_foreign(slot / entry["file"])  # Version 0.2.0 named some.
        )
    except (OSError, KeyError, TypeError):
        return False


def _has_size_and_sum(path: Path, entry: Mapping[str, Any]) -> bool:
    """Raises OSError and KeyError."""
    if path.stat().st_size != entry["bytes"]:
        return False  # A large file need not be read.
    return _size_and_sum(path) == {"bytes": entry["bytes"], "crc32": entry["crc32"]}


# SageMaker's agent and others write below the checkpoints, too, while a manifest is made.

_UPLOAD_MARKER = re.compile(r"\.sagemaker-\w+$")
"""SageMaker's agent lays `<file>.sagemaker-uploading` beside a file that it copies, then
`<file>.sagemaker-uploaded`. Both come and go at any moment, also after the file itself."""
_HIDDEN_PARTS = frozenset({".metadata"})
"""Hidden files that are part of a checkpoint: torch.distributed.checkpoint's."""


def _is_foreign(path: Path) -> bool:
    """Whether a file is no part of a checkpoint, by its name. A file of the user's own that is
    named like a marker is not verified."""
    name = path.name
    return bool(_UPLOAD_MARKER.search(name)) or (name.startswith(".") and name not in _HIDDEN_PARTS)


def _files_below(folder: Path) -> Iterator[Path]:
    """The files below a folder. Files and folders may come and go meanwhile."""
    for where, _, names in os.walk(str(folder)):
        for name in names:
            yield Path(where) / name


def _entries(folder: Path, paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The manifest's entries of files that a library has written below a folder, without foreign
    files and those that have vanished."""
    entries = []
    for path in sorted(paths):
        if _is_foreign(path) or not path.is_file():
            continue
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            name = path.relative_to(folder).as_posix()
            entries.append({"file": name, **_size_and_sum(path)})
    return entries


def _size_and_sum(path: Path) -> dict[str, int]:
    """A file's size and CRC-32, of one reading. Raises OSError."""
    size = crc = 0
    with path.open("rb") as file:
        for content in iter(lambda: file.read(1 << 22), b""):
            size += len(content)
            crc = zlib.crc32(content, crc)
    return {"bytes": size, "crc32": crc}


def _dump(state: Any, file: Any) -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.save(state, file)
    else:
        pickle.dump(state, file, protocol=4)


def _load(path: Path) -> Any:
    if path.suffix == ".pt":
        import torch

        # The script's own file, with random states and the user's values in it.
        return torch.load(str(path), map_location="cpu", weights_only=False)  # nosec B614
    with path.open("rb") as file:
        return pickle.load(file)  # noqa: S301 - as above # nosec B301


# What several ranks hold alike they save in parts, each rank some of the large tensors.

_LARGE = 1 << 16
"""Bytes of a tensor that is worth a part."""


class _Part:
    """Stands in a saved state for a tensor that is in the file of some rank."""

    def __init__(self, number: int) -> None:
        self.number = number


def _size(value: Any) -> int:
    """The bytes of a tensor or an array; 0 for anything else."""
    if hasattr(value, "numel") and hasattr(value, "element_size"):
        return int(value.numel()) * int(value.element_size())
    size = getattr(value, "nbytes", 0)
    return size if isinstance(size, int) else 0


def _mapped(state: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of nested dicts, lists and tuples, with each other value changed."""
    if type(state) in {list, tuple}:
        return type(state)(_mapped(each, change) for each in state)
    if not isinstance(state, dict):
        return change(state)
    same = copy.copy(state)  # An OrderedDict of torch carries its metadata.
    for key, each in state.items():
        same[key] = _mapped(each, change)
    return same


def _divided(state: Any, world: int, above: int) -> tuple[Any, list[dict[int, Any]]]:
    """The state with parts in place of its large tensors, and the tensors of each rank.

    A state of up to `above` bytes is not divided. Each rank gets the same division.
    """
    tensors: list[Any] = []
    total = 0

    def replaced(value: Any) -> Any:
        nonlocal total
        size = _size(value)
        total += size
        if size < _LARGE:
            return value
        tensors.append(value)
        return _Part(len(tensors) - 1)

    skeleton = _mapped(state, replaced)
    if world < 2 or total <= above:
        return state, [{} for _ in range(world)]
    loads = [0] * world
    parts: list[dict[int, Any]] = [{} for _ in range(world)]
    for number in sorted(range(len(tensors)), key=lambda n: (-_size(tensors[n]), n)):
        rank = loads.index(min(loads))
        loads[rank] += _size(tensors[number])
        parts[rank][number] = tensors[number]
    return skeleton, parts


def _joined(state: Any, tensors: Mapping[int, Any]) -> Any:
    return _mapped(state, lambda v: tensors[v.number] if isinstance(v, _Part) else v)


def _snapshot(state: Any) -> Any:
    """A copy that training does not change: tensors in main memory."""

    def copied(value: Any) -> Any:
        if hasattr(value, "detach"):
            return value.detach().to("cpu", copy=True)
        return copy.deepcopy(value)

    return _mapped(state, copied)


def _random_states() -> dict[str, Any]:
    """The states of all generators that the script may use."""
    states: dict[str, Any] = {"python": random.getstate()}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        states["numpy"] = numpy.random.get_state()
    if torch is not None:
        states["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            states["cuda"] = torch.cuda.get_rng_state()
    return states


def _set_random_states(states: Mapping[str, Any]) -> None:
    random.setstate(states["python"])
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and "numpy" in states:
        numpy.random.set_state(states["numpy"])
    if torch is not None and "torch" in states:
        torch.set_rng_state(states["torch"])
        if "cuda" in states and torch.cuda.is_available():
            torch.cuda.set_rng_state(states["cuda"])


# --- agreement ---
# All ranks stop at the same step, without a collective while nothing is asked.
#
# Each rank counts its boundaries: its calls of should_suspend (or of the manager, after a step).
# Rank 0 serves a socket; a thread of each rank waits at it. When one rank learns of a suspend, rank
# 0 asks all of them. Each thread answers with the number of boundaries that its rank has passed,
# and from then on the rank goes no further than the next boundary without knowing the answer: one
# more than the largest number. No rank has passed that boundary, and every rank reaches it.

_CONNECT_SECONDS = 300.0
"""How long a rank waits for rank 0 at its first boundary."""
_AGREE_SECONDS = 60.0
"""How long the ranks wait for each other in an agreement."""
_GATHER_SECONDS = 600.0
"""How long rank 0 waits for what the others have saved."""
_ONE_STEP_MORE = 1
_STOP, _SAVE = "suspend", "save"
"""What ranks agree on: to stop, once; to save and go on, as often as one asks."""


class _Place:
    """This process among those of the job."""

    def __init__(
        self,
        rank: int,
        world: int,
        master: str,
        port: int,
        *,
        token: str = "",
        listener: socket.socket | None = None,
    ) -> None:
        self.rank, self.world, self.master, self.port = rank, world, master, port
        self.token = token or _training_job()
        """Keeps apart the ranks of two jobs on one machine. It is no secret."""
        self.listener = listener
        """Where rank 0 serves, if it listens already: then losing a rank ends the agreement."""


_spawned: tuple[int, int] | None = None
"""Number and count, in a process that hfai.multiprocessing.spawn has started."""
_forked = False


def _place() -> _Place | None:
    """The rank of this process; None for a single process, and for a helper process of a rank.
    None also in a world, which agrees by itself."""
    if _world is not None:
        return None
    found = _torch_rank() or _spawned_rank() or _torchrun_rank() or _node_rank()
    if found is None or found[1] < 2:
        return None
    config = _resource_config()
    _, hosts = _nodes(config)
    port = int(os.environ.get(PORT) or _OWN_PORT) if len(hosts) > 1 else 0
    return _Place(found[0], found[1], _address_of(hosts[0], config), port)


def _local_rank() -> int:
    """The rank among the processes of this node, as far as it is known."""
    found = (_torch_rank() if _world is None else None) or _spawned
    return found[0] if found else int(os.environ.get("LOCAL_RANK") or 0)


def _torch_rank() -> tuple[int, int] | None:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if _forked or distributed is None or not distributed.is_available():
        return None
    if not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _spawned_rank() -> tuple[int, int] | None:
    if _spawned is None:
        return None
    number, count = _spawned
    node, hosts = _nodes(_resource_config())
    return node * count + number, len(hosts) * count


def _torchrun_rank() -> tuple[int, int] | None:
    names = ("LOCAL_RANK", "RANK", "WORLD_SIZE")  # Lightning's launcher sets no RANK.
    if _is_helper() or any(name not in os.environ for name in names):
        return None
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def _node_rank() -> tuple[int, int] | None:
    """One process on each node."""
    if _is_helper() or "LOCAL_RANK" in os.environ:
        return None
    node, hosts = _nodes(_resource_config())
    return node, len(hosts)


def _is_helper() -> bool:
    """Whether another Python process of this job has started this one: it inherited the names."""
    return _forked or multiprocessing.parent_process() is not None


def _run_dir() -> Path:
    """A private folder of this run on this machine: processes of one job find each other there."""
    config = _ml() / "input/config/resourceconfig.json"
    started = config.stat().st_mtime_ns if config.is_file() else 0
    user = os.getuid() if hasattr(os, "getuid") else 0
    run = "\0".join(
        (
            _training_job(),
            str(started),
            os.path.realpath(checkpoint_dir()),
            os.environ.get("TORCHELASTIC_RUN_ID", ""),
            os.environ.get("MASTER_PORT", "") if "LOCAL_RANK" in os.environ else "",
        )
    )
    name = f"slotq-{user}-{hashlib.sha256(run.encode()).hexdigest()[:16]}"
    folder = Path(tempfile.gettempdir()) / name
    folder.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and folder.stat().st_uid != user:
        raise RuntimeError(f"{folder} belongs to somebody else")
    return folder


class _Line:
    """A connection that carries one JSON document a line."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reader = connection.makefile("rb")
        self._sending = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Raises OSError."""
        with self._sending:
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def messages(self) -> Iterator[dict[str, Any]]:
        """Everything that comes, until the connection ends."""
        with contextlib.suppress(OSError, ValueError):
            for line in self._reader:
                yield json.loads(line)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class _Server:
    """What rank 0 does for all ranks: it counts them, asks them, and gathers what they say."""

    def __init__(self, place: _Place) -> None:
        self._world = place.world
        self._token = place.token
        self._stops_without_one = place.listener is not None
        self._lock = threading.RLock()
        self._members: dict[int, _Line] = {}
        self._passed: dict[str, dict[int, int]] = {}
        self._stops: dict[str, int] = {}
        self._gathered: dict[str, dict[int, Any]] = {}
        self._waiting: dict[str, list[int]] = {}
        self._lost: dict[int, bool] = {}
        self._asked = 0
        self._socket = place.listener or _listener("" if place.port else "127.0.0.1", place.port)
        if not place.port:
            port = self._socket.getsockname()[1]
            _write_atomically(_run_dir() / "port", str(port).encode())
        threading.Thread(target=self._accept, daemon=True, name="slotq ranks").start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.settimeout(None)
            threading.Thread(target=self._serve, args=(_Line(connection),), daemon=True).start()

    def _serve(self, line: _Line) -> None:
        rank = -1
        for message in line.messages():
            if rank < 0:
                if message.get("token") != self._token:
                    break
                rank = int(message["rank"])
                if not self._enter(rank, line):
                    rank = -1
                    break
            else:
                self._take(rank, message)
        if rank >= 0:
            self._leave(rank)
        line.close()

    def _enter(self, rank: int, line: _Line) -> bool:
        with self._lock:
            if rank in self._members:
                return False  # A helper process that looks like its rank.
            self._members[rank] = line
            self._lost.pop(rank, None)
            self._send(line, {"welcome": True})
            for key in self._passed:
                self._send(line, {"ask": key})
            return True

    def _leave(self, rank: int) -> None:
        with self._lock:
            self._members.pop(rank, None)
            self._lost[rank] = True
            for key in list(self._passed):
                self._settle(key)
            for key in list(self._gathered):
                self._complete(key)
            if self._stops_without_one:
                self._ask(_STOP)

    def close(self) -> None:
        """End the listening, and what hangs in it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _take(self, rank: int, message: dict[str, Any]) -> None:
        with self._lock:
            if "ask" in message:
                self._ask(str(message["ask"]))
            elif "passed" in message:
                self._passed[message["key"]][rank] = int(message["passed"])
                self._settle(message["key"])
            elif "gather" in message:
                key = str(message["gather"])
                self._gathered.setdefault(key, {})[rank] = message["value"]
                if message["wait"]:
                    self._waiting.setdefault(key, []).append(rank)
                self._complete(key)

    def _ask(self, kind: str) -> None:
        if any(key.startswith(kind) and key not in self._stops for key in self._passed):
            return  # It is being agreed on.
        if kind == _STOP and any(key.startswith(kind) for key in self._stops):
            return  # Once is enough.
        self._asked += 1
        key = f"{kind}#{self._asked}"
        self._passed[key] = {}
        for line in self._members.values():
            self._send(line, {"ask": key})
        late = threading.Timer(_AGREE_SECONDS, self._settle, args=(key,), kwargs={"late": True})
        late.daemon = True
        late.start()

    def _settle(self, key: str, *, late: bool = False) -> None:
        """Fix the boundary when every rank has answered, or has gone, or is too late."""
        with self._lock:
            passed = self._passed[key]
            if key in self._stops:
                for rank, line in self._members.items():
                    if rank in passed:
                        self._send(line, {"stop": key, "at": self._stops[key]})
                return
            if len(set(passed) | set(self._lost)) < self._world and not late:
                return
            self._stops[key] = max(passed.values(), default=0) + _ONE_STEP_MORE
            for line in self._members.values():
                self._send(line, {"stop": key, "at": self._stops[key]})

    def _complete(self, key: str) -> None:
        """Answer when every rank that is still there has said something."""
        values = self._gathered[key]
        if len(set(values) | set(self._lost)) < self._world:
            return
        del self._gathered[key]
        for rank in self._waiting.pop(key, ()):
            if rank in self._members:
                self._send(self._members[rank], {"all": key, "values": values})

    @staticmethod
    def _send(line: _Line, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):
            line.send(message)


def _listener(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises OSError."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.settimeout(None)  # The script may have set another default.
    made.bind((host, port))
    made.listen(1024)
    return made


class _Group:
    """A rank's side of the agreement.

    `asked(key)` and `stop(key, boundary)` are called in a thread; `asked` returns the number of
    boundaries that this rank has passed. `stop(None, …)`: rank 0 has gone.
    """

    def __init__(
        self,
        place: _Place,
        *,
        asked: Callable[[str], int],
        stop: Callable[[str | None, int], None],
        patience: float | None = None,
    ) -> None:
        self.rank, self.world = place.rank, place.world
        self._place, self._asked, self._stop = place, asked, stop
        self._patience = _CONNECT_SECONDS if patience is None else patience
        self._server = _Server(place) if place.rank == 0 else None
        self._welcome = threading.Event()
        self._all: dict[str, dict[int, Any]] = {}
        self._arrived = threading.Condition()
        self.gone = False
        self._line = self._connected()
        threading.Thread(target=self._listen, daemon=True, name="slotq rank").start()
        if not self._welcome.wait(self._patience) or self.gone:
            raise OSError("rank 0 does not answer")

    def ask(self, kind: str) -> None:
        """Agree on a boundary. Raises OSError if rank 0 has gone."""
        if self.gone:
            raise OSError("rank 0 has gone")
        self._line.send({"ask": kind})

    def tell(self, key: str, value: Any) -> None:
        """Say something that rank 0 gathers. Raises OSError if rank 0 has gone."""
        self._line.send({"gather": key, "value": value, "wait": False})

    def gather(self, key: str, value: Any, seconds: float = _GATHER_SECONDS) -> dict[int, Any]:
        """What each rank said under this key; of ranks that have gone, nothing. Raises OSError."""
        self._line.send({"gather": key, "value": value, "wait": True})
        with self._arrived:
            self._arrived.wait_for(lambda: key in self._all or self.gone, seconds)
            if key not in self._all:
                raise OSError(f"no answer of all {self.world} ranks within {seconds:g} s")
            return self._all.pop(key)

    def _connected(self) -> _Line:
        until = time.monotonic() + self._patience
        while True:
            try:
                port = self._place.port or int((_run_dir() / "port").read_text())
                host = self._place.master if self._place.port and self.rank else "127.0.0.1"
                line = _Line(socket.create_connection((host, port), timeout=5.0))
                line._connection.settimeout(None)  # noqa: SLF001 - of the same file
                line.send({"rank": self.rank, "token": self._place.token})
                return line
            except (OSError, ValueError):  # noqa: PERF203 - as above
                if time.monotonic() > until:
                    raise OSError("rank 0 cannot be reached") from None
                time.sleep(0.05)

    def close(self) -> None:
        """Leave the others; as rank 0, end the agreement."""
        self._line.close()
        if self._server is not None:
            self._server.close()

    def _listen(self) -> None:
        for message in self._line.messages():
            if "welcome" in message:
                self._welcome.set()
            elif "ask" in message:
                passed = self._asked(message["ask"])
                with contextlib.suppress(OSError):
                    self._line.send({"passed": passed, "key": message["ask"]})
            elif "stop" in message:
                self._stop(message["stop"], int(message["at"]))
            elif "all" in message:
                with self._arrived:
                    values = message["values"].items()
                    self._all[message["all"]] = {int(rank): value for rank, value in values}
                    self._arrived.notify_all()
        with self._arrived:
            self.gone = True
            self._arrived.notify_all()
        self._welcome.set()
        self._stop(None, 0)


# --- signals ---
# How the process learns that it has to go: SIGTERM where it arrives; else the queue's marker beside
# the checkpoints; else the training job's own status. One process of a machine asks AWS (the first
# that gets a lock), and only on the node of rank 0. The others look at a file.

_TICK = 0.2
"""Seconds between two looks at the files of this machine."""
_MARKER_SECONDS = 2.0
_STATUS_SECONDS = 20.0
_URI_SECONDS = 60.0
_REPORT_SECONDS = 15.0
"""Seconds between two uploads of a report. On disk it is written each second."""
_REPORT_FILE_SECONDS = 1.0
_LONGEST_TEXT = 200
"""Characters of a metric that is no number. The queue reads no report above 64 KiB."""
_SLOWEST = 300.0
"""Seconds between two calls while AWS refuses them."""


class _Sources:
    """What says from outside that the job has to go."""

    def __init__(self, client: Callable[[str], Any]) -> None:
        self._client = client
        self._job = _training_job()
        self.folder = Path(checkpoint_dir()).resolve()  # The script may change its directory.
        first = _jittered(_STATUS_SECONDS) + time.monotonic()
        self._due = {"marker": 0.0, "status": first, "uri": 0.0}
        self._pause = {"marker": _MARKER_SECONDS, "status": _STATUS_SECONDS}
        self._uri = os.environ.get(CHECKPOINTS, "")
        self._leads: BinaryIO | None = None
        self.first_node = _nodes(_resource_config())[0] == 0
        self._remote = self._job != _LOCAL and self.first_node
        self._run = _run_dir()
        self._since = time.time()

    def look(self) -> dict[str, Any] | None:
        """What asks for a suspend: {"via", "grace", "stopping"}; None while nothing does."""
        return self._on_disk() or (self._in_aws() if self._may_ask() else None)

    def tell_others(self, found: Mapping[str, Any]) -> None:
        """Tell the other processes of this machine."""
        with contextlib.suppress(OSError):
            _write_atomically(self._run / "asked.json", json.dumps(found).encode())

    def put(self, name: str, content: bytes) -> bool:
        """Put a document beside the checkpoints in S3, if that is known to be possible."""
        if self._job == _LOCAL:
            return False
        try:
            where = self._bucket_and_prefix()
            if where is None:
                return False
            self._client("s3").put_object(Bucket=where[0], Key=where[1] + name, Body=content)
        except Exception:  # noqa: BLE001 - boto3 is not imported here; SageMaker copies the file
            return False
        return True

    def forget_local(self) -> None:
        """Off SageMaker the next start has the same name: remove what asked this one."""
        if self._job == _LOCAL:
            for path in (self.folder / marker_name(self._job), self._run / "asked.json"):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _on_disk(self) -> dict[str, Any] | None:
        told = self._run / "asked.json"
        if self._is_news(told):
            return _read_json(told)
        marker = self.folder / marker_name(self._job)
        return _marker(_read_json(marker)) if self._is_news(marker) else None

    def _is_news(self, path: Path) -> bool:
        try:
            written = path.stat().st_mtime
        except OSError:
            return False
        return self._job != _LOCAL or written >= self._since - 1.0

    def _may_ask(self) -> bool:
        if not self._remote:
            return False
        if self._leads is None:
            self._leads = _locked(self._run / "leader")
        return self._leads is not None

    def _in_aws(self) -> dict[str, Any] | None:
        now = time.monotonic()
        if now >= self._due["marker"]:
            found = self._tried("marker", self._marker_object)
            if found is not None:
                return found
        asks = os.environ.get(PASSES_SIGTERM) != "1"
        if asks and now >= self._due["status"]:
            return self._tried("status", self._status)
        return None

    def _tried(self, what: str, ask: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
        """Ask; after a failure more and more rarely."""
        usual = _MARKER_SECONDS if what == "marker" else _STATUS_SECONDS
        try:
            found = ask()
            self._pause[what] = usual
        except Exception:  # noqa: BLE001 - boto3 is not imported here, and training goes on
            found = None
            self._pause[what] = min(self._pause[what] * 2, _SLOWEST)
        self._due[what] = time.monotonic() + _jittered(self._pause[what])
        return found

    def _marker_object(self) -> dict[str, Any] | None:
        where = self._bucket_and_prefix()
        if where is None:
            raise LookupError("the checkpoints are not in S3")
        s3 = self._client("s3")
        try:
            answer = s3.get_object(Bucket=where[0], Key=where[1] + marker_name(self._job))
            text = answer["Body"].read()
        except Exception as error:
            if _code(error) in _NOT_THERE:
                return None
            raise
        try:
            return _marker(json.loads(text))
        except ValueError:
            return _marker(None)

    def _status(self) -> dict[str, Any] | None:
        described = self._describe()
        if described.get("TrainingJobStatus") != "Stopping":
            return None
        return {"via": "status", "grace": None, "stopping": True}

    def _bucket_and_prefix(self) -> tuple[str, str] | None:
        if not self._uri:
            if time.monotonic() < self._due["uri"]:
                raise LookupError("it is not known where the checkpoints are in S3")
            self._due["uri"] = time.monotonic() + _jittered(_URI_SECONDS)
            config = self._describe().get("CheckpointConfig") or {}
            self._uri = config.get("S3Uri") or "none"
        scheme, _, rest = self._uri.partition("://")
        bucket, _, prefix = rest.partition("/")
        if scheme != "s3":
            return None
        return bucket, prefix.rstrip("/") + "/" if prefix.strip("/") else ""

    def _describe(self) -> dict[str, Any]:
        sagemaker = self._client("sagemaker")
        return dict(sagemaker.describe_training_job(TrainingJobName=self._job))


_NOT_THERE = frozenset({"NoSuchKey", "404", "AccessDenied", "403"})
"""What S3 says of an object that is not there: without s3:ListBucket it says 403."""


def _marker(document: Mapping[str, Any] | None) -> dict[str, Any]:
    grace = document.get("grace") if isinstance(document, dict) else None
    return {"via": "marker", "grace": grace, "stopping": False}


def _code(error: BaseException) -> str:
    answer = getattr(error, "response", None) or {}
    return str((answer.get("Error") or {}).get("Code", ""))


def _jittered(seconds: float) -> float:
    """Many jobs start together; they need not ask together."""
    return seconds * (0.8 + 0.4 * secrets.randbelow(1000) / 1000)


def _locked(path: Path) -> BinaryIO | None:
    """The lock on a file, held until the process ends; None while another process has it."""
    try:
        import fcntl
    except ImportError:  # Not on Unix: every process asks.
        return io.BytesIO()
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


_clients: dict[str, Any] = {}


def _client(service: str, use: str = "") -> Any:
    """A client of boto3; another one for each `use`. Raises ImportError and boto3's errors."""
    if service + use not in _clients:
        import boto3
        from botocore.config import Config

        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if not region:
            region = (os.environ.get("TRAINING_JOB_ARN", "").split(":") + [""] * 4)[3] or None
        quick = Config(connect_timeout=2, read_timeout=5, retries={"max_attempts": 1})
        session = boto3.session.Session(region_name=region)
        _clients[service + use] = session.client(service, config=quick)
    return _clients[service + use]


class _Watch:
    """What this process knows of a suspend, and the thread that keeps it up to date."""

    def __init__(self) -> None:
        self.boundary = 0
        """How many boundaries the rank has passed."""
        self.alert = True
        """Whether the next boundary has to look closer. The first one joins the other ranks."""
        self.found: dict[str, Any] | None = None
        """What asked for the suspend."""
        self.save_due = False
        """Whether the ranks have agreed to save now."""
        self.group: _Group | None = None
        self.rank, self.world = 0, 1
        self.reports = _Reports()
        self._callbacks: list[Callable[[], None]] = []
        self._pid = os.getpid()
        self._sources = _Sources(_client)
        self._signalled = False
        self._closed = threading.Event()
        self._alone = False
        self._agreed = False
        self._stops: dict[str, int | None] = {}
        self._known = threading.Condition()
        self._listens = False
        self._before: Any = None
        threading.Thread(target=self._run, daemon=True, name="slotq").start()

    # The training's side.

    def look_closer(self) -> bool:
        """Whether the rank has to stop at this boundary. Waits for the agreement, where one is due.

        A rank reaches each boundary once, so all ranks get the same answer at the same one.
        """
        if _world is not None:
            return _world.leaves(self)
        self.listen()
        self.join()
        stop = False
        with self._known:
            for key in list(self._stops):
                self._known.wait_for(partial(self._is_decided, key), _AGREE_SECONDS)
                at = self._stops[key]
                if at is not None and self.boundary < at:
                    continue
                if key.startswith(_STOP):
                    stop = True
                else:
                    self.save_due = True
                    del self._stops[key]
            self.alert = bool(self._stops)
        if stop:
            self._agreed = self.group is not None
            self.reports.acknowledge()
        return stop

    def _is_decided(self, key: str) -> bool:
        return self._stops[key] is not None

    def leave(self) -> None:
        """End this process, so that the queue takes the job's slots. Never returns."""
        stopping = self._is_stopping()
        if self._agreed and self.group is not None:
            with contextlib.suppress(OSError):  # The others may still be saving.
                stopping = any(self.group.gather("leave", stopping).values())
        stopping = stopping or self._is_stopping()
        if _world is not None:
            _await_processes(f"leave-{_world.generation}")
        self.reports.released(None if stopping else _now())
        _leave_world()
        self.at_exit()
        self._sources.forget_local()
        if stopping and _training_job() != _LOCAL:
            # A script that ends by itself now would end its job.
            _say("saved; SageMaker is stopping the job")
            while True:
                time.sleep(60.0)
        _release()

    def _is_stopping(self) -> bool:
        """Whether StopTrainingJob has been called."""
        return self._signalled or bool((self.found or {}).get("stopping"))

    # The thread's side.

    def _run(self) -> None:
        while not self._closed.wait(_TICK):
            try:
                self._tick()
            except Exception:  # noqa: BLE001, PERF203 - training goes on, whatever happens here
                traceback.print_exc()
                time.sleep(10.0)

    def _tick(self) -> None:
        if self.group is None and not self._alone and _world is None and _torch_rank() is not None:
            self.alert = True  # torch.distributed has been set up meanwhile: join.
        if not (self.found or {}).get("stopping"):
            signalled = {"via": "sigterm", "grace": None, "stopping": True}
            found = signalled if self._signalled else self._sources.look()
            if found is not None and (self.found is None or found.get("stopping")):
                self._learn(found)
        self._flush()

    def _learn(self, found: dict[str, Any]) -> None:
        """Take in that the job has to go; a stop may follow what was first only asked."""
        first = self.found is None
        self.found = found
        self._sources.tell_others(found)
        if first:
            self.reports.asked(found["via"])
            self._ask()
            self._call_back()

    def _ask(self) -> None:
        try:
            if self.group is not None:
                self.group.ask(_STOP)
                return
        except OSError:
            pass
        with self._known:
            self._stops[_STOP] = 0
            self.alert = True

    def _call_back(self) -> None:
        while self._callbacks:
            callback = self._callbacks.pop(0)
            try:
                callback()
            except Exception:  # noqa: BLE001 - the next one saves something else
                traceback.print_exc()

    def add_callback(self, callback: Callable[[], None]) -> None:
        self.listen()
        self._callbacks.append(callback)
        if self.found is not None:
            threading.Thread(target=self._call_back, daemon=True).start()

    # The agreement.

    def join(self) -> None:
        """Take part in the agreement, if this process is one of several ranks."""
        if self.group is not None or self._alone:
            return
        place = _place()
        if place is None:
            return
        self.rank, self.world = place.rank, place.world
        try:
            self.group = _Group(place, asked=self._asked, stop=self._stop)
        except OSError as error:
            self._alone = True
            _say(f"this rank decides alone when it stops: {error}")
            return
        with self._known:
            known = self._stops.pop(_STOP, None) is not None
        if known:
            self._ask()

    def _asked(self, key: str) -> int:
        with self._known:
            self._stops[key] = None
            self.alert = True
            return self.boundary  # Read after `alert` is set: the next boundary waits.

    def _stop(self, key: str | None, boundary: int) -> None:
        with self._known:
            for each in list(self._stops) if key is None else [key]:
                if key is not None or self._stops[each] is None:
                    self._stops[each] = boundary
                    self.alert = True
            self._known.notify_all()
        if key is not None and key.startswith(_STOP) and self.found is None:
            self.found = {"via": "marker", "grace": None, "stopping": False}
            self.reports.asked("marker")  # Another rank has learned of it.
            self._call_back()

    # The rest.

    def listen(self) -> None:
        """Catch SIGTERM: from now on the script does something about it."""
        if self._listens or threading.current_thread() is not threading.main_thread():
            return
        self._listens = True
        self._before = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, self._on_sigterm)

    def listen_alone(self) -> None:
        """Catch SIGTERM in place of a library that has come later, and would end the training
        before it is saved."""
        self.listen()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._on_sigterm)

    def _on_sigterm(self, number: int, frame: Any) -> None:
        self._signalled = True
        if callable(self._before):
            self._before(number, frame)

    def close(self) -> None:
        """End the thread, and leave SIGTERM to what handled it before."""
        self._closed.set()
        self.give_sigterm_back()

    def give_sigterm_back(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def _flush(self, *, last: bool = False) -> None:
        rank = self.group.rank if self.group is not None else _local_rank()
        if self._sources.first_node and rank == 0:
            self.reports.write(self._sources, last=last)

    def at_exit(self) -> None:
        if os.getpid() == self._pid:
            with contextlib.suppress(Exception):
                self._flush(last=True)


class _Reports:
    """What the script says of its progress."""

    def __init__(self) -> None:
        self.latest: tuple[Any, Any, dict[str, Any], int] | None = None
        self.first: dict[str, Any] | None = None
        self._checkpoint: dict[str, Any] | None = None
        self._suspend: dict[str, Any] | None = None
        self._started = _now()
        self._written: tuple[Any, ...] = (None, None, None)
        self._sent: tuple[Any, ...] = (None, None, None)
        self._urgent = False
        self._due_file = self._due_send = 0.0
        self._writing = threading.Lock()

    def saved(self, *, epoch: int, step: int, seconds: float) -> None:
        self._checkpoint = {"epoch": epoch, "step": step, "at": _now(), "seconds": seconds}

    def asked(self, via: str) -> None:
        self._suspend = {
            "via": via, "asked_at": _now(), "acknowledged_at": None, "released_at": None,
        }  # fmt: skip

    def acknowledge(self) -> None:
        suspend = self._suspend
        if suspend is not None and suspend["acknowledged_at"] is None:
            self._suspend = {**suspend, "acknowledged_at": _now()}
            self._urgent = True

    def released(self, at: int | None) -> None:
        if self._suspend is not None:
            self._suspend = {**self._suspend, "released_at": at}

    def write(self, sources: _Sources, *, last: bool) -> None:
        """Write the report if it has changed and is due. What is urgent is due now.

        `last`: the process ends. SageMaker copies the file, so nobody waits for S3.
        """
        now = time.monotonic()
        content = (self.latest, self._checkpoint, self._suspend)
        urgent = self._urgent
        if not any(content) or not self._writing.acquire(timeout=5.0):
            return
        try:
            if content != self._written and (last or urgent or now >= self._due_file):
                self._due_file = now + _REPORT_FILE_SECONDS
                path = sources.folder / report_name(_training_job())
                with contextlib.suppress(OSError):  # A full disk does not keep it from S3.
                    _write_atomically(path, self._document(content))
                self._written = content
            if content != self._sent and not last and (urgent or now >= self._due_send):
                self._due_send = now + _REPORT_SECONDS
                self._urgent = False
                sources.put(report_name(_training_job()), self._document(content))
                self._sent = content
        finally:
            self._writing.release()

    def _document(self, content: tuple[Any, ...]) -> bytes:
        latest, checkpoint_, suspend_ = content
        step, of, metrics, reported = latest or (None, None, {}, None)
        document = {
            "version": FORMAT,
            "training_job": _training_job(),
            "at": _now(),
            "started_at": self._started,
            "step": _steps(step),
            "of": _steps(of),
            "metrics": {name: _number(value) for name, value in metrics.items()},
            "reported_at": reported,
            "first": self.first and {**self.first, "step": _steps(self.first["step"])},
            "checkpoint": checkpoint_,
            "suspend": suspend_,
        }
        return json.dumps(document).encode()


def _number(value: Any) -> Any:
    """A value as JSON: a number, else its text, cut. NaN and infinity are no JSON."""
    for kind in (operator.index, float):  # Of numpy and torch, too.
        with contextlib.suppress(Exception):  # A tensor of several elements raises RuntimeError.
            number = kind(value)
            return number if number - number == 0 else str(number)
    return str(value)[:_LONGEST_TEXT]


def _steps(value: Any) -> Any:
    return None if value is None else _number(value)


def _release() -> None:
    """End the job so that the queue reads `released`. Never returns."""
    failure = _ml() / "output/failure"
    if failure.parent.is_dir():
        with contextlib.suppress(OSError):
            failure.write_text(RELEASED)
    # SageMaker's training toolkit writes that file anew, with what the script has said last.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.write(RELEASED + "\n")
        sys.stderr.flush()
    os._exit(EXIT_RELEASED)


# --- words ---

_watch: _Watch | None = None
_starting = threading.Lock()


def _start() -> _Watch:
    global _watch
    with _starting:
        if _watch is None:
            _watch = _Watch()
            atexit.register(_watch.at_exit)
        return _watch


# A forked child, such as a loader's worker, has no threads: it begins anew, and is no rank of its
# own. SIGTERM means to it what it meant before; Python would forget one that comes during the fork.


def _before_fork() -> None:
    if _watch is not None:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        _masks.mask = None if signal.SIGTERM in mask else mask


def _after_fork_in_parent() -> None:
    mask, _masks.mask = getattr(_masks, "mask", None), None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_fork_in_child() -> None:
    global _watch, _forked, _starting, _presence, _world
    if _watch is not None:
        _watch.give_sigterm_back()
    _watch, _forked, _starting, _presence, _world = None, True, threading.Lock(), None, None
    _clients.clear()
    _after_fork_in_parent()


_masks = threading.local()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


def should_suspend() -> bool:
    """Return whether to save and call suspend() now. Ask after each step.

    In a job of several ranks each rank asks at the same places: then all get True after the same
    step. While nothing is asked that costs no communication, and less than a microsecond. In a
    `world` ask once it has changed: then it is whether this member has to go.
    """
    watch = _watch or _start()
    watch.boundary += 1
    return watch.look_closer() if watch.alert else False


def suspend() -> None:
    """Give the job's slots back, so that the job waits and later resumes. Never returns.

    Save first. The process ends at once: nothing that would run at its exit runs. In a job of
    several ranks it waits until all of them have come here, if all have been told to stop.
    """
    (_watch or _start()).leave()


def on_suspend(callback: Callable[[], None]) -> None:
    """Call `callback` in a thread as soon as a suspend is asked, once; for scripts without a loop.

    The callback may save and call suspend(). An exception in it is printed.
    """
    (_watch or _start()).add_callback(callback)


def report(step: int, of: int | None = None, **metrics: Any) -> None:
    """Report progress: `step` steps done, `of` so many, and any numbers to show beside.

    Cheap enough for each step: a thread writes the newest about once a second. Only rank 0's
    counts.
    """
    reports, now = (_watch or _start()).reports, int(time.time() * 1000)
    if reports.first is None:
        reports.first = {"step": step, "at": now}
    reports.latest = (step, of, metrics, now)


def limit_gpu_memory() -> float | None:
    """Hold torch and TensorFlow in this process to the job's part of its GPU's memory. Return the
    part; None: the job has whole GPUs, or MPS holds it.

    Only Pythons that never read the node's own cap need it: `python -E`, `-I`, `-S`. Call it after
    the imports and before the first use of the GPU. Raises what the framework says if it refuses.
    """
    part, memory = os.environ.get("SLOTQ_GPU_FRACTION"), os.environ.get("SLOTQ_GPU_MEMORY")
    if not part or os.environ.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"):
        return None  # Under MPS a GPU is as large as the part: a cap would be a part of that.
    torch, tensorflow = sys.modules.get("torch"), sys.modules.get("tensorflow")
    if torch is not None:
        # Not called at once, because the call initialises CUDA, and no fork could use it then.
        limit = torch.cuda.set_per_process_memory_fraction
        torch.cuda._lazy_call(partial(limit, float(part)))  # noqa: SLF001 - no public one
    if tensorflow is not None and memory:
        config = tensorflow.config
        for gpu in config.list_physical_devices("GPU"):
            limits = [config.LogicalDeviceConfiguration(memory_limit=int(memory) >> 20)]
            config.set_logical_device_configuration(gpu, limits)
    return float(part)


class _LifeState:
    """One small value, handed from attempt to attempt. Of several ranks, rank 0 sets it."""

    def get(self, default: Any = None) -> Any:
        """Return the value last set, by this attempt or an earlier one."""
        found = _read_json(self._path())
        return default if found is None else found.get("value", default)

    def set(self, value: Any) -> None:
        """Keep a value: what JSON can hold in 4,096 bytes. Raises ValueError and TypeError."""
        content = json.dumps({"version": FORMAT, "value": value}, allow_nan=False).encode()
        if len(content) > LIFE_STATE_BYTES:
            raise ValueError(
                f"life_state has at most {LIFE_STATE_BYTES} bytes as JSON, not {len(content)}: "
                "save larger things in a checkpoint"
            )
        _write_atomically(self._path(), content)

    @staticmethod
    def _path() -> Path:
        return Path(checkpoint_dir()) / LIFE_STATE


life_state = _LifeState()


# --- rendezvous ---
# The members of a group find each other below a prefix in S3. Each keeps an entry
# `<site>/<attempt>.json` there, and writes it again and again while it lives. A reader counts an
# entry only once it has changed before the reader's eyes. So neither clocks nor the order of starts
# matter, and what a dead attempt has left is never taken for a living one.

SITE, SITES, ROLE, RENDEZVOUS = ("SLOTQ_SITE", "SLOTQ_SITES", "SLOTQ_ROLE", "SLOTQ_RENDEZVOUS")
"""Environment variables of a group's members: where the member runs, the sites of all clients that
started (JSON), `server`, `client` or `member`, and where the entries lie: an S3 prefix, or a folder
off SageMaker."""
SERVER = "server"
_LOOK_SECONDS = 1.0
_BEAT_SECONDS, _SELDOM_SECONDS = 2.0, 10.0
"""Seconds between two writes of the entry: while a call of this process waits, and afterwards."""
_FOR_GOOD = frozenset({"AccessDenied", "403", "NoSuchBucket", "InvalidAccessKeyId"})


class Peer(NamedTuple):
    """A member of the group, as it presents itself."""

    name: str
    """Its site; `server` for a federated job's server."""
    role: str
    host: str
    port: int
    """0: it serves no port."""
    attempt: int


class Peers(Dict[str, Peer]):
    """The other members by name."""

    def __init__(self, me: Peer, others: Mapping[str, Peer]) -> None:
        super().__init__((name, others[name]) for name in sorted(others))
        self.me = me

    def by_role(self, role: str) -> list[Peer]:
        return [peer for peer in self.values() if peer.role == role]


class _Entries:
    """The entries below an S3 prefix, or in a folder."""

    def __init__(self, place: str) -> None:
        scheme, _, rest = place.partition("://")
        self._bucket, _, prefix = (rest if scheme == "s3" else "").partition("/")
        self._prefix = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
        self._folder = Path(place)

    def versions(self) -> dict[str, str]:
        """Each entry's name, with a text that changes with each write."""
        if not self._bucket:
            paths = self._folder.glob("*/*.json")
            return {path.relative_to(self._folder).as_posix(): _version(path) for path in paths}
        pages = _client("s3").get_paginator("list_objects_v2")
        return {
            each["Key"][len(self._prefix) :]: each["ETag"]
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix)
            for each in page.get("Contents", ())
        }

    def read(self, name: str) -> Any:
        if not self._bucket:
            return json.loads((self._folder / name).read_text())
        answer = _client("s3").get_object(Bucket=self._bucket, Key=self._prefix + name)
        return json.loads(answer["Body"].read())

    def write(self, name: str, content: bytes) -> None:
        if not self._bucket:
            _write_atomically(self._folder / name, content)
        else:
            _client("s3").put_object(Bucket=self._bucket, Key=self._prefix + name, Body=content)

    def replace(self, name: str, content: bytes, version: str | None) -> bool:
        """Write an entry unless somebody has written it since `version` (None: it is not there).
        Returns whether it has been written."""
        if not self._bucket:
            return self._replace_file(self._folder / name, content, version)
        client = _client("s3", _CONDITIONAL)
        condition = {"If-None-Match": "*"} if version is None else {"If-Match": version}
        on = ("before-call.s3.PutObject", lambda params, **_: params["headers"].update(condition))
        client.meta.events.register(*on)  # Older boto3 have no parameter for it.
        try:
            client.put_object(Bucket=self._bucket, Key=self._prefix + name, Body=content)
        except Exception as error:
            if _code(error) in _OVERTAKEN:
                return False
            raise
        finally:
            client.meta.events.unregister(*on)
        return True

    @staticmethod
    def _replace_file(path: Path, content: bytes, version: str | None) -> bool:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _locked(path.with_suffix(".lock"))
        if lock is None:
            return False
        try:
            if (_version(path) if path.exists() else None) != version:
                return False
            _write_atomically(path, content)
            return True
        finally:
            lock.close()


def _version(path: Path) -> str:
    at = path.stat()
    return f"{at.st_mtime_ns}-{at.st_ino}"


_CONDITIONAL = " with a condition"
_OVERTAKEN = frozenset(
    {"PreconditionFailed", "412", "ConditionalRequestConflict", "409", "NoSuchKey"}
)


def _entry_name(peer: Peer) -> str:
    return f"{peer.name}/{peer.attempt:04d}.json"


class _Presence:
    """This member's entry, and the thread that writes it again."""

    def __init__(self, entries: _Entries, me: Peer) -> None:
        self.me, self.waits = me, True
        self.state: dict[str, Any] = {}
        """What the entry says besides, in a world."""
        self.roster: _Roster | None = None
        self.name = _entry_name(me)
        self._entries, self._beats, self._leads = entries, 0, _leads_the_member()
        self._writing, self._woken = threading.Lock(), threading.Event()
        if self._leads:
            threading.Thread(target=self._run, daemon=True, name="slotq-rendezvous").start()

    def wake(self) -> None:
        """Write often again: this member waits."""
        self.waits = True
        self._woken.set()

    def write(self) -> None:
        if not self._leads:
            return
        with self._writing:
            self._beats += 1
            document = {
                "version": FORMAT, **self.me._asdict(), **self.state,
                "training_job": _training_job(), "beat": self._beats, "at": _now(),
            }  # fmt: skip
            self._entries.write(self.name, json.dumps(document).encode())

    def say(self, state: str, **more: Any) -> None:
        """Change what the entry says; the thread repeats it, but for the last word."""
        self.state = {"state": state, **more}
        with contextlib.suppress(Exception):  # The next beat may succeed.
            self.write()

    def _run(self) -> None:
        while True:
            if self._woken.wait(_BEAT_SECONDS if self.waits else _SELDOM_SECONDS):
                self._woken.clear()
            elif self.state.get("state") != _LEFT:
                with contextlib.suppress(Exception):  # The next one may succeed.
                    self.write()


_presence: _Presence | None = None


def _present(entries: _Entries, me: Peer) -> _Presence:
    """This member's entry, which from now on says `me`."""
    global _presence
    if _presence is None:
        _presence = _Presence(entries, me)
    _presence.me = me
    _presence.wake()
    return _presence


def rendezvous(
    port: int = 0,
    *,
    host: str | None = None,
    names: Iterable[str] | None = None,
    minimum: int | None = None,
    timeout: float = 600.0,
) -> Peers:
    """Tell the group's other members where this one listens, wait for them, and return them.

    `port`, `host`: what the others connect to; the host is this machine's address unless given.
    `names`: the members to wait for; without it all that the queue has started. `minimum`: with so
    many of them the call returns when `timeout` (seconds) is over. Raises TimeoutError where even
    these are missing, and RuntimeError outside a group or without the rights to its prefix.

    Only members that live are returned. Call it again, as often as you like, to find those that
    have come or moved since.
    """
    place = os.environ.get(RENDEZVOUS)
    if not place:
        raise RuntimeError(f"{RENDEZVOUS} is not set: this training job belongs to no group")
    name, role = os.environ.get(SITE) or _training_job(), os.environ.get(ROLE) or "member"
    me = Peer(name, role, host or _own_address(), port, attempt())
    expected = set(_others(me) if names is None else names) - {me.name}
    if not expected and minimum is None and names is None:
        raise RuntimeError(f"{SITES} is not set: say for how many to wait, minimum=…")
    return _meet(_Entries(place), me, expected, minimum, timeout)


def _meet(
    entries: _Entries, me: Peer, expected: set[str], minimum: int | None, timeout: float
) -> Peers:
    presence, until, trouble = _present(entries, me), time.monotonic() + timeout, ""
    search = _Search(entries, presence.name)
    try:
        while True:
            trouble = _looked(search, presence) or trouble
            here = {peer.name: peer for peer in search.found.values()}
            is_enough = len(here) >= (minimum or 0)
            if is_enough and expected <= set(here):
                return Peers(me, here)
            if time.monotonic() >= until:
                if minimum is not None and is_enough:
                    return Peers(me, here)
                missing = ", ".join(sorted(expected - set(here))) or f"{minimum} members"
                raise TimeoutError(f"after {timeout:g} s these are missing: {missing}{trouble}")
            time.sleep(_LOOK_SECONDS)
    finally:
        presence.waits = False


def _looked(search: _Search, presence: _Presence) -> str:
    """Look once. Returns what went wrong; raises RuntimeError if it will not get better."""
    try:
        search.look()
        if search.looks == 1:
            presence.write()
    except Exception as error:
        if _code(error) not in _FOR_GOOD:
            return f": {error}"
        raise RuntimeError(_denied(error)) from error
    return ""


def _denied(error: Exception) -> str:
    return (
        f"the group cannot meet below {os.environ[RENDEZVOUS]}: {error}. The role needs "
        "s3:ListBucket, s3:GetObject and s3:PutObject there"
    )


class _Search:
    """What one call has seen of the others."""

    def __init__(self, entries: _Entries, own: str) -> None:
        self.found: dict[str, Peer] = {}
        self.looks = 0
        self._entries, self._own = entries, own
        self._seen: dict[str, str] = {}

    def look(self) -> None:
        versions = self._entries.versions()
        first, self.looks = self.looks == 0, self.looks + 1
        for name, version in versions.items():
            if not first and name != self._own and self._seen.get(name) != version:
                self._take(name)
            self._seen[name] = version

    def _take(self, name: str) -> None:
        """Take an entry that has just been written."""
        document = self._entries.read(name)
        try:
            peer = Peer(*(kind(document[key]) for key, kind in _FIELDS))
        except (KeyError, TypeError, ValueError):
            return  # Nobody's entry.
        known = self.found.get(peer.name)
        if document.get("state") == _LEFT:
            return
        if known is None or known.attempt <= peer.attempt:
            self.found[peer.name] = peer


_FIELDS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("name", str), ("role", str), ("host", str), ("port", int), ("attempt", int),
)  # fmt: skip


def _others(me: Peer) -> list[str]:
    """The members that the queue has started, as far as it says."""
    try:
        sites = json.loads(os.environ.get(SITES) or "[]")
    except ValueError:
        return []
    return [*sites, SERVER] if me.role == "client" else list(sites)


def _leads_the_member() -> bool:
    """Whether this process speaks for the member: the first of its first node."""
    ranked = _torch_rank() or _spawned_rank() or _torchrun_rank()
    return (ranked[0] if ranked else _nodes(_resource_config())[0]) == 0


def _local_number() -> tuple[int, int]:
    """This process among those of its node, and how many they are, as far as it is known."""
    if _spawned is not None:
        return _spawned
    if _is_helper():
        return 0, 1
    return int(os.environ.get("LOCAL_RANK") or 0), int(os.environ.get("LOCAL_WORLD_SIZE") or 1)


def _own_address() -> str:
    """The address at which other training jobs reach this node."""
    config = _resource_config()
    if _training_job() == _LOCAL or config.get("network_interface_name") == "lo":
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # Sends nothing: the system chooses its own address.
        return str(probe.getsockname()[0])


# --- worlds ---
# The members of an elastic group meet again whenever one comes or goes. A meeting makes a
# generation: who takes part, in the order of the ranks. Three rules:
#
# - Each member at the meeting says so in its entry, with the step of its state. The first living
#   member leads, in the order of the last generation, newcomers last. Once every living member is
#   there it writes the next generation over the last one, on the condition that nobody else has.
#   So two who take themselves for the leader make one generation.
# - Rank 0 is the member whose state is newest. It serves a socket, at which the ranks agree on the
#   step after which they meet again (as in agreement), and sees at once who has gone. It also looks
#   below the prefix for newcomers; nobody else reads S3 between meetings.
# - Who has gone without a word is silent for a while before the others meet without it. Only time
#   in which S3 answers counts, by the reader's own clock.

SIZE = "SLOTQ_GROUP_SIZE"
"""Environment variable of a group's members: how many have started."""
_GENERATION = FOLDER + "/generation.json"
"""Where the newest generation lies, among the entries."""
_READY, _IN, _AWAY, _LEFT = "ready", "in", "away", "left"
"""What an entry says: at the meeting, in a generation, had no patience, has gone."""
_LEAD_SECONDS = 3.0
"""Seconds between two looks of rank 0 for newcomers."""
_SILENT_SECONDS = 3 * _SELDOM_SECONDS
_ABSENT_SECONDS = 3 * _BEAT_SECONDS
"""After so long without a change of its entry a member of a generation has gone, or one that waits
is not at the meeting any more: three beats."""
_GAP_SECONDS = 10.0
"""The most that counts between two looks, so that nobody is silent because S3 was away. What has
changed meanwhile does not show that its member lives now."""
_JOIN_SECONDS = 30.0
"""How long the ranks of a new generation wait until all have connected to rank 0."""
_TRIES = 3
"""Generations in a row whose rank 0 this member does not reach, before it gives up."""


class RendezvousError(RuntimeError):
    """The members of a group cannot meet."""


class RendezvousTimeoutError(RendezvousError, TimeoutError):
    """Too few members have come."""


class RendezvousConnectionError(RendezvousError):
    """The members find each other, but their network does not connect them."""


class _Member(NamedTuple):
    """A member at a meeting, as the generation names it."""

    peer: Peer
    ticket: str
    """New for each meeting."""
    control: int
    """The port at which it serves if it becomes rank 0."""
    processes: int
    step: int

    @property
    def entry(self) -> str:
        return _entry_name(self.peer)

    def document(self) -> dict[str, Any]:
        return {**self.peer._asdict(), **{name: getattr(self, name) for name, _ in _TICKET_FIELDS}}


_TICKET_FIELDS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("ticket", str), ("control", int), ("processes", int), ("step", int),
)  # fmt: skip


def _member(document: Any) -> _Member | None:
    """A member's document; None if it is nobody's."""
    try:
        peer = Peer(*(kind(document[key]) for key, kind in _FIELDS))
        return _Member(peer, *(kind(document[key]) for key, kind in _TICKET_FIELDS))
    except (KeyError, TypeError, ValueError):
        return None


class _Generation(NamedTuple):
    """Who takes part, in the order of the ranks. Number 0: there was none yet."""

    number: int
    members: tuple[_Member, ...]

    def place(self, ticket: str) -> int | None:
        tickets = [member.ticket for member in self.members]
        return tickets.index(ticket) if ticket in tickets else None

    def document(self) -> dict[str, Any]:
        members = [member.document() for member in self.members]
        return {"version": FORMAT, "generation": self.number, "members": members, "at": _now()}


def _generation(document: Any) -> _Generation:
    """What is damaged counts as none: the members' own numbers keep the order."""
    try:
        members = [_member(each) for each in document["members"]]
        return _Generation(int(document["generation"]), tuple(each for each in members if each))
    except (KeyError, TypeError, ValueError):
        return _Generation(0, ())


class _Roster:
    """The members' entries, as this process has seen them change."""

    def __init__(self, entries: _Entries, own: Peer) -> None:
        self.last = _Generation(0, ())
        self.version: str | None = None
        """What the writer of the next generation has to replace."""
        self._entries, self._own = entries, _entry_name(own)
        self._site, self._attempt = own.name, own.attempt
        self._seen: dict[str, str] = {}
        self._living: set[str] = set()
        self._silence: dict[str, float] = {}
        self._read: dict[str, tuple[str, Any]] = {}
        self._looked: float | None = None
        self._looking = threading.Lock()

    def look(self) -> None:
        """List once. Raises S3's errors, and RendezvousError if a later attempt of this member is
        there."""
        with self._looking:  # The last world's thread may still be at it.
            versions = self._entries.versions()
            now, before = time.monotonic(), self._looked
            passed = _GAP_SECONDS if before is None else min(now - before, _GAP_SECONDS)
            newest = self._newest_of_each(versions)
            for name, version in newest.items():
                if self._seen.get(name) == version:
                    self._silence[name] += passed
                else:
                    self._silence[name] = 0.0
                    if passed < _GAP_SECONDS:  # Else it may have died since.
                        self._living.add(name)
            self._seen, self._looked = newest, now
            self._take_generation(versions.get(_GENERATION))

    def _newest_of_each(self, versions: Mapping[str, str]) -> dict[str, str]:
        """The others' entries, of each member the last attempt's."""
        newest: dict[str, tuple[int, str]] = {}
        for name in versions:
            site, _, file = name.rpartition("/")
            attempt_ = file[: -len(".json")]
            if name != _GENERATION and attempt_.isdigit():
                newest[site] = max(newest.get(site, (0, "")), (int(attempt_), name))
        later, _ = newest.pop(self._site, (0, ""))
        if later > self._attempt:
            raise RendezvousError(
                f"attempt {later} of {self._site} has begun, and this is attempt {self._attempt}: "
                "end this process"
            )
        return {name: versions[name] for _, name in newest.values()}

    def _take_generation(self, version: str | None) -> None:
        if version != self.version:
            document: Any = None
            with contextlib.suppress(ValueError):
                document = self._entries.read(_GENERATION)
            self.last, self.version = _generation(document), version

    def document(self, name: str) -> Any:
        """What an entry says; read again only when it has changed. None: half written."""
        version = self._seen[name]
        if self._read.get(name, ("",))[0] != version:
            document = None
            with contextlib.suppress(ValueError):
                document = self._entries.read(name)
            self._read[name] = (version, document if isinstance(document, dict) else None)
        return self._read[name][1]

    def state(self, name: str) -> str:
        return str((self.document(name) or {}).get("state"))

    def order(self) -> list[str]:
        """All entries, this member's too: those of the last generation by rank, then by name."""
        ranks = {member.entry: rank for rank, member in enumerate(self.last.members)}
        names = [*self._seen, self._own]
        return sorted(names, key=lambda name: (ranks.get(name, len(ranks)), _natural(name)))

    def has_gone(self, name: str) -> bool:
        return self._silence[name] >= _SILENT_SECONDS or self.state(name) in {_AWAY, _LEFT}

    def ready(self, name: str) -> _Member | None:
        """The member, if it is at the meeting now; None if not."""
        if name not in self._living or self._silence[name] >= _ABSENT_SECONDS:
            return None
        if self.state(name) != _READY:
            return None
        found = _member(self.document(name))
        return None if found is None or self.last.place(found.ticket) is not None else found

    def propose(self, generation: _Generation) -> bool:
        """Replace the last generation. Returns False where somebody has been quicker."""
        content = json.dumps(generation.document()).encode()
        return self._entries.replace(_GENERATION, content, self.version)

    def has_changed(self, generation: _Generation) -> bool:
        """Whether somebody of the generation is silent, or somebody else waits."""
        inside = {member.entry for member in generation.members}
        return any(
            self._silence[name] >= _SILENT_SECONDS if name in inside else bool(self.ready(name))
            for name in self._seen
        )


def _natural(name: str) -> list[tuple[int, str]]:
    """ring-2 comes before ring-10."""
    return [(int(part or 0), "") if part.isdigit() else (0, part) for part in _DIGITS.split(name)]


_DIGITS = re.compile(r"(\d+)")


class _Meeting:
    """This member's part in a meeting."""

    def __init__(
        self,
        roster: _Roster,
        me: _Member,
        *,
        after: int,
        expected: int,
        minimum: int,
        last_call: float,
    ) -> None:
        """`after`: the generation in which this member was. `expected`: how many have started."""
        self.roster, self.me = roster, me
        self.waits_for = "S3 has not answered"
        self._after, self._minimum, self._last_call = after, minimum, last_call
        self._expected = 1 if after else expected  # Later the last generation says who is missing.
        self._since: float | None = None

    def look(self) -> _Generation | None:
        """The generation in which this member takes part, once there is one. Raises S3's errors."""
        self.roster.look()
        if self.roster.last.place(self.me.ticket) is not None:
            return self.roster.last
        return self._proposed() if self._leads() else None

    def _leads(self) -> bool:
        for name in self.roster.order():
            if name == self.me.entry:
                break
            if not self.roster.has_gone(name):
                self.waits_for = f"{name} is to begin, and has not come"
                return False
        return True

    def _proposed(self) -> _Generation | None:
        """Make the generation, if everybody is there or the last call is over."""
        roster, order = self.roster, self.roster.order()
        others = [name for name in order if name != self.me.entry and not roster.has_gone(name)]
        found = {name: roster.ready(name) for name in others}
        members = [self.me, *(member for member in found.values() if member is not None)]
        inside = {member.entry for member in roster.last.members}
        is_whole = all(found[name] is not None for name in inside & found.keys())
        self.waits_for = f"{len(members)} of at least {self._minimum} members have come"
        if len(members) < self._minimum:
            self._since = None
            return None
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        is_whole = is_whole and len(members) >= self._expected
        if not is_whole and now < self._since + self._last_call:
            return None
        ranked = sorted(members, key=lambda member: (-member.step, order.index(member.entry)))
        made = _Generation(max(roster.last.number, self._after) + 1, tuple(ranked))
        return made if roster.propose(made) else None


class World:
    """A generation of an elastic group, as one process of a member sees it. Made by `world()`.

    generation            counts the meetings, from 1
    rank, world_size      this process among those of all members, as torch counts them
    local_rank            this process among those of its member
    group_rank            this member among the members
    members               all of them in order; their ranks follow the same order
    """

    def __init__(self, generation: _Generation, number: int, watch: _Watch) -> None:
        """`number`: which of the members this one is."""
        self.generation, self.group_rank = generation.number, number
        self.members = [member.peer for member in generation.members]
        self.local_rank = _local_number()[0]
        sizes = [member.processes for member in generation.members]
        self.world_size = sum(sizes)
        self.rank = sum(sizes[:number]) + self.local_rank
        self._is_single = max(sizes) == 1
        self._watch, self._generation = watch, generation
        self._known = threading.Condition()
        self._boundary = 0
        self._stop_at: int | None = None
        self._alert, self._leaves = False, False
        self._over = threading.Event()
        self._closed = threading.Event()
        self._group: _Group | None = None

    @property
    def master(self) -> Peer:
        """The member of rank 0: the one whose state is the newest."""
        return self.members[0]

    def __repr__(self) -> str:
        return (
            f"World(generation={self.generation}, rank={self.rank}, world_size={self.world_size})"
        )

    def changed(self) -> bool:
        """Return whether the members have to meet again now. Ask before each step.

        All ranks ask at the same places: then all get True before the same step. While nobody comes
        or goes that costs no communication. Save, ask should_suspend(), and call world() again.
        """
        self._boundary += 1
        return self._look_closer() if self._alert else False

    def _look_closer(self) -> bool:
        with self._known:
            self._known.wait_for(lambda: self._stop_at is not None, _AGREE_SECONDS)
            if self._stop_at is not None and self._boundary < self._stop_at:
                return False
        if not self._over.is_set():
            self._over.set()
            self._leaves = self._agreed_to_leave()
        return True

    def _agreed_to_leave(self) -> bool:
        """Whether this member has to go: all processes of a member get the same answer."""
        asked = self._watch.found is not None
        if self._is_single or self._group is None:
            return asked
        try:
            said = self._group.gather("leave", [self.group_rank, asked], _AGREE_SECONDS)
        except OSError:
            return asked
        return [self.group_rank, True] in said.values()

    def leaves(self, watch: _Watch) -> bool:
        """What should_suspend answers."""
        if self._leaves:
            watch.reports.acknowledge()
        return self._leaves

    # How the ranks agree. The callbacks come in a thread.

    def connect(self, listener: socket.socket | None) -> None:
        """Meet the other ranks at rank 0, which has a listener. Returns when all are there. Raises
        OSError; _Unreachable if rank 0 does not answer."""
        place = _Place(
            self.rank, self.world_size, self.master.host, self._generation.members[0].control,
            token=f"{os.environ[RENDEZVOUS]}#{self.generation}", listener=listener,
        )  # fmt: skip
        try:
            self._group = _Group(place, asked=self._asked, stop=self._stop, patience=_JOIN_SECONDS)
        except OSError as error:
            raise _Unreachable(f"{self.master.host}:{place.port}") from error
        if len(self._group.gather("here", self.rank, _JOIN_SECONDS)) < self.world_size:
            raise OSError("a member has gone meanwhile")
        if self._watch.found is not None:
            self.ask()

    def end(self) -> None:
        """Say that the world has changed, to this process alone."""
        self._stop(None, 0)

    def _asked(self, key: str) -> int:
        with self._known:
            self._alert = True
            return self._boundary  # Read after `_alert` is set: the next boundary waits.

    def _stop(self, key: str | None, boundary: int) -> None:
        """All stop at this boundary. Without a key rank 0 has gone: stop at the next one."""
        with self._known:
            if key is not None or self._stop_at is None:
                self._stop_at = boundary
            self._alert = True
            self._known.notify_all()

    def ask(self) -> None:
        """Let all meet again."""
        if self._group is not None:
            try:
                self._group.ask(_STOP)
            except OSError:
                self.end()

    def lead(self, roster: _Roster) -> None:
        """Look for those who come, and those who are silent, until the world has changed."""
        while not self._closed.wait(_LEAD_SECONDS):
            try:
                roster.look()
                changed = roster.has_changed(self._generation)
            except Exception:  # noqa: BLE001, S112 # nosec B112 - S3 may yet answer
                continue
            if changed:
                self.ask()
                return

    def close(self) -> None:
        """Leave the agreement."""
        self._closed.set()
        if self._group is not None:
            self._group.close()


class _Unreachable(OSError):
    """Rank 0 does not answer."""


_world: World | None = None


def world(
    port: int = 0,
    *,
    host: str | None = None,
    step: int = 0,
    minimum: int = 1,
    last_call: float = 30.0,
    timeout: float = 600.0,
) -> World:
    """Meet the other members of an elastic group; return who takes part now, and as which rank.

    Call it at the start, whenever the last world has changed, and when a member cannot be reached.
    It waits for all members that live. `port`, `host`: where this member listens if it becomes rank
    0; the host is this machine's address unless given. `step`: how far the state is that this
    member holds. Rank 0 is the one with the largest: let the others take its state.

    `minimum`: fewer members do not begin. `last_call` (seconds): once these are there, how long to
    wait for those that have started and have not come. A member that is asked to suspend while it
    waits gets a world of its own, which has changed.

    Raises RendezvousTimeoutError after `timeout` seconds, RendezvousConnectionError if the members'
    network does not connect them, and RendezvousError outside a group or without the rights to its
    prefix.
    """
    if not os.environ.get(RENDEZVOUS):
        raise RendezvousError(f"{RENDEZVOUS} is not set: this training job belongs to no group")
    if len(_nodes(_resource_config())[1]) > 1:
        raise RendezvousError("a member of an elastic group has one instance, and this has several")
    name, role = os.environ.get(SITE) or _training_job(), os.environ.get(ROLE) or "member"
    me = Peer(name, role, host or _own_address(), port, attempt())
    until = time.monotonic() + timeout
    meet = partial(_meet_all, me, step=step, minimum=minimum, last_call=last_call, until=until)
    return _entered(meet if _local_number()[0] == 0 else partial(_told, until))


class _Met(NamedTuple):
    """What a meeting has come to."""

    generation: _Generation
    number: int
    """Which of the members this one is."""
    alone: bool = False
    roster: _Roster | None = None
    listener: socket.socket | None = None
    """Of rank 0."""


def _entered(meet: Callable[[int], _Met]) -> World:
    """Meet until a generation has come together. `meet`: after the generation with a number."""
    global _world
    watch = _watch or _start()
    watch.listen()
    if _world is None:
        atexit.register(_leave_world)
        watch.add_callback(_end_world)
        watch.alert = True  # From now on the world answers.
    else:
        _world.close()
    after, unreached = 0 if _world is None else _world.generation, 0
    while True:
        met = meet(after)
        made = _world = World(met.generation, met.number, watch)
        if met.alone:
            made.end()
            return made
        try:
            made.connect(met.listener)
        except OSError as error:
            made.close()
            after, unreached = made.generation, unreached + isinstance(error, _Unreachable)
            if unreached == _TRIES:
                raise RendezvousConnectionError(
                    f"rank 0 cannot be reached at {error}. Training jobs reach each other only in "
                    "a VPC: give every request the same VpcConfig, with a security group that "
                    "admits itself"
                ) from error
            continue
        if made.local_rank == 0 and _presence is not None:
            _presence.waits = False
            _presence.say(_IN, generation=made.generation)
        if met.listener is not None and met.roster is not None:
            look = partial(made.lead, met.roster)
            threading.Thread(target=look, daemon=True, name="slotq-leader").start()
        return made


def _end_world() -> None:
    """This member has been asked to suspend."""
    if _world is not None:
        _world.ask()


def _leave_world() -> None:
    """Tell the other members that this one goes."""
    if _world is None:
        return
    if _presence is not None and _world.local_rank == 0:
        _presence.say(_LEFT)
    _world.close()


def _meet_all(
    me: Peer, after: int, *, step: int, minimum: int, last_call: float, until: float
) -> _Met:
    """Come to the meeting, for all processes of this member."""
    entries = _Entries(os.environ[RENDEZVOUS])
    presence = _present(entries, me)
    roster = presence.roster = presence.roster or _Roster(entries, me)
    listener = _listener("127.0.0.1" if me.host == "127.0.0.1" else "", 0)
    ticket, control = secrets.token_hex(8), listener.getsockname()[1]
    own = _Member(me, ticket, control, _local_number()[1], step)
    presence.state = {"state": _READY, **own.document()}
    started = os.environ.get(SIZE, "")
    meeting = _Meeting(
        roster, own, after=after, expected=int(started) if started.isdigit() else 1,
        minimum=minimum, last_call=last_call,
    )  # fmt: skip
    try:
        found = _attended(meeting, presence, until)
    except RendezvousError:
        presence.say(_AWAY)
        listener.close()
        raise
    number = 0 if found is None else found.place(ticket) or 0
    if found is None:
        presence.say(_AWAY)
        met = _Met(_Generation(after, (own,)), 0, alone=True)
    else:
        serving = None if number else listener
        met = _Met(found, number, roster=roster, listener=serving)
    if met.listener is None:
        listener.close()
    _tell_processes(met)
    return met


def _attended(meeting: _Meeting, presence: _Presence, until: float) -> _Generation | None:
    """Wait at the meeting for a generation; None if this member is asked to suspend."""
    trouble, announced = "", False
    while True:
        try:
            if not announced:
                presence.write()
                announced = True
            found = meeting.look()
            trouble = ""
        except RendezvousError:
            raise
        except Exception as error:
            if _code(error) in _FOR_GOOD:
                raise RendezvousError(_denied(error)) from error
            found, trouble = None, f" ({error})"
        if found is not None:
            return found
        if _watch is not None and _watch.found is not None:
            return None
        if time.monotonic() >= until:
            raise RendezvousTimeoutError(
                f"no world within the timeout: {meeting.waits_for}{trouble}. See what became of "
                "the members: `slotq show` and `slotq why` with the group's name"
            )
        time.sleep(_LOOK_SECONDS)


# One process of a member meets the other members. It tells the others of its machine by a file.

_told_at = 0


def _tell_processes(met: _Met) -> None:
    if _local_number()[1] > 1:
        document = {
            **met.generation.document(), "serial": time.monotonic_ns(),
            "number": met.number, "alone": met.alone,
        }  # fmt: skip
        _write_atomically(_run_dir() / "generation.json", json.dumps(document).encode())


def _told(until: float, _after: int) -> _Met:
    """What the first process of this member has found since the last time."""
    global _told_at
    while True:
        document = _read_json(_run_dir() / "generation.json") or {}
        if document.get("serial", 0) > _told_at:
            _told_at = document["serial"]
            return _Met(_generation(document), document["number"], document["alone"])
        if time.monotonic() >= until:
            raise RendezvousTimeoutError(
                "the first process of this member has found no world: see its message"
            )
        time.sleep(_TICK)


def _await_processes(place: str) -> None:
    """Wait until all processes of this member have come here: the others may be saving."""
    number, count = _local_number()
    folder = _run_dir() / place
    folder.mkdir(exist_ok=True)
    (folder / str(number)).touch()
    until = time.monotonic() + _GATHER_SECONDS
    while len(list(folder.iterdir())) < count and time.monotonic() < until:
        time.sleep(_TICK)


# --- manager ---

_PARALLEL_ABOVE = 256 << 20


class _Saves:
    """The saves of a training: when one is due, and that all ranks make each one together."""

    def __init__(
        self,
        newest: Callable[[float], _State | None],
        *,
        every_steps: int | None = None,
        every_minutes: float | None = None,
    ) -> None:
        """`newest(most)`: the newest whole state; none is newer than number `most`."""
        self._newest = newest
        self.number = 0
        """Of the newest save. A resume sets it."""
        self.watch = _watch or _start()
        self.watch.listen()
        self._every_steps = every_steps
        self._pause = None if every_minutes is None else every_minutes * 60.0
        self._due = time.monotonic() + (self._pause or 0.0)
        self._key = f"saved-{next(_counted)}"

    def is_due(self, steps: int) -> bool:
        """Whether to save after so many steps."""
        if self._every_steps and steps % self._every_steps == 0:
            return True
        if self._pause is None:
            return False
        if self.watch.group is None:
            return time.monotonic() >= self._due
        if self.watch.save_due:  # The ranks' clocks differ: rank 0 says when, all agree where.
            self.watch.save_due = False
            return True
        if self.watch.rank == 0 and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._pause
            with contextlib.suppress(OSError):
                self.watch.group.ask(_SAVE)
        return False

    def agreed(self) -> _State | None:
        """The newest state that is whole for every rank: nodes may have disks of their own."""
        self.watch.join()
        found = self._newest(float("inf"))
        number = 0 if found is None else found[1]["number"]
        least = self.least(number)
        found = found if least == number else self._newest(least)
        if found is not None and found[1]["number"] != least:
            raise RuntimeError(f"this rank lacks checkpoint number {least}, which others have")
        return found if least else None

    def least(self, number: int) -> int:
        """The least number that a rank says. Raises RuntimeError."""
        if self.watch.group is None:
            return number
        try:
            return int(min(self.watch.group.gather(f"{self._key}-load", number).values()))
        except OSError as error:
            raise RuntimeError(f"the ranks cannot agree on a checkpoint: {error}") from None

    def begin(self) -> bool:
        """Begin the next save, when every rank does: it has loaded what it needs, and the save
        before is whole. A rank that ran ahead would write over both."""
        self.watch.join()
        self.number += 1
        self._due = time.monotonic() + (self._pause or 0.0)
        if self.watch.world < 2:
            return True
        numbers: dict[int, int] = {}
        if self.watch.group is not None:
            with contextlib.suppress(OSError):
                numbers = self.watch.group.gather(f"{self._key}-{self.number}", self.number)
        if len(numbers) < self.watch.world:
            _say(f"only {len(numbers)} of {self.watch.world} ranks are there: no checkpoint")
            return False
        return True

    def commit(
        self,
        number: int,
        files: list[dict[str, Any]],
        began: float,
        write: Callable[[Mapping[str, Any]], None],
        **about: Any,
    ) -> None:
        """Tell rank 0 which files this rank has written; rank 0 waits for all, and calls `write`
        with the manifest."""
        group, key = self.watch.group, f"{self._key}-{number}-files"
        if group is not None and self.watch.rank:
            with contextlib.suppress(OSError):
                group.tell(key, files)
            return
        of_ranks = {0: files}
        if group is not None:
            try:
                of_ranks = group.gather(key, files)
            except OSError as error:
                _say(f"the checkpoint is not complete: {error}")
                return
        if len(of_ranks) < self.watch.world:
            _say(f"only {len(of_ranks)} of {self.watch.world} ranks have saved: no checkpoint")
            return
        seconds = round(time.monotonic() - began, 3)
        every = {each["file"]: each for rank in sorted(of_ranks) for each in of_ranks[rank]}
        write(
            {
                **about,
                "number": number,
                "ranks": self.watch.world,
                "saved_at": _now(),
                "seconds": seconds,
                "files": list(every.values()),
            }
        )
        self.watch.reports.saved(epoch=about["epoch"], step=about["steps"], seconds=seconds)


_counted = itertools.count()


class Manager:
    """Saves and resumes a training: `checkpoint.manager` makes it.

        ckpt = checkpoint.manager(model, optimizer, every_minutes=10)
        for epoch in ckpt.epochs(10):
            for x, y in ckpt.batches(loader):
                ...

    Or, with loops of your own: begin at `start_epoch` and `start_step`, and call `after_step` and
    `after_epoch`.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any = None,
        *,
        scheduler: Any = None,
        dataloader: Any = None,
        path: str | os.PathLike[str] | None = None,
        keep: int = 2,
        every_steps: int | None = None,
        every_minutes: float | None = None,
        every_epoch: bool = True,
        background: bool = False,
        parallel_above: int = _PARALLEL_ABOVE,
        **more: Any,
    ) -> None:
        """Resume from the newest whole checkpoint below `path`, if there is one.

        `model` and the others: anything with `state_dict` and `load_state_dict`, or a dict.
        `more`: others by name, such as a GradScaler.
        `path`: a folder below checkpoint_dir(), or an absolute one. Default: checkpoint_dir().
        `keep`: so many newest checkpoints stay.
        `background`: save in a thread, from a copy of the state, except at a suspend.
        `parallel_above`: bytes of a model above which the ranks share the writing.

        Raises ValueError if the checkpoint is of other objects, or of another number of ranks where
        each rank holds a shard of its own.
        """
        objects = {"model": model, "optimizer": optimizer, "scheduler": scheduler, **more}
        self._objects = {name: each for name, each in objects.items() if each is not None}
        self._loader = dataloader if hasattr(dataloader, "state_dict") else None
        folder = Path(checkpoint_dir()) / (path or ".")
        self._slots = _Slots(folder, keep)
        self._saves = _Saves(
            self._slots.newest, every_steps=every_steps, every_minutes=every_minutes
        )
        self._watch = self._saves.watch
        self._every_epoch = every_epoch
        self._background, self._above = background, parallel_above
        self._saving: threading.Thread | None = None
        self._steps = 0
        self.start_epoch = 0
        """The epoch to begin with."""
        self.start_step = 0
        """The step of that epoch to begin with."""
        self.others: Any = {}
        """Your own values, saved and restored: anything that pickle takes."""
        self.resumed = False
        """Whether a checkpoint has been loaded."""
        self._epoch_states = _random_states()
        self._step_states: dict[str, Any] | None = None
        self._load()

    # Loops.

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs that are left of `count`."""
        while self.start_epoch < count:
            epoch = self.start_epoch
            yield epoch
            self.after_epoch(epoch)

    def batches(self, loader: Any) -> Iterator[Any]:
        """The batches that are left of this epoch; after each one the step is counted as done.

        After a resume in the middle of an epoch the loader is run through the batches already
        done, with the random states of the epoch's begin, so the order is that of the first time.
        """
        epoch, first = self.start_epoch, self.start_step
        set_epoch = getattr(getattr(loader, "sampler", None), "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        batches = self._iterator(loader, first)
        for step, batch in enumerate(batches, first):
            yield batch
            self.after_step(epoch, step)

    def _iterator(self, loader: Any, first: int) -> Iterator[Any]:
        states, self._step_states = self._step_states, None
        if first == 0:
            states, self._epoch_states = None, _random_states()
        if states is not None:
            _set_random_states(self._epoch_states)
        batches: Iterator[Any] = iter(loader)
        if loader is not self._loader:  # That one goes on by itself.
            for _ in range(first):
                next(batches, None)
        if states is not None:
            _set_random_states(states)
        return batches

    # Loops of your own.

    def after_step(self, epoch: int, step: int, others: Any = None) -> None:
        """Count a step as done; save if that is due. On a suspend: save, and never return.

        `others`: your own values, in place of those kept so far.
        """
        self._steps += 1
        self.start_epoch, self.start_step = epoch, step + 1
        if others is not None:
            self.others = others
        if should_suspend():
            self._save_and_suspend()
        elif self._saves.is_due(self._steps):
            self.save()

    def after_epoch(self, epoch: int, others: Any = None) -> None:
        """Count an epoch as done; save if that is due. On a suspend: save, and never return."""
        self.start_epoch, self.start_step = epoch + 1, 0
        self._epoch_states = _random_states()
        if others is not None:
            self.others = others
        if should_suspend():
            self._save_and_suspend()
        elif self._every_epoch:
            self.save()

    def save(self, *, background: bool | None = None) -> None:
        """Save now. In a job of several ranks, every rank calls it after the same step."""
        self._wait()
        if not self._saves.begin():
            return
        number, began = self._saves.number, time.monotonic()
        state = self._state()
        about = {"epoch": self.start_epoch, "step": self.start_step, "steps": self._steps}
        if self._background if background is None else background:
            state = _snapshot(state)
            self._saving = threading.Thread(target=self._write, args=(number, state, about, began))
            self._saving.start()
        else:
            self._write(number, state, about, began)

    def _save_and_suspend(self) -> None:
        self.save(background=False)
        suspend()

    def _wait(self) -> None:
        """Wait until the save in the background has ended."""
        if self._saving is not None:
            self._saving.join()
            self._saving = None

    # The state.

    def _is_fsdp1(self) -> bool:
        modules = getattr(self._objects["model"], "modules", None)
        return modules is not None and any(_is_fsdp1(module) for module in modules())

    @contextlib.contextmanager
    def _local_shards(self) -> Iterator[None]:
        """FSDP's first version would gather the whole model on each rank."""
        if not self._is_fsdp1():
            yield
            return
        from torch.distributed.fsdp import FullyShardedDataParallel, StateDictType

        model = self._objects["model"]
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.LOCAL_STATE_DICT):
            yield

    def _state(self) -> dict[str, Any]:
        """What this rank writes."""
        with self._local_shards():
            objects = {name: _state_of(each) for name, each in self._objects.items()}
        sharded = self._watch.world > 1 and (self._is_fsdp1() or _has_shards(objects))
        own: dict[str, Any] = {
            "random": _random_states(),
            "epoch_random": self._epoch_states,
            "others": self.others,
            "loader": None if self._loader is None else self._loader.state_dict(),
            "sharded": sharded,
        }
        if sharded:
            return {**own, "objects": objects, "parts": {}}
        skeleton, parts = _divided(objects, self._watch.world, self._above)
        return {
            **own,
            "objects": skeleton if self._watch.rank == 0 else None,
            "parts": parts[self._watch.rank],
        }

    def _write(
        self, number: int, state: dict[str, Any], about: dict[str, Any], began: float
    ) -> None:
        """Write this rank's file; rank 0 then waits for the others', and writes the manifest."""
        if self._watch.rank == 0:
            self._slots.begin(number)
        entry = self._slots.write(number, self._watch.rank, state)
        about = {**about, "sharded": state["sharded"]}
        self._saves.commit(number, [entry], began, self._slots.commit, **about)

    def _load(self) -> None:
        found = self._saves.agreed()
        if found is None:
            return
        slot, manifest = found
        files = [slot / each["file"] for each in manifest["files"]]
        own = _load(files[self._watch.rank]) if self._watch.rank < len(files) else None
        if manifest["sharded"]:
            if manifest["ranks"] != self._watch.world or own is None:
                raise ValueError(
                    f"the checkpoint in {slot} has the shards of {manifest['ranks']} ranks, and "
                    f"this job has {self._watch.world}"
                )
            objects = own["objects"]
        else:
            objects = self._whole_objects(files, own)
        missing = sorted(set(self._objects) - set(objects))
        if missing:
            raise ValueError(f"the checkpoint in {slot} has no {', '.join(missing)}")
        with self._local_shards():
            for name, each in self._objects.items():
                _restore(each, objects[name])
        self._take(own, manifest)

    def _whole_objects(self, files: list[Path], own: Any) -> dict[str, Any]:
        """The objects that all ranks have saved together."""
        first = own if self._watch.rank == 0 else _load(files[0])
        tensors = dict(first["parts"])
        for rank, file in enumerate(files[1:], 1):
            tensors.update((own if rank == self._watch.rank else _load(file))["parts"])
        self.others = first["others"]
        return dict(_joined(first["objects"], tensors))

    def _take(self, own: Any, manifest: Mapping[str, Any]) -> None:
        """Go on where the checkpoint was saved. A rank that was not there then starts afresh."""
        self._saves.number = manifest["number"]
        self._steps = manifest["steps"]
        self.start_epoch, self.start_step = manifest["epoch"], manifest["step"]
        self.resumed = True
        if own is not None:
            self.others = own["others"]
            self._epoch_states = own["epoch_random"]
            self._step_states = own["random"]
            _set_random_states(own["random"])
            if self._loader is not None and own["loader"] is not None:
                self._loader.load_state_dict(own["loader"])
        if self._watch.rank == 0:
            _say(f"resumes after step {self._steps} (epoch {self.start_epoch})")


def _is_fsdp1(module: Any) -> bool:
    return any(each.__name__ == "FullyShardedDataParallel" for each in type(module).__mro__)


def _state_of(each: Any) -> Any:
    return each.state_dict() if hasattr(each, "state_dict") else dict(each)


def _restore(each: Any, state: Any) -> None:
    if hasattr(each, "load_state_dict"):
        each.load_state_dict(state)
    else:
        each.clear()
        each.update(state)


def _has_shards(state: Any) -> bool:
    """Whether a state holds tensors of which this rank has only a shard (DTensor, as in FSDP2)."""
    found: list[Any] = []

    def look(value: Any) -> Any:
        if hasattr(value, "to_local"):
            found.append(value)
        return value

    _mapped(state, look)
    return bool(found)


checkpoint = SimpleNamespace(manager=Manager)


# --- libraries ---
# Callbacks for libraries that have a loop and checkpoints of their own. Those checkpoints are used,
# and get a manifest, so that a torn one is never loaded. The callbacks derive from a class of the
# library, so they are made when a script first names them: slotq_training.LightningCallback,
# slotq_training.TransformersCallback.


def _imported(*names: str) -> Any:
    """The first of some modules that the script has imported, else the first that is there."""
    for name in names:
        if name in sys.modules:
            return sys.modules[name]
    for name in names[:-1]:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    return importlib.import_module(names[-1])


class _Heartbeat:
    """Reports progress after each step, with the newest metrics."""

    _SECONDS = 1.0
    """Between two looks at the metrics: they may cost more than a step."""

    def __init__(self) -> None:
        self._due = 0.0
        self._metrics: dict[str, Any] = {}

    def beat(self, step: int, of: Any, metrics: Callable[[], Mapping[str, Any]]) -> None:
        if not self._metrics or time.monotonic() >= self._due:
            self._due = time.monotonic() + self._SECONDS
            found = metrics().items()
            self._metrics = {name: value for name, value in found if name not in {"step", "of"}}
        known = isinstance(of, (int, float)) and 0 < of < float("inf")
        report(step, int(of) if known else None, **self._metrics)


class _Resumable:
    """What `resumable` adds to a loader: where it is in its epoch."""

    _done = 0
    """Batches of this epoch that have been given."""
    _first = 0
    """The batch with which the next epoch begins."""
    _begin: dict[str, Any] | None = None
    """The random states with which the epoch began."""

    def state_dict(self) -> dict[str, Any]:
        # Text, because torch.load takes no other object than tensors, if it is to be safe.
        return {"done": self._done, "begin": pickle.dumps(self._begin).hex()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        done = int(state["done"])
        self._first = self._done = done if done < len(self) else 0  # type: ignore[arg-type]
        self._begin = pickle.loads(bytes.fromhex(state["begin"]))  # noqa: S301 # nosec B301

    def __iter__(self) -> Iterator[Any]:
        first, self._first = self._first, 0
        now = _random_states()
        if first and self._begin is not None:
            _set_random_states(self._begin)
        else:
            self._begin = now
        self._done = first
        batches = super().__iter__()  # type: ignore[misc]
        for _ in range(first):
            next(batches, None)
        if first:
            _set_random_states(now)
        for batch in batches:
            self._done += 1
            yield batch


def resumable(loader: Any) -> Any:
    """Return a loader that goes on in the middle of an epoch, with the batches that are left.

    For Lightning: it keeps the place of a loader that has `state_dict` and `load_state_dict`. This
    one has them. `loader`: a DataLoader of torch, or any other with a length; one that has a
    `state_dict` stays as it is. A DataLoader that Lightning gives another sampler stays resumable.

    Raises TypeError for a loader without a length: it cannot be known what is left.
    """
    if hasattr(loader, "state_dict"):
        return loader
    kind = type(loader)
    len(loader)
    made: Any = object.__new__(type(kind.__name__, (_Resumable, kind), {}))
    made.__dict__.update(vars(loader))
    return made


def _resumables(loaders: Any) -> list[_Resumable]:
    """The resumable ones in nested dicts, lists and tuples."""
    if isinstance(loaders, dict):
        return _resumables(list(loaders.values()))
    if isinstance(loaders, (list, tuple)):
        return [each for one in loaders for each in _resumables(one)]
    return [loaders] if isinstance(loaders, _Resumable) else []


_LIGHTNINGS = "lightning.ckpt"
"""The name of Lightning's checkpoint in a slot: a file, or the folder of a sharded one."""


class _LightningCallback:
    """Saves, suspends and reports a training of PyTorch Lightning.

        suspend = slotq.LightningCallback(every_minutes=10)
        trainer = Trainer(callbacks=[suspend])
        trainer.fit(model, slotq.resumable(loader), ckpt_path=suspend.latest())

    What is saved is `trainer.save_checkpoint`'s, with the random states of each rank beside.
    """

    best_model_path = ""

    def __init__(
        self,
        *,
        path: str | os.PathLike[str] | None = None,
        keep: int = 2,
        every_steps: int | None = None,
        every_minutes: float | None = None,
        every_epoch: bool = True,
    ) -> None:
        """As for checkpoint.manager. `every_steps` counts the trainer's `global_step`."""
        self._slots = _Slots(Path(checkpoint_dir()) / (path or "."), keep)
        self._saves = _Saves(
            self._slots.newest, every_steps=every_steps, every_minutes=every_minutes
        )
        self._every_epoch = every_epoch
        self._found = self._slots.newest()
        self._saves.number = 0 if self._found is None else self._found[1]["number"]
        self._heartbeat = _Heartbeat()
        self._of: Any = None
        self._leaves = False

    def latest(self) -> str | None:
        """Return the newest whole checkpoint, for `ckpt_path` of `trainer.fit`; None at first."""
        return None if self._found is None else str(self._found[0] / _LIGHTNINGS)

    def on_train_start(self, trainer: Any, _module: Any) -> None:
        watch = self._saves.watch
        watch.listen_alone()  # Lightning's own way ends the training without saving it.
        watch.join()
        if self._saves.least(self._saves.number) != self._saves.number:
            raise RuntimeError("the ranks have found different checkpoints")
        self._of = trainer.estimated_stepping_batches
        if self._found is None or str(trainer.ckpt_path) != self.latest():
            return
        slot, manifest = self._found
        prefix = _rank_file(watch.rank) + "."
        own = next((one["file"] for one in manifest["files"] if one["file"].startswith(prefix)), "")
        if own and manifest["ranks"] == watch.world:
            state = _load(slot / own)
            for loader, place in zip(_resumables(trainer.train_dataloader), state["loaders"]):
                loader.load_state_dict(place)
            _set_random_states(state["random"])

    def on_train_batch_end(
        self, trainer: Any, _module: Any, _outputs: Any, _batch: Any, batch_idx: int
    ) -> None:
        self._heartbeat.beat(trainer.global_step, self._of, lambda: trainer.callback_metrics)
        last = trainer.is_last_batch
        if (batch_idx + 1) % trainer.accumulate_grad_batches and not last:
            return  # A checkpoint would lack the gradients.
        if should_suspend():
            self._save(trainer)
            if not last:
                self._leave(trainer)
            self._leaves = True  # Lightning cannot resume before what it does at an epoch's end.
        elif self._saves.is_due(trainer.global_step):
            self._save(trainer)

    def on_train_epoch_end(self, trainer: Any, _module: Any) -> None:
        if self._leaves:
            self._save(trainer)
            self._leave(trainer)
        if self._every_epoch:
            self._save(trainer)

    def _leave(self, trainer: Any) -> None:
        for logger in trainer.loggers:
            logger.save()
        suspend()

    def _save(self, trainer: Any) -> None:
        if not self._saves.begin():
            return
        number, began, rank = self._saves.number, time.monotonic(), self._saves.watch.rank
        if rank == 0:
            self._slots.begin(number)
        places = [each.state_dict() for each in _resumables(trainer.train_dataloader)]
        own = {"random": _random_states(), "loaders": places}
        files = [self._slots.write(number, rank, own)]
        slot = self._slots.slot(number)
        trainer.save_checkpoint(slot / _LIGHTNINGS)  # Returns when every rank has written.
        if trainer.local_rank == 0:
            written = slot / _LIGHTNINGS
            files += _entries(slot, _files_below(written) if written.is_dir() else [written])
        step = trainer.global_step
        self._saves.commit(
            number, files, began, self._slots.commit,
            epoch=trainer.current_epoch, step=step, steps=step,
        )  # fmt: skip


def _lightning_callback() -> type:
    """Raises ImportError where Lightning is not installed."""
    library = _imported("lightning.pytorch.callbacks", "pytorch_lightning.callbacks")
    about = {"__doc__": _LightningCallback.__doc__, "__module__": __name__}
    return type("LightningCallback", (_LightningCallback, library.Checkpoint), about)


_TRAINERS_MANIFEST = "slotq-manifest.json"


class _TransformersCallback:
    """Saves, suspends and reports a training of transformers.Trainer.

        suspend = slotq.TransformersCallback()
        args = TrainingArguments(output_dir=slotq.checkpoint_dir(), ...)
        trainer = Trainer(model, args, callbacks=[suspend], ...)
        trainer.train(resume_from_checkpoint=suspend.latest())

    The Trainer saves as its arguments say, and at a suspend. The callback removes old checkpoints
    (`save_total_limit`) in place of the Trainer, which would do so before the new one is whole.
    """

    def __init__(self) -> None:
        self._folder = Path(checkpoint_dir())
        self._saves = _Saves(self._newest)
        self._heartbeat = _Heartbeat()
        self._metrics: dict[str, Any] = {}
        self._keep: int | None = None
        self._numbers: list[int] = []
        self._leaves = False
        self._began = time.monotonic()

    def latest(self) -> str | None:
        """Return the newest whole checkpoint, for `resume_from_checkpoint`; None at first.

        Call it once the Trainer has been made.
        """
        found = self._saves.agreed()
        if found is None:
            return None
        self._numbers = [found[1]["number"]]
        return str(found[0])

    def _newest(self, most: float) -> _State | None:
        manifests = self._folder.glob("checkpoint-*/" + _TRAINERS_MANIFEST)
        return next(_whole(manifests, most), None)

    def on_init_end(self, args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._folder = Path(args.output_dir)
        if Path(checkpoint_dir()).resolve() not in [
            self._folder.resolve(),
            *self._folder.resolve().parents,
        ]:
            _say(f"{self._folder} is lost with the job: let output_dir be below checkpoint_dir()")

    def on_train_begin(self, args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._keep, args.save_total_limit = args.save_total_limit, None

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        self._began = time.monotonic()
        self._heartbeat.beat(state.global_step, state.max_steps, lambda: self._metrics)
        if should_suspend():
            self._leaves = True
            control.should_save, control.should_evaluate = True, False

    def on_epoch_end(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._began = time.monotonic()

    def on_evaluate(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._began = time.monotonic()

    def on_log(self, _args: Any, _state: Any, _control: Any, **more: Any) -> None:
        self._metrics = dict(more.get("logs") or {})

    def on_save(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        number = state.global_step
        folder = self._folder / f"checkpoint-{number}"
        if self._saves.begin():  # Every rank has written its files.
            paths = _files_below(folder) if state.is_local_process_zero else ()
            files = _entries(folder, (path for path in paths if path.name != _TRAINERS_MANIFEST))
            self._saves.commit(
                number, files, self._began, partial(_write_manifest, folder / _TRAINERS_MANIFEST),
                epoch=int(state.epoch or 0), step=number, steps=number,
            )  # fmt: skip
            self._numbers.append(number)
            self._remove_old(state)
        if self._leaves:
            suspend()

    def _remove_old(self, state: Any) -> None:
        if not self._keep or self._saves.watch.rank:
            return
        kept = {f"checkpoint-{number}" for number in sorted(self._numbers)[-self._keep :]}
        kept.add(Path(state.best_model_checkpoint or ".").name)
        for manifest in self._folder.glob("checkpoint-*/" + _TRAINERS_MANIFEST):
            if manifest.parent.name not in kept:
                with contextlib.suppress(FileNotFoundError):
                    manifest.unlink()  # First: what is half removed is not there.
                shutil.rmtree(manifest.parent, ignore_errors=True)


def _transformers_callback() -> type:
    """Raises ImportError where transformers is not installed."""
    library = importlib.import_module("transformers")
    about = {"__doc__": _TransformersCallback.__doc__, "__module__": __name__}
    return type("TransformersCallback", (_TransformersCallback, library.TrainerCallback), about)


# --- HFAI ---
# Scripts for HFAI's platform run as they are where hfai.py lies beside this file; slotq ships both.
# Elsewhere only the import changes: from slotq_training import hfai


def _receive_suspend_command() -> bool:
    """Return whether the job has to go: on the first node, in any process of it."""
    watch = _watch or _start()
    watch.listen()
    return watch.found is not None


def _go_suspend() -> None:
    """Let the job's slots go, from any node. Never returns."""
    suspend()


def _get_whole_life_state() -> int:
    """Return the value that attempts hand on; 0 at first."""
    return int(life_state.get(0))


def _set_whole_life_state(state: int) -> None:
    life_state.set(int(state))


def _set_priority(priority: Any) -> None:
    """Say who can: no job has a right to the queue's API."""
    _say(
        f"hfai.client.set_priority({priority!r}) has no effect here: `slotq priority JOB "
        f"{priority}` changes the priority of a job"
    )


class _Distributed:
    """torch.distributed, but that `get_rank` is the node's number, as in HFAI's examples."""

    @staticmethod
    def get_rank() -> int:
        return _nodes(_resource_config())[0]

    @staticmethod
    def get_world_size() -> int:
        return len(_nodes(_resource_config())[1])

    def __getattr__(self, name: str) -> Any:
        import torch.distributed

        return getattr(torch.distributed, name)


def _spawn(  # noqa: PLR0917 - as below
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,  # noqa: FBT001, FBT002 - HFAI's and torch's signature
    daemon: bool = False,  # noqa: FBT001, FBT002
    start_method: str = "spawn",
    bind_numa: bool = False,  # noqa: FBT001, FBT002
) -> Any:
    """Run `fn(number, *args)` in `nprocs` processes; with `join` wait until all have ended.

    `bind_numa`: give the processes the CPUs of one NUMA node each, evenly.

    Raises RuntimeError if one fails: the others are killed. If one suspends the job, this process
    ends too.
    """
    _start().listen()  # This process learns of a suspend for all of them.
    context = multiprocessing.get_context(start_method)
    processes = [
        context.Process(  # type: ignore[attr-defined]
            target=_spawned_main, args=(fn, number, nprocs, args, bind_numa), daemon=daemon
        )
        for number in range(nprocs)
    ]
    for process in processes:
        process.start()
    if not join:
        return processes
    _join_all(processes)
    return None


def _spawned_main(
    fn: Callable[..., Any],
    number: int,
    count: int,
    args: tuple[Any, ...],
    bind_numa: bool,  # noqa: FBT001 - passed by position
) -> None:
    global _spawned, _forked
    _spawned, _forked = (number, count), False
    if bind_numa:
        _bind_numa(number, count)
    fn(number, *args)


def _join_all(processes: list[Any]) -> None:
    left = {process.sentinel: process for process in processes}
    while left:
        for sentinel in multiprocessing.connection.wait(list(left)):
            process = left.pop(sentinel)
            process.join()
            if process.exitcode == 0:
                continue
            for other in left.values():
                other.kill()
            if process.exitcode == EXIT_RELEASED:
                _release()
            raise RuntimeError(f"process {process.name} ended with {process.exitcode}")


def _bind_numa(number: int, count: int) -> None:
    """Bind this process to the CPUs of its NUMA node, where Linux tells which they are."""
    lists = sorted(Path("/sys/devices/system/node").glob("node[0-9]*/cpulist"))
    if not lists or not hasattr(os, "sched_setaffinity"):
        return
    with contextlib.suppress(OSError, ValueError):
        text = lists[number * len(lists) // count].read_text().strip()
        cpus = {cpu for part in text.split(",") for cpu in _cpus(part)}
        allowed = cpus & os.sched_getaffinity(0)
        if allowed:
            os.sched_setaffinity(0, allowed)


def _cpus(part: str) -> Iterator[int]:
    """`0-3` as 0, 1, 2, 3."""
    first, _, last = part.partition("-")
    yield from range(int(first), int(last or first) + 1)


def _init(
    model: Any,
    optimizer: Any = None,
    scheduler: Any = None,
    amp_scaler: Any = None,
    ckpt_path: str | os.PathLike[str] = "latest.pt",
    *,
    every_minutes: float | None = 10.0,
) -> tuple[int, int, Any]:
    """Resume, and give the model a method `try_save(epoch, step, others=None)`.

    Returns the epoch and the step to begin with, and the user's own values (None at first). Each
    process calls `try_save` after each step: on a suspend it saves and never returns.
    """
    made = Manager(
        model,
        optimizer,
        scheduler=scheduler,
        path=ckpt_path,
        every_minutes=every_minutes,
        every_epoch=False,
        **({} if amp_scaler is None else {"amp_scaler": amp_scaler}),
    )
    model.try_save = made.after_step
    return made.start_epoch, made.start_step, made.others if made.resumed else None


def _hfai() -> SimpleNamespace:
    distributed_env(export=True)  # Its platform sets MASTER_IP and the others in each process.
    return SimpleNamespace(
        client=SimpleNamespace(
            receive_suspend_command=_receive_suspend_command,
            go_suspend=_go_suspend,
            get_whole_life_state=_get_whole_life_state,
            set_whole_life_state=_set_whole_life_state,
            set_priority=_set_priority,
        ),
        distributed=_Distributed(),
        multiprocessing=SimpleNamespace(spawn=_spawn),
        checkpoint=SimpleNamespace(init=_init),
    )


_MADE_LATER: dict[str, Callable[[], Any]] = {
    "hfai": _hfai,
    "LightningCallback": _lightning_callback,
    "TransformersCallback": _transformers_callback,
}
"""What is made at its first use, because it imports something or changes the environment."""


def __getattr__(name: str) -> Any:
    if name not in _MADE_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = _MADE_LATER[name]()
    globals()[name] = made
    return made

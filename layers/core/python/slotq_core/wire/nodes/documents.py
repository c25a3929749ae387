"""Orders to nodes and reports from them: the JSON of `orders.json` and `report.json`.

Both are states, not messages: a lost, repeated or late document is harmless. Both are canonical
JSON, so that the core and the agent (`adapters/nodes/agent.py`, which imports nothing of the core)
write the same bytes. A report is untrusted until its proof is checked: jobs of the node have the
right to write it, but not the node's token.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from math import isfinite
from typing import Any

from slotq_core.errors import NotUnderstood
from slotq_core.gpu_amounts import Gpus
from slotq_core.model.attempts import GpuBound
from slotq_core.wire import strict_json

VERSION = 1
"""The version of both documents. Readers ignore fields that they do not know."""

LARGEST_REPORT = 1 << 20
"""Bytes of a report."""
LARGEST_ORDERS = 16 << 20
"""Bytes of orders: 32 requests with the longest hyperparameters."""
MOST_ATTEMPTS = 256
"""The most attempts in one document: 32 that live, and those that ended and are still listed."""
MOST_GPUS = 64
MOST_METRICS = 40
LONGEST_FAILURE = 1024
"""Characters of an attempt's failure, as SageMaker's FailureReason."""
LONGEST_URI = 2048
"""Characters of a place in S3: the longest one of a request, with what the agent adds to it."""
LONGEST_PROBLEM = 300
MOST_PROBLEMS = 20
GRACE = 5
"""Seconds between SIGTERM and SIGKILL, where the pool says nothing else."""

_LARGEST_NUMBER = 1 << 53
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")

_REQUEST_FIELDS = (
    "AlgorithmSpecification",
    "CheckpointConfig",
    "Environment",
    "HyperParameters",
    "InputDataConfig",
    "OutputDataConfig",
    "StoppingCondition",
)


class Unproven(NotUnderstood):
    """A report without the node's proof: whoever wrote it does not know the node's token."""


class OfAnother(NotUnderstood):
    """A report of another node or another generation."""


# --- canonical JSON ---


def canonical(document: Mapping[str, Any]) -> bytes:
    """Write the document: keys sorted, no spaces, ASCII. Raises ValueError for NaN."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode()


def proof(document: Mapping[str, Any], token: str) -> str:
    """Return the HMAC-SHA256 (hex) of a report under the node's token. The field `hmac` is left
    out."""
    signed = {key: value for key, value in document.items() if key != "hmac"}
    return hmac.new(token.encode(), canonical(signed), hashlib.sha256).hexdigest()


# --- orders ---


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspend:
    """A request to an attempt to save its work and release its GPUs."""

    by: str
    """The beneficiary, if any."""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OrderedAttempt:
    """One attempt that should run on the node."""

    attempt: str
    """The name of the attempt's training job."""
    job: str
    number: int
    gpus: tuple[int, ...] = ()
    """Indexes on the node."""
    gpu_part: Gpus | None = None
    """The part of its one GPU, in hundredths; None: whole GPUs."""
    cpus: int | None = None
    memory_mib: int | None = None
    grace_s: int = GRACE
    """Seconds that the script has to release after `suspend`, and again after SIGTERM."""
    literal_paths: bool = False
    """Whether the job has the node's /opt/ml itself. At most one attempt of a node at a time."""
    suspend: Suspend | None = None
    stop: bool = False
    """Whether to end the attempt. An attempt that the orders do not list is ended, too."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The reduced CreateTrainingJob request (`reduced`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Orders:
    """Everything that should run on a node now."""

    node: str
    generation: int
    number: int
    """Rises with each orders of a generation: at least the time of the writing (ms), so that it
    also rises above orders that are lost. The agent ignores a number that is not above the last
    that it has read."""
    lease_s: int
    leave: bool = False
    """Whether to end all attempts and the node."""
    attempts: tuple[OrderedAttempt, ...] = ()


_ORDER_FIELDS = tuple(field.name for field in fields(OrderedAttempt))


def reduced(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a CreateTrainingJob request that the agent reads."""
    return {name: request[name] for name in _REQUEST_FIELDS if request.get(name) is not None}


def written_orders(orders: Orders) -> bytes:
    """Write `orders.json`."""
    attempts = [_written(order) for order in orders.attempts]
    return canonical({"version": VERSION, **asdict(orders), "attempts": attempts})


def _written(order: OrderedAttempt) -> dict[str, Any]:
    document = asdict(order)
    if order.gpu_part is None:
        del document["gpu_part"]
    return document


def read_orders(content: bytes) -> Orders:
    """Read orders that the queue has written. Raises NotUnderstood."""
    try:
        document = strict_json.parse(content)
        if document["version"] != VERSION:
            raise NotUnderstood("the orders have an unknown version")
        known = {name: document[name] for name in ("node", "generation", "number", "lease_s")}
        attempts = tuple(_ordered(order) for order in document["attempts"])
        return Orders(**known, leave=document["leave"], attempts=attempts)
    except (KeyError, TypeError, ValueError) as error:
        raise NotUnderstood("the orders have an unknown form") from error


def _ordered(document: Mapping[str, Any]) -> OrderedAttempt:
    fields = {"gpu_part": None, **document}  # Earlier versions wrote no parts.
    fields = {name: fields[name] for name in _ORDER_FIELDS}
    suspend = document["suspend"]
    fields["suspend"] = None if suspend is None else Suspend(**suspend)
    return OrderedAttempt(**{**fields, "gpus": tuple(document["gpus"])})


# --- reports ---


class NodePhase(StrEnum):
    STARTING = "starting"
    READY = "ready"
    LEAVING = "leaving"


class AttemptPhase(StrEnum):
    FETCHING = "fetching"
    RUNNING = "running"
    STOPPING = "stopping"
    SAVING = "saving"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    RELEASED = "released"

    @property
    def ended(self) -> bool:
        """Whether all processes are gone and everything is uploaded."""
        return self in _ENDED


_ENDED = frozenset(
    {
        AttemptPhase.COMPLETED,
        AttemptPhase.FAILED,
        AttemptPhase.STOPPED,
        AttemptPhase.RELEASED,
    }
)


class EndReason(StrEnum):
    """Who ended an attempt. Empty: the script itself."""

    ITSELF = ""
    ORDER = "order"
    SUSPEND = "suspend"
    """The script did not release within its grace."""
    MAX_RUNTIME = "max_runtime"
    MEMORY = "memory"
    LEASE = "lease"
    """The node had no lease."""
    NODE = "node"
    """SageMaker stopped the node."""
    SHARED_FAULT = "shared_fault"
    """A fatal fault on its GPU, of one of the jobs that have parts of the GPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    index: int
    id: str
    """What CUDA_VISIBLE_DEVICES calls it."""
    memory_mib: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportedAttempt:
    attempt: str
    state: AttemptPhase
    began_ms: int | None = None
    """When the script began, by the count of `NodeReport.uptime_ms`."""
    ended_ms: int | None = None
    exit: int | None = None
    """The exit code; negative for a signal."""
    failure: str = ""
    """The failure in the words of SageMaker's FailureReason."""
    why: EndReason = EndReason.ITSELF
    artifact: str = ""
    """The S3 URI of the model."""
    checkpoints: str = ""
    gpu_bound: GpuBound = GpuBound.NONE
    metrics: Mapping[str, float] = field(default_factory=dict)
    pid: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeReport:
    """The whole state of a node, as its agent sees it."""

    node: str
    generation: int
    number: int
    orders: int
    """The number of the last orders read; 0: none yet."""
    uptime_ms: int
    state: NodePhase
    uids: bool
    """Whether each job has a user id of its own. Otherwise the node takes one person's jobs."""
    gpus: tuple[Gpu, ...] = ()
    cpus: int = 0
    memory_mib: int = 0
    problems: tuple[str, ...] = ()
    attempts: tuple[ReportedAttempt, ...] = ()


def written_report(report: NodeReport, token: str) -> bytes:
    """Write `report.json` with its proof."""
    document = {"version": VERSION, **asdict(report)}
    return canonical({**document, "hmac": proof(document, token)})


def read_report(content: bytes, *, token: str, node: str, generation: int) -> NodeReport:
    """Read a report of this node and generation.

    Raises Unproven without the proof, OfAnother for another node or generation, and NotUnderstood
    for any other form. No message quotes the contents.
    """
    if len(content) > LARGEST_REPORT:
        raise NotUnderstood(f"the report of node {node} is larger than {LARGEST_REPORT} bytes")
    try:
        document = strict_json.parse(content)
    except ValueError as error:
        raise NotUnderstood(f"the report of node {node} is not JSON") from error
    if not isinstance(document, dict):
        raise NotUnderstood(f"the report of node {node} is not an object")
    claimed = document.get("hmac")
    claim = claimed.encode() if isinstance(claimed, str) else b""
    if not hmac.compare_digest(proof(document, token).encode(), claim):
        raise Unproven(f"the report of node {node} lacks the node's proof")
    if document.get("version") != VERSION:
        raise NotUnderstood(f"the report of node {node} has an unknown version")
    if (document.get("node"), document.get("generation")) != (node, generation):
        raise OfAnother(f"the report is not one of node {node}, generation {generation}")
    try:
        return _report(document)
    except (KeyError, TypeError, ValueError) as error:
        raise NotUnderstood(f"the report of node {node} has an unknown form") from error


def _report(document: Mapping[str, Any]) -> NodeReport:
    return NodeReport(
        node=_name(document["node"]),
        generation=_number(document["generation"]),
        number=_number(document["number"]),
        orders=_number(document["orders"]),
        uptime_ms=_number(document["uptime_ms"]),
        state=NodePhase(document["state"]),
        uids=_flag(document["uids"]),
        gpus=tuple(_gpu(gpu) for gpu in _some(document["gpus"], MOST_GPUS)),
        cpus=_number(document["cpus"]),
        memory_mib=_number(document["memory_mib"]),
        problems=tuple(
            _text(problem, LONGEST_PROBLEM)
            for problem in _some(document["problems"], MOST_PROBLEMS)
        ),
        attempts=_attempts(_some(document["attempts"], MOST_ATTEMPTS)),
    )


def _attempts(documents: Iterable[Mapping[str, Any]]) -> tuple[ReportedAttempt, ...]:
    found = tuple(_attempt(document) for document in documents)
    if len({attempt.attempt for attempt in found}) != len(found):
        raise ValueError("an attempt occurs twice")
    return found


def _attempt(document: Mapping[str, Any]) -> ReportedAttempt:
    return ReportedAttempt(
        attempt=_name(document["attempt"]),
        state=AttemptPhase(document["state"]),
        began_ms=_optional(document["began_ms"]),
        ended_ms=_optional(document["ended_ms"]),
        exit=None if document["exit"] is None else _code(document["exit"]),
        failure=_text(document["failure"], LONGEST_FAILURE),
        why=EndReason(document["why"]),
        artifact=_text(document["artifact"], LONGEST_URI),
        checkpoints=_text(document["checkpoints"], LONGEST_URI),
        gpu_bound=GpuBound(document.get("gpu_bound", GpuBound.NONE)),
        metrics=_metrics(document["metrics"]),
        pid=_optional(document["pid"]),
    )


def _gpu(document: Mapping[str, Any]) -> Gpu:
    return Gpu(
        index=_number(document["index"]),
        id=_text(document["id"], 80),
        memory_mib=_optional(document["memory_mib"]),
    )


def _metrics(found: Any) -> dict[str, float]:
    if not isinstance(found, dict) or len(found) > MOST_METRICS:
        raise ValueError("no metrics")
    return {_text(name, 255): _finite(value) for name, value in found.items()}


def _some(found: Any, most: int) -> list[Any]:
    if not isinstance(found, list) or len(found) > most:
        raise ValueError("no list, or a longer one")
    return found


def _name(found: Any) -> str:
    if not isinstance(found, str) or not _NAME.fullmatch(found):
        raise ValueError("no name")
    return found


def _text(found: Any, longest: int) -> str:
    if not isinstance(found, str) or len(found) > longest:
        raise ValueError("no text, or a longer one")
    return found


def _flag(found: Any) -> bool:
    if not isinstance(found, bool):
        raise TypeError("neither true nor false")
    return found


def _number(found: Any) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= _LARGEST_NUMBER:
        raise ValueError("no number")
    return found


def _optional(found: Any) -> int | None:
    return None if found is None else _number(found)


def _code(found: Any) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or not -255 <= found <= 255:
        raise ValueError("no exit code")
    return found


def _finite(found: Any) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float) or not isfinite(found):
        raise ValueError("no finite number")
    return float(found)

"""Runs the whole system in one process: moto, the training plane, the queue's API and its
Lambda."""

from __future__ import annotations

import errno
import shutil
import socket
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq.local import keys
from slotq.local.container import image
from slotq.local.endpoint import ACCOUNT, REGION, Endpoint
from slotq.local.entry.guard import EVERYWHERE, Guard
from slotq.local.front import Front, Server
from slotq.local.kept import EmulatorSnapshot, forget
from slotq.local.notifier import EmulatorNotifier
from slotq.local.services import aws, function
from slotq.local.services.dynamodb import InMemoryDynamo
from slotq.local.services.gateway import Gateway
from slotq.local.services.invocations import FUNCTION, Invocations
from slotq.local.training.knobs import Knobs
from slotq.local.training.plane import Plane
from slotq.local.training.process_runner import ProcessRunner
from slotq.local.training.training_plans import TrainingPlan
from slotq_core.adapters.deployment_settings import SystemClock
from slotq_core.adapters.dynamodb.layout.table import table_definition
from slotq_core.errors import SlotQError

DEFAULT_PORT = 4777
_START_SECONDS = 60.0
_SAVE_SECONDS = 60.0
_UPLOAD_SECONDS = 10.0
"""Seconds that a stop waits for the last checkpoints."""


class CannotStart(SlotQError):
    """The emulator cannot start. The message says why."""


@dataclass(frozen=True, kw_only=True)
class Options:
    pools: str
    """The pools, in the form that `parse_pools` reads, with every instance type named."""
    work: Path
    """The folder of the jobs' folders, the Lambda's log (lambda.log) and the saved state."""
    port: int = DEFAULT_PORT
    """The port to listen on. 0: any free port."""
    host: str = "127.0.0.1"
    names: Sequence[str] = ()
    """Other host names that clients use, with a port if one is mapped."""
    region: str = REGION
    fresh: bool = False
    """Discard the state that an earlier emulator saved."""
    tick_seconds: float = 60.0
    isolated: bool | None = None
    """Whether each process gets a private /opt/ml. None: if the machine allows one."""
    passes_sigterm: bool = False
    """Whether a stop's SIGTERM reaches the scripts, unlike in SageMaker's framework containers."""
    python: str | None = None
    """The Python that runs the jobs' scripts. None: the emulator's own."""
    gpus: int | None = None
    """How many GPUs each node pretends to have. None: this machine's own, and where it has none, as
    many as the instance type has."""
    knobs: Knobs = field(default_factory=Knobs)
    plans: Sequence[TrainingPlan] = ()
    """The account's training plans."""


class Emulator:
    """An emulator that starts once and stops once."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.mark = uuid.uuid4().hex
        """Marks every process of this emulator's jobs, and identifies the emulator to callers."""
        self._jobs = options.work / "jobs"
        self.dynamo = InMemoryDynamo()
        self.dynamo.create_table(**table_definition(aws.TABLE))
        self._closed = threading.Event()
        self._due = threading.Event()
        self._threads: list[threading.Thread] = []
        self._kept: EmulatorSnapshot | None = None

    def start(self) -> Endpoint:
        """Start the emulator. Returns when the emulator answers. Raises CannotStart."""
        options = self._options
        try:
            made = image.read(options.python, passes_sigterm=options.passes_sigterm)
        except image.NoPython as error:
            raise CannotStart(str(error)) from None
        shutil.rmtree(self._jobs, ignore_errors=True)
        listening = _listen(options.host, options.port)
        port = listening.getsockname()[1]
        self.endpoint = Endpoint(
            url=_url(options.host, port), keys=keys.kept(options.work), region=options.region
        )
        self.runner = ProcessRunner(
            endpoint=self.endpoint,
            work=self._jobs,
            mark=self.mark,
            wake=self._due.set,
            image=made,
            isolated=options.isolated,
            gpus=options.gpus,
        )
        self.invocations = Invocations(self._invoke)
        self.plane = Plane(
            clock=SystemClock(),
            runner=self.runner,
            emit=self.invocations.send,
            knobs=options.knobs,
            region=options.region,
        )
        self.plane.set_plans(options.plans)
        self._server = Server(options.host, port, self._front(port), fd=listening.fileno())
        listening.close()  # The server has a copy of the socket.
        self._spawn(lambda: self._server.serve_forever(poll_interval=0.05))
        self._furnish()
        self._spawn(self._save_on)
        self._spawn(self._drive_plane)
        self._spawn(self._tick_on)
        self._spawn(lambda: self._notifier.run(self._closed))
        return self.endpoint

    def _invoke(self, event: dict[str, Any], context: Any) -> Any:
        return self._handler(event, context)

    def _front(self, port: int) -> Front:
        options, find = self._options, aws.Callers(self.endpoint).find
        gateway = Gateway(
            endpoint=self.endpoint,
            find_caller=find,
            call=self.invocations.call,
        )
        return Front(
            guard=Guard(host=options.host, port=port, names=options.names),
            find_caller=find,
            token=self.endpoint.keys.token,
            plane=self.plane,
            dynamo=self.dynamo,
            gateway=gateway,
            invocations=self.invocations,
            others=aws.application(),
            poke=self._due.set,
            health=self.health,
            tick=self.tick,
        )

    def _furnish(self) -> None:
        """Create the account and make the function's first call, which reveals configuration
        errors."""
        try:
            aws.furnish(self.endpoint)
            if self._options.fresh:
                forget(self._options.work)
            snapshot = EmulatorSnapshot(self._options.work, self.endpoint, self.plane, self.dynamo)
            snapshot.restore()
            self._kept = snapshot
            self._notifier = EmulatorNotifier(self.endpoint, self.dynamo, say=_say)
            log = self._options.work / "lambda.log"
            here = {"dynamodb": self.dynamo, "lambda": self.invocations}
            self._handler = function.load(self.endpoint, self._options.pools, log, here)
            self.invocations.start()
            self.invocations.call(_tick_event(self.endpoint), _START_SECONDS)
        except Exception as error:
            self.stop()
            raise CannotStart(f"the emulator does not start: {error}") from error

    def health(self) -> dict[str, Any]:
        return {
            "run": self.mark,
            "url": self.endpoint.url,
            "pools": self._options.pools,
            "isolated": self.runner.isolated,
            "toolkit": self.runner.has_toolkit,
            "training_jobs": len(self.plane.live()),
            "settled": self.invocations.settled(),
        }

    def tick(self) -> None:
        """Send the event that EventBridge's schedule sends every minute."""
        self.invocations.send(_tick_event(self.endpoint), key="tick")

    def wait(self) -> None:
        """Wait until the emulator is stopped."""
        self._closed.wait()

    def stop(self) -> None:
        """End every job's processes, then everything else, and save the state."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._due.set()
        self.runner.close(patience=_UPLOAD_SECONDS)
        self.invocations.close()
        self._save()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join(timeout=5)
        # A job may have been starting while `close` ended the others.
        self.runner.close()
        shutil.rmtree(self._jobs, ignore_errors=True)

    def _spawn(self, work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _drive_plane(self) -> None:
        """Call `advance` when the plane's next change is due or another thread has set `_due`."""
        clock = SystemClock()
        while True:
            self._due.clear()
            if self._closed.is_set():  # Checked after the clear, so that no stop is missed.
                return
            self.plane.advance()
            due = self.plane.next_due()
            self._due.wait(None if due is None else max(0.0, (due - clock.now()) / 1000))

    def _save(self) -> None:
        """Save the state. Does nothing if the start failed: the earlier state then stays."""
        if self._kept is None:
            return
        try:
            self._kept.save()
        except (OSError, BotoCoreError, ClientError) as error:
            print(f"the state could not be saved: {error}", flush=True)

    def _save_on(self) -> None:
        while not self._closed.wait(_SAVE_SECONDS):
            self._save()

    def _tick_on(self) -> None:
        while not self._closed.wait(self._options.tick_seconds):
            self.tick()


def _say(text: str) -> None:
    print(text, flush=True)


def _url(host: str, port: int) -> str:
    shown = "127.0.0.1" if host in EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises CannotStart."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise CannotStart(
            f"cannot listen on {host}:{port}: {error.strerror}. {_advice(error)}"
        ) from None
    return listening


def _advice(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            "Choose another port with --port, or stop the program that listens there (an "
            "emulator: `slotq local stop`)"
        )
    if error.errno == errno.EACCES:
        return "Choose a port of 1024 or more with --port"
    return "Choose an address of this machine with --host; 127.0.0.1 is one"


def _tick_event(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": endpoint.region,
        "resources": [f"arn:aws:events:{endpoint.region}:{ACCOUNT}:rule/{FUNCTION}-tick"],
        "detail": {},
    }

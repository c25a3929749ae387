"""Runs one training job from download to upload, in a thread."""

from __future__ import annotations

import queue
import shutil
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq.local.container import isolation, script, transfer
from slotq.local.container.checkpoints import Checkpoints
from slotq.local.container.host_process import HostProcess
from slotq.local.container.image import Image, JobPythons
from slotq.local.container.job_output import LogStream, MetricsInOutput
from slotq.local.container.node import NodeGpus, is_node, node_variables, unlock
from slotq.local.container.transfer import JobInputError, Storage
from slotq.local.container.variables import environment_of, own_ports
from slotq.local.container.workdir import Host, etc_hosts, hosts_of, lay_out
from slotq.local.training.runner import Step, StepReport, WorkEnd
from slotq_core.names import LOG_GROUP

_REST_SECONDS = 10.0
"""Seconds that the other processes have to end after one has failed."""
_SIGTERM, _SIGKILL = int(signal.SIGTERM), int(signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class Services:
    """The services that every job uses."""

    storage: Storage
    logs: Any
    aws: Mapping[str, str]
    """Environment variables that lead a job to the emulator."""
    arn_prefix: str
    image: Image
    pythons: JobPythons
    gpus: NodeGpus
    isolated: bool
    sync_seconds: float


class TrainingRun:
    log_group = LOG_GROUP
    message_file = "output/failure"
    """What the script writes for SageMaker, below /opt/ml."""

    def __init__(
        self,
        *,
        name: str,
        request: Mapping[str, Any],
        work: Path,
        mark: str,
        services: Services,
        report: Callable[[StepReport], None],
    ) -> None:
        """`name`: the plane's name of the job, for reports."""
        self._request, self._reported_as = request, name
        self._name = str(request["TrainingJobName"])
        self._work = work
        self._mark = mark
        self._services = services
        self._image = services.image
        self._script_mode = script.is_script_mode(request)
        self._send_report = report
        self._is_node = is_node(request)
        self._hosts = hosts_of(request, work, isolated=services.isolated, contained=self._is_node)
        self._logs = {
            host.name: LogStream(services.logs, self._name, host.name, group=self.log_group)
            for host in self._hosts
        }
        self._metrics = MetricsInOutput(request)
        self._checkpoints: list[Checkpoints] = []
        self._images: dict[str, Image] = {}
        """The image as each host's processes see it."""
        self._processes: dict[str, HostProcess] = {}
        self._ended: queue.Queue[tuple[str, int]] = queue.Queue()
        self._stopping = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"job {self._name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until the upload ends, or for so many seconds."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def terminate(self) -> None:
        """Send SIGTERM to each container's first process, which may pass it on to the script."""
        with self._lock:
            self._stopping = True
            for process in self._processes.values():
                self._send_sigterm(process)

    def _send_sigterm(self, process: HostProcess) -> None:
        toolkit = self._script_mode and self._image.toolkit is not None
        if self._image.passes_sigterm_to(self._request):
            send = process.signal_others if toolkit else process.signal
            send(_SIGTERM)
        elif toolkit or not self._script_mode:
            process.signal_as_first(_SIGTERM)
        # In script mode of our own, a toolkit that keeps the signal runs the script.

    def kill(self) -> None:
        with self._lock:
            self._stopping = True
            self._to_rest(_SIGKILL)

    def _run(self) -> None:
        try:
            ended = self._see_through()
        except JobInputError as fault:
            ended = WorkEnd(code=1, client_error=str(fault))
        except Exception as error:  # noqa: BLE001 - a bug here must not leave a job that never ends
            traceback.print_exc()
            ended = WorkEnd(code=1, client_error=f"the emulator failed: {error!r}")
        finally:
            self._to_rest(_SIGKILL)
            self._clean()
        self._report(Step.FINISHED, ended)

    def _clean(self) -> None:
        if self._is_node:
            self._services.gpus.give_back(self._name)
            for host in self._hosts:
                unlock(host)
        shutil.rmtree(self._work, ignore_errors=True)

    def _see_through(self) -> WorkEnd:
        self._prepare()
        with self._lock:
            if self._stopping:
                return WorkEnd(code=-_SIGTERM)
        self._report(Step.TRAINING)
        done = threading.Event()
        keeping = threading.Thread(target=self._keep, args=(done,), daemon=True)
        keeping.start()
        try:
            self._launch()
            ended = self._wait()
        finally:
            done.set()
            keeping.join()
        ended = replace(ended, metrics=dict(self._metrics.found))
        self._report(Step.EXITED, ended)
        return self._upload(ended)

    def _prepare(self) -> None:
        """Prepare everything that the script needs."""
        shutil.rmtree(self._work, ignore_errors=True)
        source = script.source_of(self._request)
        config = self._request.get("CheckpointConfig")
        names = [host.name for host in self._hosts]
        for place, host in enumerate(self._hosts):
            lay_out(host, self._request)
            self._images[host.name] = self._services.pythons.made_for(host)
            (host.root.parent / "hosts").write_text(etc_hosts(names))
            self._fetch(host, place)
            if source is not None:
                transfer.fetch_code(self._services.storage, source, host)
            if not host.isolated:
                _replace_in_drivers(host)
            if config:
                seed = f"{self._name}/{host.name}"
                kept = Checkpoints(self._services.storage, config, host, seed=seed)
                kept.restore()
                self._checkpoints.append(kept)

    def _fetch(self, host: Host, place: int) -> None:
        """Download a host's inputs."""
        transfer.fetch_channels(self._services.storage, self._request, host, place)

    def _launch(self) -> None:
        ports = own_ports()
        prepared = [
            (host, *script.command_of(self._request, host, self._images[host.name]))
            for host in self._hosts
        ]
        for log in self._logs.values():
            try:
                log.open()
            except (BotoCoreError, ClientError) as error:
                raise JobInputError(f"the logs service does not answer: {error}") from error
        for host, command, folder in prepared:
            with self._lock:
                if self._stopping:
                    self._ended.put((host.name, -_SIGTERM))
                    continue
                self._processes[host.name] = self._start(host, command, folder, ports)
            threading.Thread(target=self._await, args=(host.name,), daemon=True).start()

    def _start(
        self, host: Host, command: list[str], folder: str, ports: Mapping[str, str]
    ) -> HostProcess:
        environment = environment_of(
            self._request,
            host,
            image=self._images[host.name],
            ports=ports,
            arn=self._services.arn_prefix + self._name,
            aws=self._services.aws,
        )
        if self._is_node:
            gpus = self._services.gpus.take(self._name, self._request)
            environment |= node_variables(host, gpus, sync_seconds=self._services.sync_seconds)
        try:
            return HostProcess(
                isolation.inside(host, command, folder, self._own_environment(environment)),
                folder=host.root if host.isolated else Path(folder),
                environment=self._own_environment(environment),
                mark=f"{self._mark}{host.name}/",
                line=partial(self._take_line, self._logs[host.name]),
            )
        except OSError as error:
            raise JobInputError(f"cannot run {command[0]}: {error.strerror}") from error

    def _own_environment(self, environment: dict[str, str]) -> dict[str, str]:
        """The variables that such a container has."""
        return environment

    def _take_line(self, log: LogStream, text: str) -> None:
        log.line(text)
        self._metrics.line(text)

    def _await(self, name: str) -> None:
        self._ended.put((name, self._processes[name].wait()))

    def _wait(self) -> WorkEnd:
        """Wait until all processes have ended. One failure fails the job and stops the others."""
        codes: dict[str, int] = {}
        blame: str | None = None
        patience: float | None = None
        while len(codes) < len(self._hosts):
            try:
                name, code = self._ended.get(timeout=patience)
            except queue.Empty:
                self._to_rest(_SIGKILL)
                patience = None
                continue
            codes[name] = code
            if code != 0 and blame is None and not self._stopping:
                blame, patience = name, _REST_SECONDS
                self._to_rest(_SIGTERM)
        name = blame or _deciding_host(codes)
        return self._exit_of(name, WorkEnd(code=codes[name]))

    def _to_rest(self, number: int) -> None:
        for process in self._processes.values():
            process.signal(number)

    def _exit_of(self, name: str, ended: WorkEnd) -> WorkEnd:
        """How the job ended, if this host decides."""
        host = next(host for host in self._hosts if host.name == name)
        if ended.code == 0 or not self._script_mode or (self._stopping and ended.killed):
            return replace(ended, failure=host.said_in(self.message_file))
        if self._image.toolkit is None:
            return self._exit_of_toolkit(host, ended.code)
        if self._stopping and script.ended_by(_SIGTERM, host.failure):
            return WorkEnd(code=-_SIGTERM)  # The toolkit has turned the signal into a failure.
        return replace(ended, failure=host.failure)

    def _exit_of_toolkit(self, host: Host, code: int) -> WorkEnd:
        """What the toolkit would have made of the script's exit code."""
        process = self._processes.get(host.name)
        command = script.shown_command(self._request, host, self._images[host.name])
        lines = list(process.last_lines) if process else []
        failure = host.failure or script.failure_of(command, code, lines)
        return WorkEnd(code=script.TOOLKITS_EXIT, failure=failure)

    def _keep(self, done: threading.Event) -> None:
        """Upload log lines and checkpoints while the job runs, and once more after its end."""
        while not done.wait(self._services.sync_seconds):
            self._keep_once()
        self._keep_once(last=True)

    def _keep_once(self, *, last: bool = False) -> None:
        for log in self._logs.values():
            log.flush()
        for kept in self._checkpoints:
            try:
                kept.sync(last=last)
            except (JobInputError, OSError) as error:
                print(f"checkpoints of {self._name}: {error}", flush=True)

    def _upload(self, ended: WorkEnd) -> WorkEnd:
        try:
            self._upload_results(ended)
        except JobInputError as fault:
            return WorkEnd(code=1, client_error=str(fault))
        return ended

    def _upload_results(self, ended: WorkEnd) -> None:
        """Upload the model and output of a job that completed or was stopped."""
        if ended.code == 0 or (self._stopping and ended.killed):
            transfer.upload_artifacts(self._services.storage, self._request, self._hosts)

    def _report(self, step: Step, ended: WorkEnd | None = None) -> None:
        self._send_report(StepReport(training_job=self._reported_as, step=step, exit=ended))


def _deciding_host(codes: Mapping[str, int]) -> str:
    """The host whose exit code counts for the job: a failed one, else a killed one, else any."""

    def weight(name: str) -> int:
        code = codes[name]
        return 0 if code == 0 else 1 if WorkEnd(code=code).killed else 2

    return max(sorted(codes), key=weight)


def _replace_in_drivers(host: Host) -> None:
    """Replace /opt/ml by the real folder in the SDK's driver scripts, on a host without
    isolation."""
    for file in _texts(host.root.glob("input/data/sm_drivers/**/*")):
        file.write_text(host.text(file.read_text()))


def _texts(files: Iterable[Path]) -> Iterable[Path]:
    return (file for file in files if file.suffix in {".sh", ".py", ".json"} and file.is_file())

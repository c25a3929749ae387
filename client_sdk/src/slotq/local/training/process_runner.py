"""Runs training jobs as real processes of this machine (`runner.Runner`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slotq.local.container import isolation
from slotq.local.container.host_process import sweep
from slotq.local.container.image import Image, JobPythons
from slotq.local.container.node import NodeGpus
from slotq.local.container.transfer import Storage
from slotq.local.endpoint import Endpoint
from slotq.local.training.runner import Step, StepReport
from slotq.local.training.training_run import Services, TrainingRun
from slotq_core.wire.training.processing_request import is_processing


class ProcessRunner:
    """Runs each training job in a thread, from download to upload.

    Any thread calls `wake` when a report is ready. `mark` marks all processes of this emulator, so
    that none survives the emulator.
    """

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        work: Path,
        mark: str,
        wake: Callable[[], None],
        image: Image | None = None,
        isolated: bool | None = None,
        gpus: int | None = None,
        sync_seconds: float = 0.5,
    ) -> None:
        """`isolated=None` isolates processes if the machine allows it. `gpus`: how many GPUs each
        node pretends to have (`NodeGpus`)."""
        self.isolated = isolation.available() if isolated is None else isolated
        self._endpoint, self._work, self._mark, self._wake = endpoint, work, mark, wake
        self._image = image or Image()
        self._gpus = NodeGpus(gpus)
        self._sync_seconds = sync_seconds
        self._services: Services | None = None
        self._runs: dict[str, TrainingRun] = {}
        self._reports: list[StepReport] = []
        self._lock = threading.Lock()

    @property
    def has_toolkit(self) -> bool:
        """Whether SageMaker's training toolkit runs the scripts."""
        return self._image.toolkit is not None

    def start(self, training_job: str, request: Mapping[str, Any]) -> None:
        kind, own = TrainingRun, request
        if is_processing(request):
            from slotq.local.processing.processing_run import ProcessingRun, container_request

            kind, own = ProcessingRun, container_request(request)
        folder = ".".join(reversed(training_job.split(":")))  # A colon parts the folders of a PATH.
        run = kind(
            name=training_job,
            request=own,
            work=self._work / folder,
            mark=f"{self._mark}/{training_job}/",
            services=self._made_services(),
            report=self._report,
        )
        with self._lock:
            self._runs[training_job] = run
        run.start()

    def _made_services(self) -> Services:
        if self._services is None:
            self._services = Services(
                storage=Storage(self._endpoint.client("s3")),
                logs=self._endpoint.client("logs"),
                aws=self._endpoint.variables(),
                arn_prefix=f"arn:aws:sagemaker:{self._endpoint.region}:{self._endpoint.account}:"
                "training-job/",
                image=self._image,
                pythons=JobPythons(self._image, self._work),
                gpus=self._gpus,
                isolated=self.isolated,
                sync_seconds=self._sync_seconds,
            )
        return self._services

    def terminate(self, training_job: str) -> None:
        if run := self._runs.get(training_job):
            run.terminate()

    def kill(self, training_job: str) -> None:
        if run := self._runs.get(training_job):
            run.kill()

    def next_due(self) -> int | None:
        return None

    def reports(self) -> Sequence[StepReport]:
        with self._lock:
            reports, self._reports = self._reports, []
        return reports

    def close(self, *, patience: float = 0.0) -> None:
        """Kill all running processes at once. Wait up to `patience` seconds for their uploads to
        S3."""
        runs = list(self._runs.values())
        for run in runs:
            run.kill()
        until = time.monotonic() + patience
        for run in runs:
            run.join(max(0.0, until - time.monotonic()))
        sweep(f"{self._mark}/")

    def _report(self, report: StepReport) -> None:
        with self._lock:
            self._reports.append(report)
            if report.step is Step.FINISHED:
                self._runs.pop(report.training_job, None)
        self._wake()

"""Sessions of AWS Systems Manager (SSM) in a training job's container: a shell, or its ports.

SageMaker needs RemoteDebugConfig in the job's request, rights for SSM in the job's role, and the
right to start a session for the caller. Errors say what is missing and how to provide it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq.client import QueueClient
from slotq.errors import NoShell, NotConfigured
from slotq.remote_shell.on_node import enter_command
from slotq.remote_shell.plugin import (
    PluginCall,
    Sessions,
    call_of,
    check_installed,
    on_this_terminal,
)
from slotq.remote_shell.ports import Forward, forward_line, listening
from slotq.transport import aws_session
from slotq_core.model.jobs import ACTIVE_STATES, WAITING_STATES, JobState
from slotq_core.wire.views.jobs import JobView


class NotYet(NoShell):
    """The attempt runs, but its container cannot be entered yet; the message says why."""

    def __init__(self, message: str, *, patience: float = 300.0) -> None:
        """`patience`: seconds after which waiting for the same attempt makes no sense."""
        super().__init__(message)
        self.patience = patience


def running_job(client: QueueClient, name: str) -> JobView:
    """The job, if it runs as a training job. Raises NoShell, NoSuchJob."""
    job = client.jobs.view(name)
    if runs(job):
        return job
    why = f"job {name} is {job.state}: a shell needs a running job"
    if job.state in WAITING_STATES:
        raise NoShell(
            f"{why}; `slotq why {name}` explains what it waits for, `slotq shell {name} --wait` "
            "waits too"
        )
    if job.state in ACTIVE_STATES:
        raise NoShell(why)
    raise NoShell(f"{why}; `slotq logs {name}` shows what it printed")


def runs(job: JobView) -> bool:
    return job.state == JobState.RUNNING and bool(job.training_job)


COMMAND_DOCUMENT = "AWS-StartInteractiveCommand"
PORT_DOCUMENT = "AWS-StartPortForwardingSession"
SHELL_DOCUMENT = "SSM-SessionManagerRunShell"
"""SSM's own default."""
_GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg/train-remote-debugging.html"
_BEFORE_TRAINING = {
    "Starting",
    "LaunchingMLInstances",
    "PreparingTrainingStack",
    "Pending",
    "Downloading",
    "DownloadingTrainingImage",
}
"""SecondaryStatus of a training job whose container cannot be entered yet."""
_DAY = 86400.0
_MISSING = {
    "TargetNotConnected": "the container does not answer SSM. If it started less than a minute "
    "ago, try again. Else its role needs "
    "ssmmessages:CreateControlChannel, CreateDataChannel, "
    "OpenControlChannel and OpenDataChannel, and a VPC without internet "
    "needs an endpoint for ssmmessages",
    "AccessDeniedException": "you need ssm:StartSession on the training job and on the "
    "document {document}, and ssm:TerminateSession",
}


class Container:
    """Instance `host` (from 1) of a job's attempt, as SSM reaches it."""

    def __init__(
        self,
        client: QueueClient,
        *,
        host: int = 1,
        aws: Any | None = None,
        run: Callable[[PluginCall], int] = on_this_terminal,
    ) -> None:
        """`aws`: the boto3 session; None: one made from the client's settings."""
        self._client, self._host, self._aws, self._run = client, host, aws, run

    def check(self) -> None:
        """Check this machine's part. Raises NoShell."""
        check_installed()
        self._session()

    def shell(self, job: JobView) -> int:
        """Open a shell; returns its exit code when it is over. Raises NoShell, NotYet."""
        place = self._check_open(job)
        asked = self._target(place)
        if job.node:
            asked = command_request(asked, enter_command(str(job.training_job), job.node))
        return self._run(self._started(asked))

    def forward(self, job: JobView, forwards: Sequence[Forward], say: Callable[[str], None]) -> int:
        """Forward ports until the sessions end; returns an exit code.

        `say` gets a line for each port. Raises NoShell, NotYet, and KeyboardInterrupt on Ctrl-C.
        """
        place = self._check_open(job)
        ports = _free_ports(forwards)
        with Sessions() as sessions:
            for forward, local in zip(forwards, ports, strict=True):
                asked = port_request(self._target(place), forward.port, local)
                sessions.start(self._started(asked))
                say(forward_line(job.name, forward.port, local))
            return sessions.wait()

    def _target(self, training_job: str) -> dict[str, Any]:
        return {"Target": f"sagemaker-training-job:{training_job}_algo-{self._host}"}

    def _place(self, job: JobView) -> str:
        """The training job whose container the job runs in: its own, or that of its node. Raises
        NoShell."""
        if not job.node:
            return str(job.training_job)
        for node in self._client.pools.nodes():
            if (node.pool, node.name) == (job.pool, job.node):
                return node.training_job
        raise NoShell(f"node {job.node} of job {job.name} has ended")

    def _session(self) -> Any:
        if self._aws is None:
            config = self._client.config
            try:
                self._aws = aws_session.made(
                    config.aws_profile,
                    source=config.source("aws_profile"),
                    region=config.signing_region(),
                )
            except NotConfigured as error:
                raise NoShell(str(error)) from None
        if self._aws.region_name is None:
            raise NoShell("the region is not known: set SLOTQ_REGION (or AWS_REGION)")
        return self._aws

    def _check_open(self, job: JobView) -> str:
        """Check what SageMaker says of the training job, and return its name. Raises NoShell,
        NotYet."""
        self.check()
        name = self._place(job)
        described = self._described(job, name)
        if not (described.get("RemoteDebugConfig") or {}).get("EnableRemoteDebug"):
            raise NoShell(_not_enabled(name))
        if described.get("EnableNetworkIsolation"):
            raise NoShell(
                f"training job {name} has network isolation, and SSM reaches no such container: "
                'submit it without "EnableNetworkIsolation"'
            )
        secondary = described.get("SecondaryStatus")
        if secondary in _BEFORE_TRAINING:
            raise NotYet(
                f"training job {name} is {secondary}: a shell needs its container to run; "
                f"`slotq shell {job.name} --wait` waits for it",
                patience=_DAY,
            )
        return name

    def _described(self, job: JobView, training_job: str) -> Mapping[str, Any]:
        """The training job from SageMaker or, if that fails, the job's request."""
        try:
            described: Mapping[str, Any] = (
                self._session()
                .client("sagemaker")
                .describe_training_job(TrainingJobName=training_job)
            )
        except (ClientError, BotoCoreError):
            return self._client.jobs.request(job.name)
        return described

    def _started(self, asked: Mapping[str, Any]) -> PluginCall:
        """The call of the plugin for a session that SSM has started. Raises NoShell, NotYet."""
        aws = self._session()
        ssm = aws.client("ssm")
        try:
            answer = ssm.start_session(**asked)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            document = asked.get("DocumentName", SHELL_DOCUMENT)
            what = _MISSING.get(code, f"see {_GUIDE}").format(document=document)
            kind = NotYet if code == "TargetNotConnected" else NoShell
            raise kind(f"SSM starts no session in {asked['Target']} ({error}): {what}") from None
        except BotoCoreError as error:
            raise NoShell(f"SSM cannot be asked: {error}") from None
        return call_of(
            answer,
            asked,
            region=aws.region_name,
            profile=aws.profile_name,
            endpoint=ssm.meta.endpoint_url,
        )


def command_request(target: Mapping[str, Any], command: str) -> dict[str, Any]:
    """The parameters of SSM's StartSession that run a command on this terminal."""
    return {**target, "DocumentName": COMMAND_DOCUMENT, "Parameters": {"command": [command]}}


def port_request(target: Mapping[str, Any], port: int, local: int) -> dict[str, Any]:
    """The parameters of SSM's StartSession that forward a port of a target."""
    parameters = {"portNumber": [str(port)], "localPortNumber": [str(local)]}
    return {**target, "DocumentName": PORT_DOCUMENT, "Parameters": parameters}


def _free_ports(forwards: Sequence[Forward]) -> list[int]:
    """Ports of this machine for the plugin to listen on. Raises NoShell."""
    with listening(forwards) as sockets:
        return [listener.getsockname()[1] for listener in sockets]


def _not_enabled(training_job: str) -> str:
    return (
        "RemoteDebugConfig is not enabled for the job. For this attempt: `aws sagemaker "
        f"update-training-job --training-job-name {training_job} --remote-debug-config "
        "EnableRemoteDebug=true`, while it is downloading or training. For all attempts: submit it "
        'with --shell, or with "RemoteDebugConfig": {"EnableRemoteDebug": true} (SDK v2: '
        f"enable_remote_debug=True). See {_GUIDE}"
    )

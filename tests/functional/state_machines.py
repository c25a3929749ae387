"""Step Functions, as far as docs/step-functions.md needs it: moto's interpreter of the Amazon
States Language runs the page's own files, and the queue's API is called over HTTP.

Doubles, because moto 5.2.5 cannot play these parts:

`_SignedCall`  `apigateway:invoke.waitForTaskToken`, which fails in moto before it sends anything.
               Ours signs with keys of the state machine's role, as AuthType IAM_ROLE does.
`_Submit`      `lambda:invoke.waitForTaskToken`: runs docs/step-functions/submit/submit.py here.
`_Task`        both give each try a token of its own, take an answer that comes at once, and name an
               overdue heartbeat, as AWS does.
`_Client`      a boto3 client that keeps the cause of SendTaskFailure, which moto drops.

The API is the emulator's gateway: it checks each signature, and the caller is the session of the
role whose keys have signed.
"""

from __future__ import annotations

import importlib.util
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto import mock_aws
from moto.stepfunctions.parser.api import (
    ExecutionStatus,
    HistoryEventType,
    TaskFailedEventDetails,
)
from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import (
    CustomErrorName,
)
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import FailureEvent
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import (
    StatesErrorName,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    resource,
    state_task_service_factory,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_callback import (  # noqa: E501
    StateTaskServiceCallback,
)
from moto.stepfunctions.parser.asl.eval.callback.callback import HeartbeatTimeoutError
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.models import stepfunctions_parser_backends
from werkzeug.serving import make_server

from slotq.local.endpoint import ACCOUNT, REGION, Endpoint
from slotq.local.entry.signatures import Caller
from slotq.local.keys import EmulatorKeys
from slotq.local.services.gateway import Environ, Gateway

EXAMPLES = Path(__file__).parents[2] / "docs" / "step-functions"
VALUES = {
    "ApiEndpoint": f"a1b2c3d4e5.execute-api.{REGION}.amazonaws.com",
    "SubmitArn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:submit",
    "TrainingImage": f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/train:1",
    "TrainingRoleArn": f"arn:aws:iam::{ACCOUNT}:role/SageMakerTraining",
    "OutputPath": "s3://my-bucket/training",
    "InstanceType": "ml.p4d.24xlarge",
    "Priority": "10",
}
"""The substitutions of the page's templates."""
SESSION = f"arn:aws:sts::{ACCOUNT}:assumed-role/Submitter/a-name-of-aws"
"""The caller whose keys sign."""
_KEYS = Credentials("ASIASTATEMACHINE", "secret", "session-token")

Call = Callable[[dict[str, Any]], dict[str, Any]]
"""The function behind the API: an event in, an answer out."""


def definition(name: str, **changes: Any) -> str:
    """One of the page's state machines, as SAM deploys it. `changes`: members of its task."""
    text = (EXAMPLES / f"{name}.asl.json").read_text()
    for parameter, value in VALUES.items():
        text = text.replace(f"${{{parameter}}}", value)
    machine = json.loads(text)
    machine["States"]["Train"].update(changes)
    return json.dumps(machine)


class StepFunctions:
    """An account's Step Functions."""

    def __init__(self) -> None:
        self.client = _Client(boto3.client("stepfunctions", REGION))

    def start(self, machine: str, **given: Any) -> str:
        """Start an execution of a definition. Returns its ARN."""
        number = len(self.client.list_state_machines()["stateMachines"])
        made = self.client.create_state_machine(
            name=f"training-{number}", definition=machine, roleArn=VALUES["TrainingRoleArn"]
        )
        started = self.client.start_execution(
            stateMachineArn=made["stateMachineArn"], name=f"run-{number}", input=json.dumps(given)
        )
        return str(started["executionArn"])

    def stop(self, execution: str) -> None:
        """Stop an execution. In moto it would run until its task ends."""
        self.client.stop_execution(executionArn=execution)
        _backend().describe_execution(execution).exec_status = ExecutionStatus.ABORTED

    def status(self, execution: str) -> str:
        return str(self.client.describe_execution(executionArn=execution)["status"])

    def end(self, execution: str) -> dict[str, Any]:
        """How an execution has ended: its output, or `error` and `cause`."""
        found = self.client.describe_execution(executionArn=execution)
        if "output" in found:
            return dict(json.loads(found["output"]))
        return {key: found[key] for key in ("error", "cause") if key in found}


@contextmanager
def step_functions(call: Call, monkeypatch: pytest.MonkeyPatch) -> Iterator[StepFunctions]:
    """Step Functions, and an API that `call` answers, in threads."""
    with _served(call) as url, mock_aws(config={"stepfunctions": {"execute_state_machine": True}}):
        monkeypatch.setenv("SLOTQ_ENDPOINT", f"{url}/prod")
        monkeypatch.setenv("AWS_REGION", REGION)
        monkeypatch.setattr(_SignedCall, "host", url)
        monkeypatch.setattr(state_task_service_factory, "StateTaskServiceApiGateway", _SignedCall)
        monkeypatch.setattr(state_task_service_factory, "StateTaskServiceLambda", _Submit)
        yield StepFunctions()
        for execution in _backend()._get_executions():
            _end(execution)


def _end(execution: Any) -> None:
    """Let an execution's threads end. In moto a stop does not wake a waiting task."""
    environment = execution.exec_worker.env
    environment.set_stop(stop_date=datetime.now(UTC), cause="", error="")
    for waiting in [*environment.callback_pool_manager._pool.values()]:
        waiting.interrupt_all()


def _backend() -> Any:
    return stepfunctions_parser_backends[ACCOUNT][REGION]


@contextmanager
def _served(call: Call) -> Iterator[str]:
    caller = Caller(
        arn=SESSION,
        access_key=_KEYS.access_key,
        secret_key=_KEYS.secret_key,
        session_token=_KEYS.token,
    )
    nobody = EmulatorKeys(access_key="", secret_key="", token="")
    gateway = Gateway(
        endpoint=Endpoint(url="", keys=nobody),
        find_caller={caller.access_key: caller}.get,
        call=lambda event, _timeout: call(event),
    )

    def app(environ: Environ, start: Callable[..., Any]) -> list[bytes]:
        status, headers, body = gateway.answer(environ)
        start(status, headers)
        return [body]

    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class _TaskFailed(Exception):
    def __init__(self, error: str, cause: str) -> None:
        super().__init__(error)
        self.error, self.cause = error, cause


class _Task(StateTaskServiceCallback):
    """A task that sends its token to somebody and waits."""

    takes: frozenset[str]
    """Its parameters."""

    def __init__(self) -> None:
        super().__init__({resource.ResourceCondition.WaitForTaskToken})

    def send(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Call what the task names. Raises _TaskFailed."""
        raise NotImplementedError

    def _get_supported_parameters(self) -> frozenset[str]:
        return self.takes

    def _eval_execution(self, env: Any) -> None:
        if env.states.context_object.context_object_data["State"]["RetryCount"]:
            env.callback_pool_manager.add(env.states.context_object.update_task_token())
        super()._eval_execution(env)

    def _eval_service_task(
        self,
        env: Any,
        resource_runtime_part: Any,
        normalised_parameters: Mapping[str, Any],
        state_credentials: Any,
    ) -> None:
        env.stack.append(self.send(normalised_parameters))

    def _wait_for_task_token_heartbeat(self, env: Any, callback: Any, heartbeat: Any) -> Any:
        """The answer may come before the wait, where moto does not look for it."""
        return callback.get_outcome() or super()._wait_for_task_token_heartbeat(
            env, callback, heartbeat
        )

    def _from_error(self, env: Any, ex: Exception) -> FailureEvent:
        match ex:
            case _TaskFailed():
                name, error, cause = CustomErrorName(ex.error), ex.error, ex.cause
            case HeartbeatTimeoutError():
                error, cause = "States.HeartbeatTimeout", ""
                name = StatesErrorName.from_name(error)
            case _:
                return super()._from_error(env=env, ex=ex)
        details = TaskFailedEventDetails(
            error=error,
            cause=cause,
            resource=self._get_sfn_resource(),
            resourceType=self._get_sfn_resource_type(),
        )
        return FailureEvent(
            env=env,
            error_name=name,
            event_type=HistoryEventType.TaskFailed,
            event_details=EventDetails(taskFailedEventDetails=details),
        )


class _SignedCall(_Task):
    takes = frozenset({"ApiEndpoint", "Stage", "Path", "Method", "AuthType", "RequestBody"})
    host = ""
    """The API's, in the place of ApiEndpoint."""

    def send(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        assert parameters["AuthType"] == "IAM_ROLE"
        request = AWSRequest(
            method=parameters["Method"],
            url=f"{self.host}/{parameters['Stage']}/{parameters['Path']}",
            data=json.dumps(parameters["RequestBody"]).encode(),
            headers={"Content-Type": "application/json"},
        )
        SigV4Auth(_KEYS, "execute-api", REGION).add_auth(request)
        signed = urllib.request.Request(
            request.url, request.data, dict(request.headers), method=request.method
        )
        try:
            with urllib.request.urlopen(signed) as answer:
                return {"StatusCode": answer.status, "ResponseBody": json.load(answer)}
        except urllib.error.HTTPError as refused:
            cause = refused.read().decode()
            raise _TaskFailed(f"ApiGateway.{refused.code}", cause) from None


class _Submit(_Task):
    takes = frozenset({"FunctionName", "Payload"})

    def send(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        assert parameters["FunctionName"] == VALUES["SubmitArn"]
        try:
            return {
                "StatusCode": 200,
                "Payload": submit_module().handler(parameters["Payload"], None),
            }
        except Exception as error:  # noqa: BLE001 - Lambda hands any on
            kind = type(error).__name__
            cause = json.dumps({"errorMessage": str(error), "errorType": kind})
            raise _TaskFailed(kind, cause) from None


def submit_module() -> Any:
    """The page's function, as in its environment."""
    path = EXAMPLES / "submit" / "submit.py"
    spec = importlib.util.spec_from_file_location("submit", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.SESSION.set_credentials(_KEYS.access_key, _KEYS.secret_key, _KEYS.token)
    return module


class _Client:
    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._client, operation)

    def send_task_failure(self, **request: Any) -> dict[str, Any]:
        backend = _backend()
        send = backend.send_task_failure

        def keeps_cause(token: str, error: str | None = None) -> Any:
            return send(token, error=error, cause=request.get("cause"))

        backend.send_task_failure = keeps_cause
        try:
            return dict(self._client.send_task_failure(**request))
        finally:
            del backend.send_task_failure

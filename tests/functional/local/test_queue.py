"""The queue in the emulator: its API over signed HTTP, its Lambda, and the jobs' course."""

from __future__ import annotations

import gzip
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from slotq.session.hooks import honour_sts_endpoint
from tests.functional.local.account import Account


def owner(account: Account) -> Credentials:
    """The identity that `slotq local env` gives its user."""
    keys = account.running.keys
    return Credentials(keys.access_key, keys.secret_key)


def call(
    account: Account,
    method: str,
    path: str,
    body: Any = None,
    *,
    credentials: Credentials | None = None,
    signed: bool = True,
) -> tuple[int, Any]:
    """Send one request, signed by the owner, to the queue's API. Returns status and JSON."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    made = AWSRequest(method=method, url=account.endpoint.queue + path, data=data)
    if signed:
        key = credentials or owner(account)
        SigV4Auth(key, "execute-api", "us-east-1").add_auth(made)
    wire = urllib.request.Request(
        made.url, data=data, method=method, headers=dict(made.headers.items())
    )
    try:
        with urllib.request.urlopen(wire, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def state(account: Account, name: str) -> str:
    status, job = call(account, "GET", f"/jobs/{name}")
    assert status == 200, job
    return str(job["state"])


def wait_for(account: Account, **states: str) -> None:
    account.until(
        lambda: all(state(account, name) == wanted for name, wanted in states.items()), str(states)
    )


@pytest.fixture
def queue(account: Account) -> Iterator[Account]:
    """An empty queue before and after the test."""
    yield account
    for job in call(account, "GET", "/jobs")[1]["jobs"]:
        call(account, "DELETE", f"/jobs/{job['name']}")
    account.until(lambda: account.control("health")["training_jobs"] == 0, "an empty queue")


def submit(queue: Account, name: str, source: str, priority: int = 0, **more: Any) -> Any:
    tags = [{"Key": "priority", "Value": str(priority)}]
    status, job = call(queue, "POST", "/add-job", queue.request(name, source, Tags=tags, **more))
    assert status == 202, job
    return job


SLEEPS = "import time; print('on', flush=True); time.sleep(100)"
BRIEF = "print('on')"


def test_a_job_waits_is_preempted_resumes_and_completes(queue: Account) -> None:
    counting = """
import pathlib, time, os
file = pathlib.Path(os.environ["SM_MODEL_DIR"]).parent / "checkpoints/step"
step = int(file.read_text()) if file.exists() else 0
print("from", step, flush=True)
file.write_text(str(step + 1))
time.sleep(0 if step else 100)
"""
    kept = {"S3Uri": f"s3://{queue.bucket}/checkpoints/low"}
    submit(queue, "low", counting, priority=1, CheckpointConfig=kept)
    submit(queue, "middle", SLEEPS, priority=2)
    wait_for(queue, low="running", middle="running")
    queue.wait_for_line("low", "from 0")
    submit(queue, "high", "import time; time.sleep(1)", priority=3)
    wait_for(queue, high="completed", low="completed", middle="running")
    low = call(queue, "GET", "/jobs/low")[1]
    assert [one["outcome"] for one in low["attempts"]] == ["evicted", "completed"]
    assert low["attempts"][0]["stopped_for"] == "high"
    assert queue.said(low["attempts"][1]["training_job"]) == ["from 1"]
    tags = queue.sagemaker.list_tags(
        ResourceArn=queue.describe(low["attempts"][1]["training_job"])["TrainingJobArn"]
    )["Tags"]
    assert {"Key": "slotq:job", "Value": "low"} in tags
    assert call(queue, "DELETE", "/jobs/middle")[0] == 200
    wait_for(queue, middle="cancelled")


def test_doubled_events_and_lost_answers_change_nothing(queue: Account) -> None:
    queue.knobs({"double_events": 4, "lose_answers": 1, "match": "odd*"})
    submit(queue, "odd1", BRIEF)
    submit(queue, "odd2", BRIEF)
    wait_for(queue, odd1="completed", odd2="completed")
    assert queue.describe("odd1")["TrainingJobStatus"] == "Completed"


def test_a_job_waits_while_sagemaker_has_no_capacity(queue: Account) -> None:
    """The pool waits: the job keeps its place, and the pool shows until when it backs off."""
    queue.knobs({"refuse_creates": 1, "match": "refused"})
    scarce = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    submit(queue, "refused", BRIEF, ResourceConfig=scarce)

    def backs_off() -> bool:
        job = call(queue, "GET", "/jobs/refused")[1]
        return job["reason"] is not None and job["reason"]["code"] == "pool_backs_off"

    queue.until(backs_off, "the pool's back-off")
    assert state(queue, "refused") == "pending"
    main, other = call(queue, "GET", "/pools")[1]["pools"]
    assert [main["health"]["errors"], other["health"]["errors"]] == [0, 1]
    assert other["health"]["not_before"]


def test_the_doctor_finds_nothing_wrong(queue: Account) -> None:
    submit(queue, "fine", SLEEPS)
    wait_for(queue, fine="running")
    assert call(queue, "GET", "/doctor") == (200, {"version": 1, "findings": []})


def test_a_submission_does_not_wait_for_the_pass(queue: Account) -> None:
    for n in range(6):
        job = submit(queue, f"burst{n}", SLEEPS)
        assert job["state"] == "pending"


def test_the_signer_is_the_submitter(queue: Account) -> None:
    iam = queue.endpoint.client("iam")
    iam.create_user(UserName="anne")
    key = iam.create_access_key(UserName="anne")["AccessKey"]
    anne = Credentials(key["AccessKeyId"], key["SecretAccessKey"])
    body = queue.request("annes", BRIEF)
    status, job = call(queue, "POST", "/add-job", body, credentials=anne)
    assert (status, job["submitter"]) == (202, "arn:aws:iam::123456789012:user/anne")
    sts = queue.endpoint.client("sts")
    role = sts.assume_role(RoleArn="arn:aws:iam::123456789012:role/research", RoleSessionName="me")[
        "Credentials"
    ]
    session = Credentials(role["AccessKeyId"], role["SecretAccessKey"], role["SessionToken"])
    status, job = call(queue, "GET", "/jobs/annes", credentials=session)
    assert status == 200


def test_an_sts_client_with_its_own_address_reaches_the_emulator(aws: Account) -> None:
    """As SageMaker's SDK makes the client."""
    session = boto3.Session()
    honour_sts_endpoint(session.events)
    sts = session.client("sts", endpoint_url="https://sts.us-east-1.amazonaws.com")
    assert sts.get_caller_identity()["Account"] == "123456789012"


def test_requests_without_a_valid_signature_are_refused(queue: Account) -> None:
    assert call(queue, "GET", "/jobs", signed=False) == (
        403,
        {"message": "Missing Authentication Token"},
    )
    wrong = Credentials(owner(queue).access_key, "wrong")
    status, said = call(queue, "GET", "/jobs", credentials=wrong)
    assert status == 403
    assert said["message"].startswith("The request signature we calculated does not match")


def test_a_wrong_body_is_refused_with_its_faults(queue: Account) -> None:
    status, said = call(queue, "POST", "/add-job", b"not JSON")
    assert (status, said["code"]) == (400, "invalid_request")
    status, said = call(queue, "POST", "/add-job", b"x" * 10_000_001)
    assert (status, said) == (413, {"message": "Request Too Long"})


def test_knobs_are_read_and_set(queue: Account) -> None:
    assert queue.knobs({"start_seconds": 1.5})["start_seconds"] == 1.5
    with pytest.raises(urllib.error.HTTPError, match="400"):
        queue.knobs({"colour": 1})
    assert queue.knobs()["start_seconds"] == 1.5
    queue.knobs({"start_seconds": 0})


def test_simulate_principal_policy_is_supported(queue: Account) -> None:
    said = queue.endpoint.client("iam").simulate_principal_policy(
        PolicySourceArn="arn:aws:iam::123456789012:role/r", ActionNames=["s3:GetObject", "x:Y"]
    )
    assert [one["EvalDecision"] for one in said["EvaluationResults"]] == ["allowed", "allowed"]


def test_other_operations_are_answered_by_moto(queue: Account) -> None:
    made = queue.sagemaker.create_model(
        ModelName="m", ExecutionRoleArn="arn:aws:iam::123456789012:role/slotq-local"
    )
    assert made["ModelArn"].endswith("model/m")
    assert queue.sagemaker.list_tags(ResourceArn=made["ModelArn"])["Tags"] == []


def test_lists_are_compressed_and_not_sent_twice(queue: Account) -> None:
    """Through the emulator as through API Gateway, by a request as a proxy leaves it."""
    for number in range(3):
        submit(queue, f"list-{number}", SLEEPS)
    made = AWSRequest(method="GET", url=queue.endpoint.queue + "/jobs?places=true&limit=9")
    SigV4Auth(owner(queue), "execute-api", "us-east-1").add_auth(made)

    def ask(**beside: str) -> tuple[int, Any, bytes]:
        headers = {**dict(made.headers.items()), **beside}
        wire = urllib.request.Request(made.url, headers=headers)
        try:
            with urllib.request.urlopen(wire, timeout=30) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    status, headers, plain = ask()
    assert (status, headers["Content-Encoding"]) == (200, None)
    status, headers, packed = ask(**{"Accept-Encoding": "gzip"})
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    names = [job["name"] for job in json.loads(gzip.decompress(packed))["jobs"]]
    assert {f"list-{number}" for number in range(3)} <= {*names}
    assert len(packed) < len(plain) / 2
    for _ in range(20):  # Other jobs of this folder may still move.
        _, headers, _ = ask()
        again, kept, body = ask(**{"If-None-Match": headers["ETag"], "Accept-Encoding": "gzip"})
        if again == 304:
            break
    assert (again, body) == (304, b"")
    assert kept["ETag"] == headers["ETag"]
    assert kept["Cache-Control"] == "private, no-cache"
    assert kept["Content-Encoding"] is None
    for number in range(3):
        call(queue, "DELETE", f"/jobs/list-{number}")
    assert ask(**{"If-None-Match": headers["ETag"]})[0] == 200

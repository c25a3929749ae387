"""Messages reach SNS, Slack and webhooks as their receivers expect, and go nowhere else."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from moto import mock_aws

from slotq_core.adapters.receivers import https, sending
from slotq_core.adapters.receivers.https import post
from slotq_core.adapters.receivers.sending import Sender
from slotq_core.errors import NotDelivered
from slotq_core.model.notices import Receiver
from slotq_core.notices.payloads import Message
from tests.loopback import Web, serving

NOW = 1_795_000_000_000
KEY = "hunter2hunter2"
REFERENCE = "ssm:/slotq/notifications/vision"
EVIL = '<script>alert("&")</script> <!channel> <https://evil.example|click>'
MESSAGE = Message(
    id="0123456789abcdef0123456789abcdef",
    notification="vision",
    event="failed",
    title="Job job1 has failed",
    text=f"Job job1 has failed: {EVIL}",
    at=NOW,
    job="job1",
    project="vision",
    attempt=2,
)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """moto's SNS, Parameter Store and Secrets Manager."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws():
        yield lambda service: boto3.client(service, region_name="us-east-1")


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as found:
        yield found


def keep(aws: Any, value: str) -> None:
    aws("ssm").put_parameter(Name=REFERENCE[4:], Value=value, Type="SecureString")


def sender(aws: Any, **settings: Any) -> Sender:
    return Sender(aws, queue="sagemaker-queue", **{"loopback": True, **settings})


def webhook(web: Web) -> Receiver:
    return Receiver(channel="webhook", place=f"{web.url}/hook", secret=REFERENCE)


def test_a_webhook_gets_a_signed_message(aws, web):
    keep(aws, KEY)
    sender(aws).send(MESSAGE, webhook(web), now=NOW)
    (got,) = web.got
    assert got.path == "/hook"
    assert got.headers["Content-Type"] == "application/json"
    assert got.headers["SlotQ-Event-Id"] == MESSAGE.id
    moment, signature = got.headers["SlotQ-Signature"].split(",")
    assert moment == f"t={NOW // 1000}"
    text = f"{NOW // 1000}.".encode() + got.body
    assert signature == "v1=" + hmac.new(KEY.encode(), text, hashlib.sha256).hexdigest()
    assert json.loads(got.body) == {
        "version": 1,
        "id": MESSAGE.id,
        "queue": "sagemaker-queue",
        "notification": "vision",
        "event": "failed",
        "title": MESSAGE.title,
        "text": MESSAGE.text,
        "at": "2026-11-18T11:06:40.000Z",
        "job": "job1",
        "project": "vision",
        "person": None,
        "pool": None,
        "attempt": 2,
        "training_job": None,
    }


def test_slack_gets_text_that_mentions_and_links_nobody(aws, web):
    keep(aws, f"{web.url}/services/T/B/x\n")
    sender(aws).send(MESSAGE, Receiver(channel="slack", place=REFERENCE), now=NOW)
    (got,) = web.got
    assert got.path == "/services/T/B/x"
    body = json.loads(got.body)
    assert body["mrkdwn"] is False
    assert "<" not in body["text"]
    assert "&lt;!channel&gt;" in body["text"]
    assert body["text"].startswith("Job job1 has failed\n")


def test_a_kept_url_that_is_not_slacks_is_not_called(aws, web):
    keep(aws, f"{web.url}/x")
    with pytest.raises(NotDelivered, match=r"no URL of hooks\.slack"):
        sender(aws, loopback=False).send(
            MESSAGE, Receiver(channel="slack", place=REFERENCE), now=NOW
        )
    assert web.got == []


@pytest.mark.parametrize("fifo", [False, True])
def test_a_topic_gets_the_text_and_its_attributes(aws, fifo):
    name = "jobs.fifo" if fifo else "jobs"
    more = {"Attributes": {"FifoTopic": "true"}} if fifo else {}
    topic = aws("sns").create_topic(Name=name, **more)["TopicArn"]
    asked: list[dict[str, Any]] = []
    client = aws("sns")
    client.meta.events.register(
        "provide-client-params.sns.Publish", lambda params, **_: asked.append(params)
    )
    Sender(lambda _: client, queue="q").send(MESSAGE, Receiver(channel="sns", place=topic), now=NOW)
    (request,) = asked
    assert (request["Subject"], request["Message"]) == (MESSAGE.title, MESSAGE.text)
    attributes = {k: v["StringValue"] for k, v in request["MessageAttributes"].items()}
    assert attributes == {
        "slotq_event_id": MESSAGE.id,
        "slotq_event": "failed",
        "slotq_queue": "q",
        "slotq_job": "job1",
        "slotq_project": "vision",
    }
    assert request.get("MessageDeduplicationId") == (MESSAGE.id if fifo else None)


def test_a_missing_topic_is_told_by_its_code(aws):
    topic = "arn:aws:sns:us-east-1:123456789012:none"
    with pytest.raises(NotDelivered, match="SNS does not take it \\(NotFound"):
        sender(aws).send(MESSAGE, Receiver(channel="sns", place=topic), now=NOW)


def test_a_secret_of_secrets_manager_is_used_and_read_once(aws, web):
    made = aws("secretsmanager").create_secret(Name="slotq/notifications/v", SecretString=KEY)
    calls: list[str] = []

    def client(service: str) -> Any:
        calls.append(service)
        return aws(service)

    its = sender(client)
    receiver = Receiver(channel="webhook", place=f"{web.url}/hook", secret=made["ARN"])
    for now in (NOW, NOW + 1000):
        its.send(MESSAGE, receiver, now=now)
    assert calls == ["secretsmanager"]
    aws("secretsmanager").put_secret_value(SecretId=made["ARN"], SecretString="another")
    its.send(MESSAGE, receiver, now=NOW + sending.KEPT)
    text = f"{(NOW + sending.KEPT) // 1000}.".encode() + web.got[-1].body
    assert hmac.new(b"another", text, hashlib.sha256).hexdigest() in str(web.got[-1].headers)


def test_a_secret_that_cannot_be_read_is_told_without_its_name(aws, web):
    with pytest.raises(NotDelivered) as told:
        sender(aws).send(MESSAGE, webhook(web), now=NOW)
    assert str(told.value) == "its secret cannot be read (ParameterNotFound)"

    class Quoting:
        def get_parameter(self, **_: Any) -> Any:
            answer = {"Error": {"Code": "AccessDeniedException", "Message": f"no {KEY}"}}
            raise ClientError(answer, "GetParameter")

    with pytest.raises(NotDelivered) as told:
        sender(lambda _: Quoting()).send(MESSAGE, webhook(web), now=NOW)
    assert KEY not in str(told.value)
    assert web.got == []


@pytest.mark.parametrize("status", [400, 403, 404, 410, 429, 500, 503])
def test_another_answer_than_2xx_is_no_delivery(web, status):
    web.status = status
    with pytest.raises(NotDelivered, match=f"it answers {status}"):
        post(f"{web.url}/x", b"{}", {}, loopback=True)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(web, status):
    with serving() as other:
        web.status, web.location = status, f"{other.url}/latest/meta-data"
        with pytest.raises(NotDelivered, match="redirects are not followed"):
            post(f"{web.url}/x", b"{}", {}, loopback=True)
        assert other.got == []


def test_nobody_there_is_no_delivery():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(NotDelivered, match="cannot be reached"):
        post(f"http://127.0.0.1:{port}/x", b"{}", {}, loopback=True)


def test_an_answer_without_end_is_cut_off(web, monkeypatch):
    monkeypatch.setattr(https, "DEADLINE", 0.5)
    web.drips = True
    with pytest.raises(NotDelivered, match=r"takes too long|cannot be reached"):
        post(f"{web.url}/x", b"{}", {}, loopback=True)


def test_a_look_up_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(https, "DEADLINE", 0.05)
    ended = threading.Event()

    def resolve(*_: Any) -> list[str]:
        ended.wait()
        return ["8.8.8.8"]

    with pytest.raises(NotDelivered, match="look-up of its host: it takes too long"):
        post("https://hooks.example.com/x", b"", {}, resolve=resolve)
    ended.set()


@pytest.mark.parametrize(("looked_up_for", "called"), [(0.0, True), (9.0, True), (10.0, False)])
def test_the_look_up_counts_into_the_deadline(monkeypatch, looked_up_for: float, called: bool):
    """What is left bounds the connection and all that follows."""
    time_now, timeouts, cut_offs = [100.0], [], []

    def resolve(*_: Any) -> list[str]:
        time_now[0] += looked_up_for
        return ["8.8.8.8"]

    def connected(_: Any, timeout: float) -> Any:
        timeouts.append(timeout)
        raise ConnectionRefusedError

    class Timer(threading.Timer):
        def __init__(self, interval: float, *more: Any) -> None:
            cut_offs.append(interval)
            super().__init__(interval, *more)

    monkeypatch.setattr(socket, "create_connection", connected)
    monkeypatch.setattr(threading, "Timer", Timer)
    with pytest.raises(NotDelivered):
        post("https://a.example.com/x", b"", {}, resolve=resolve, clock=lambda: time_now[0])
    left = https.DEADLINE - looked_up_for
    assert timeouts == ([min(https.TIMEOUT, left)] if called else [])
    assert cut_offs == ([left] if called else [])


def test_this_machine_is_called_only_by_the_emulator(web):
    with pytest.raises(NotDelivered, match="this machine itself"):
        post(f"{web.url}/x", b"{}", {})
    assert web.got == []


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "fd00:ec2::254", "::ffff:10.0.0.1"],
)
def test_a_name_that_leads_to_a_private_address_is_not_called(address, monkeypatch):
    def connected(*_: Any) -> Any:
        raise AssertionError("it must not connect")

    monkeypatch.setattr(socket, "create_connection", connected)
    for found in ([address], ["8.8.8.8", address]):
        with pytest.raises(NotDelivered, match="private or reserved"):
            post("https://hooks.example.com/x", b"", {}, resolve=lambda *_, found=found: found)
    with pytest.raises(NotDelivered, match="no address"):
        post("https://hooks.example.com/x", b"", {}, resolve=_no_such_host)
    with pytest.raises(NotDelivered, match="no https"):
        post("http://hooks.example.com/x", b"", {}, loopback=True)


def _no_such_host(*_: Any) -> list[str]:
    raise socket.gaierror


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a key and a certificate of hooks.example.com."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks.example.com")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("hooks.example.com")]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    text = made.public_bytes(serialization.Encoding.PEM)
    text += key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(text)
    return str(path)


def test_the_judged_address_is_called_and_the_hosts_certificate_checked(certificate, monkeypatch):
    """The look-up is asked once: a name that changes its address after it leads nowhere else."""
    monkeypatch.setattr(https, "is_public", lambda _: True)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(certificate)
    trusts = ssl.create_default_context(cafile=certificate)
    asked: list[tuple[str, int]] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    with serving(served) as web:
        port = int(web.url.rpartition(":")[2])
        url = f"https://hooks.example.com:{port}/x"
        post(url, b"{}", {}, resolve=resolve, context=trusts)
        assert asked == [("hooks.example.com", port)]
        assert web.got[0].headers["Host"] == f"hooks.example.com:{port}"
        other = f"https://other.example.com:{port}/x"
        with pytest.raises(NotDelivered, match="SSLCertVerificationError"):
            post(other, b"{}", {}, resolve=resolve, context=trusts)
        with pytest.raises(NotDelivered, match="SSLCertVerificationError"):
            post(url, b"{}", {}, resolve=resolve)
        assert len(web.got) == 1

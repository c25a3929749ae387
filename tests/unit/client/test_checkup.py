"""`slotq doctor` on the client's side: what is wrong, and what to do about it."""

from __future__ import annotations

import json
from email.utils import format_datetime
from importlib.metadata import PackageNotFoundError

import pytest
from botocore.exceptions import SSLError

from slotq.checkup import CHECKS, NOBODY
from slotq.cli.exits import ExitCode
from slotq.errors import NotConfigured
from slotq.installation import source
from slotq_core.names import is_legal
from tests.unit.client.conftest import NOW
from tests.unit.client.fake_queue import FakeAnswer, FakeAws, FakeNetwork, client_of, no_connection


@pytest.fixture
def doctor(slotq):
    """Run the doctor. Returns its exit code and its checks."""

    def run(*words, **world):
        result = slotq("doctor", "--client", "--json", *words, world=world)
        checks = json.loads(result.stdout)["checks"]
        assert [each["name"] for each in checks] == list(CHECKS)
        return result.exit_code, {each["name"]: each for each in checks}

    return run


def wrong(checks):
    return [name for name, check in checks.items() if check["ok"] is False]


def test_every_check_of_a_healthy_queue_passes(doctor, http):
    http.headers = {"Date": format_datetime(NOW, usegmt=True)}
    code, checks = doctor()
    assert (code, wrong(checks)) == (ExitCode.OK, [])
    assert all(check["ok"] for check in checks.values())
    assert checks["name"]["text"] == "queue.test is 10.0.0.7 (private)"
    assert "user/ada" in checks["answer"]["text"]
    assert checks["permissions"]["text"] == "you may look, submit, change, cancel"


def test_the_doctor_changes_nothing_by_itself(doctor, queue):
    before = dict(queue.jobs)
    doctor()
    assert (queue.jobs, queue.requests) == (before, {})
    assert not is_legal(NOBODY)


def test_the_table_says_what_to_do(slotq):
    result = slotq("doctor", "--client", world={"network": FakeNetwork(closed=True)})
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "route        WRONG  no connection to queue.test, port 443: timed out" in result.output
    assert "security group must admit you on port 443" in result.output
    assert "permissions  -      not checked" in result.output


def test_wrong_settings_fail_the_settings_check(doctor):
    def connect(_):
        raise NotConfigured("no endpoint of the queue is configured")

    code, checks = doctor(connect=connect)
    assert (code, wrong(checks)) == (ExitCode.USAGE, ["settings"])
    assert {check["ok"] for name, check in checks.items() if name != "settings"} == {None}


@pytest.mark.parametrize(
    ("network", "name", "said"),
    [
        (FakeNetwork(addresses=()), "name", "known only inside its VPC"),
        (FakeNetwork(closed=True), "route", "security group"),
    ],
)
def test_a_network_fault_fails_the_network_check(doctor, http, network, name, said):
    code, checks = doctor(network=network)
    assert (code, wrong(checks)) == (ExitCode.UNREACHABLE, [name])
    assert said in checks[name]["advice"]
    assert http.sent == []


def test_a_public_address_is_reported(doctor):
    _, checks = doctor(network=FakeNetwork(addresses=("10.0.0.7", "52.1.2.3")))
    assert "not through a VPC endpoint" in checks["name"]["text"]


def test_with_a_proxy_the_name_is_not_resolved_here(doctor, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test:3128")
    code, checks = doctor(network=FakeNetwork(addresses=(), closed=True))
    assert code == ExitCode.OK
    assert "http://proxy.test:3128" in checks["route"]["text"]


def test_missing_credentials_fail_their_check(doctor, http):
    code, checks = doctor(connect=lambda _: client_of(http, aws=FakeAws(signed=False)))
    assert (code, wrong(checks)) == (ExitCode.NOT_ALLOWED, ["credentials"])
    assert "aws sso login" in checks["credentials"]["advice"]


@pytest.mark.parametrize(
    ("trouble", "code", "said"),
    [
        (no_connection(), ExitCode.UNREACHABLE, "cannot reach the queue"),
        (SSLError(endpoint_url="x", error="bad"), ExitCode.UNREACHABLE, "AWS_CA_BUNDLE"),
        (FakeAnswer(502, "{}"), ExitCode.UNREACHABLE, "answered 502"),
        (FakeAnswer(200, "<html>"), ExitCode.UNREACHABLE, "but it is not the queue"),
        (
            FakeAnswer(404, '{"message": "nothing here"}'),
            ExitCode.UNREACHABLE,
            "ends with its stage",
        ),
        (FakeAnswer(403, '{"message": "Forbidden"}'), ExitCode.NOT_ALLOWED, "SLOTQ_API_ID"),
        (
            FakeAnswer(403, '{"message": "The request signature we calculated does not match"}'),
            ExitCode.NOT_ALLOWED,
            "check the secret key, the region",
        ),
        (
            FakeAnswer(403, '{"Message": "User: x is not authorized to perform: y"}'),
            ExitCode.NOT_ALLOWED,
            "execute-api:Invoke",
        ),
        (
            FakeAnswer(403, '{"message": "Missing Authentication Token"}'),
            ExitCode.NOT_ALLOWED,
            "must end with the stage",
        ),
    ],
)
def test_a_wrong_answer_fails_the_answer_check(doctor, http, trouble, code, said):
    http.troubles = [trouble] * 9
    found, checks = doctor()
    assert (found, wrong(checks)) == (code, ["answer"])
    assert said in checks["answer"]["text"]
    assert checks["permissions"]["ok"] is None


@pytest.mark.parametrize(
    ("date", "said"),
    [
        ("Fri, 20 Nov 2026 12:10:00 GMT", "600 s behind"),
        ("Fri, 20 Nov 2026 11:00:00 GMT", "3600 s ahead"),
    ],
)
def test_a_wrong_clock_is_reported_even_when_the_signature_is_refused(doctor, http, date, said):
    http.headers = {"Date": date}
    code, checks = doctor()
    assert (code, wrong(checks)) == (ExitCode.NOT_ALLOWED, ["clock"])
    message = '{"message": "Signature expired: 20261120T1"}'
    http.troubles = [FakeAnswer(403, message, {"Date": date})]
    code, checks = doctor()
    assert (code, wrong(checks)) == (ExitCode.NOT_ALLOWED, ["answer", "clock"])
    assert said in checks["clock"]["text"]
    assert "timedatectl" in checks["clock"]["advice"]


def test_missing_permissions_are_named_by_verb(doctor, http):
    http.forbidden = {"PATCH", "DELETE"}
    code, checks = doctor()
    assert (code, wrong(checks)) == (ExitCode.NOT_ALLOWED, ["permissions"])
    assert checks["permissions"]["text"] == "you may not change, cancel"
    assert "PATCH /jobs/*, DELETE /jobs/*" in checks["permissions"]["advice"]
    assert checks["versions"]["ok"], "that is another matter"


@pytest.mark.parametrize(("release", "well"), [("0.2.7", True), ("0.3.0", False), ("1.1.0", False)])
def test_different_versions_are_reported(doctor, queue, release, well):
    queue.release = release
    code, checks = doctor()
    assert (code == ExitCode.OK) is well
    assert wrong(checks) == ([] if well else ["versions"])
    assert release in checks["versions"]["text"]
    if not well:
        assert f"this client from {source()}" in checks["versions"]["advice"]


def test_an_older_queue_without_the_route_is_reported(doctor, http):
    http.troubles = [
        FakeAnswer(404, '{"version":1,"code":"no_such_route","message":"there is only"}')
    ]
    code, checks = doctor()
    assert (code, wrong(checks)) == (ExitCode.UNREACHABLE, ["versions"])


def test_the_queues_own_findings_follow(slotq, http):
    result = slotq("doctor")
    assert (result.exit_code, result.output.splitlines()[-1]) == (ExitCode.OK, "nothing found")
    http.forbidden = {"PATCH"}
    result = slotq("doctor", "--json")
    assert (result.exit_code, json.loads(result.stdout)["findings"]) == (ExitCode.NOT_ALLOWED, [])


RELAY = "http://127.0.0.1:8123/secret"


def relayed(monkeypatch, **variables):
    for name in ("AWS_ENDPOINT_URL_SAGEMAKER", "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS"):
        monkeypatch.setenv(name, variables.pop(name, RELAY))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_what_is_caught_without_exec(doctor, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("slotq.checkup.version", lambda _: "2.257.7")
    check = doctor()[1]["caught"]
    assert check["ok"]
    assert "QueueTrainingJobSession (sagemaker 2.257.7)" in check["text"]
    assert "not caught: programs of this shell, boto3 sessions of their own" in check["text"]
    assert "`slotq exec -- PROGRAM`" in check["advice"]
    program = tmp_path / "aws"
    program.touch(mode=0o755)

    def none(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("slotq.checkup.version", none)
    text = doctor()[1]["caught"]["text"]
    assert f"not caught: {program}, programs of this shell" in text
    assert "QueueTrainingJobSession" not in text


def test_within_exec_all_is_caught(doctor, monkeypatch):
    relayed(monkeypatch)
    check = doctor()[1]["caught"]
    assert (check["ok"], check["text"]) == (True, "all programs of this shell (slotq exec)")


@pytest.mark.parametrize(
    "variables",
    [
        {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
        {"AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": ""},
        {"AWS_ENDPOINT_URL_SAGEMAKER": "https://vpce-1.sagemaker.eu-west-1.vpce.amazonaws.com"},
    ],
)
def test_other_endpoints_are_no_exec(doctor, monkeypatch, variables):
    relayed(monkeypatch, **variables)
    assert "not caught" in doctor()[1]["caught"]["text"]


class NoRelay(FakeNetwork):
    """The queue answers, and this machine's own address does not."""

    def connect(self, host, port):
        if host == "127.0.0.1":
            raise ConnectionRefusedError("Connection refused")


def test_an_exec_that_has_ended_is_wrong(doctor, monkeypatch):
    relayed(monkeypatch)
    code, checks = doctor(network=NoRelay())
    assert (code, wrong(checks)) == (ExitCode.UNREACHABLE, ["caught"])
    assert checks["caught"]["text"].endswith("(127.0.0.1:8123): Connection refused")
    assert "unset AWS_ENDPOINT_URL_SAGEMAKER" in checks["caught"]["advice"]
    assert "secret" not in json.dumps(checks)

"""Which places a notification may name. No answer repeats what it refuses."""

from __future__ import annotations

import pytest

from slotq_core.notices import places

SSM = "ssm:/slotq/notifications/vision"
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:slotq/notifications/v-AbC123"


@pytest.mark.parametrize("value", [SSM, SSM + "/a.b_c-d", SECRET, SECRET.replace("aws", "aws-cn")])
def test_references_to_kept_secrets_are_right(value):
    assert places.fault_in_reference(value) == ""


@pytest.mark.parametrize(
    "value",
    [
        "https://hooks.slack.com/services/T000/B000/token-token",
        "hunter2-hunter2",
        "ssm:/other/vision",
        "ssm:/slotq/notifications/",
        "ssm:/slotq/notifications/../x y",
        "ssm:/slotq/notifications/x\n",
        SECRET.replace("slotq/notifications", "production/database"),
        "",
        None,
        7,
        {"a": "hunter2-hunter2"},
    ],
)
def test_a_literal_secret_is_refused_and_never_repeated(value):
    fault = places.fault_in_reference(value)
    assert "a reference is needed, not the secret itself" in fault
    for part in ("token", "hunter2", "T000"):
        assert part not in fault


@pytest.mark.parametrize(
    "value",
    [
        "https://hooks.example.com/slotq",
        "https://hooks.example.com:8443/",
        "https://8.8.8.8/x",
        "http://127.0.0.1:8000/x",
        "http://localhost:8000/x",
        "http://[::1]:8000/x",
    ],
)
def test_public_https_and_loopback_http_are_right(value):
    assert places.fault_in_url(value) == ""
    assert places.is_loopback(value) == value.startswith("http:")


REFUSED = [
    ("http://hooks.example.com/x", "https is needed"),
    ("https://user:hunter2@hooks.example.com/x", "without user"),
    ("https://hooks.example.com/x?token=hunter2", "without user"),
    ("https://hooks.example.com/x#hunter2", "without user"),
    ("https://hooks.slack.com/services/T/B/hunter2", "write slack instead"),
    ("https://discord.com/api/webhooks/1/hunter2", "checks no signature"),
    ("https://acme.webhook.office.com/hunter2", "checks no signature"),
    ("https://169.254.169.254/latest/meta-data", "private or reserved"),
    ("https://[fd00:ec2::254]/latest", "private or reserved"),
    ("https://[::ffff:169.254.169.254]/x", "private or reserved"),
    ("https://[64:ff9b::a9fe:a9fe]/x", "private or reserved"),
    ("https://10.0.0.1/x", "private or reserved"),
    ("https://192.168.1.1/x", "private or reserved"),
    ("https://100.64.0.1/x", "private or reserved"),
    ("https://0.0.0.0/x", "private or reserved"),
    ("https://224.0.0.1/x", "private or reserved"),
    ("https://127.0.0.1/x", "this machine itself"),
    ("https://localhost/x", "this machine itself"),
    ("https://[::1]/x", "this machine itself"),
    ("https://2130706433/x", "full name"),
    ("https://0x7f.1/x", "full name"),
    ("https://127.1/x", "full name"),
    ("https://0177.0.0.1/x", "full name"),
    ("https://intranet/x", "full name"),
    ("https://metadata.google.internal/x", "an internal name"),
    ("https://db.corp.local/x", "an internal name"),
    ("https://a.localhost/x", "an internal name"),
    ("https://hooks.example.com./x", "full name"),
    ("ftp://hooks.example.com/x", "a URL is needed"),
    ("file:///etc/passwd", "a URL is needed"),
    ("https://hooks.example.com/a b", "a URL is needed"),
    ("https://hooks.example.com/\r\nHost: x", "a URL is needed"),
    ("https://hooks.example.com\\@10.0.0.1/x", "a URL is needed"),
    ("https://hooks.example.com:99999/x", "a URL is needed"),
    ("https://hooks.exämple.com/x", "a URL is needed"),
    ("https://" + "a" * 3000 + ".com/", "a URL is needed"),
    ("", "a URL is needed"),
    (None, "a URL is needed"),
]


@pytest.mark.parametrize(("value", "said"), REFUSED, ids=[str(v)[:40] for v, _ in REFUSED])
def test_other_urls_are_refused_and_never_repeated(value, said):
    fault = places.fault_in_url(value)
    assert said in fault
    assert "hunter2" not in fault


@pytest.mark.parametrize(
    ("value", "loopback", "right"),
    [
        ("https://hooks.slack.com/services/T/B/x", False, True),
        ("https://hooks.slack-gov.com/services/T/B/x", False, True),
        ("https://hooks.slack.com.evil.example/x", False, False),
        ("https://evil.example/hooks.slack.com", False, False),
        ("https://hooks.slack.com@evil.example/x", False, False),
        ("http://hooks.slack.com/x", False, False),
        ("http://127.0.0.1:9000/x", False, False),
        ("http://127.0.0.1:9000/x", True, True),
        ("hunter2", True, False),
    ],
)
def test_what_is_kept_for_slack_leads_to_slack(value, loopback, right):
    fault = places.fault_in_slack_url(value, loopback=loopback)
    assert (fault == "") is right
    assert "hunter2" not in fault


@pytest.mark.parametrize(
    ("address", "public"),
    [
        *(("8.8.8.8", True), ("2606:4700::1111", True), ("::ffff:8.8.8.8", True)),
        *(("10.1.2.3", False), ("127.0.0.1", False), ("169.254.169.254", False)),
        *(("::1", False), ("fe80::1", False), ("fd00::1", False), ("::ffff:10.0.0.1", False)),
        *(("2002:a9fe:a9fe::", False), ("64:ff9b::808:808", True), ("nonsense", False)),
        *(("255.255.255.255", False), ("198.18.0.1", False), ("ff02::1", False)),
        *(("fec0::1", False), ("64:ff9b:1::a9fe:a9fe", False), ("::a9fe:a9fe", False)),
        *(("::ffff:0:a9fe:a9fe", False), ("5f00::1", False)),
    ],
)
def test_only_the_public_internet_is_public(address, public):
    assert places.is_public(address) is public


@pytest.mark.parametrize(
    ("topic", "right"),
    [
        ("arn:aws:sns:eu-west-1:123456789012:jobs", True),
        ("arn:aws:sns:eu-west-1:123456789012:jobs.fifo", True),
        ("arn:aws:sns:eu-west-1:123456789012:*", False),
        ("arn:aws:sqs:eu-west-1:123456789012:jobs", False),
        ("jobs", False),
        (None, False),
    ],
)
def test_topics_are_arns(topic, right):
    assert (places.fault_in_topic(topic) == "") is right

"""The client's calls: signing, retries, and refusals as exceptions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import (
    EndpointConnectionError,
    ReadTimeoutError,
    SSLError,
    SSOTokenLoadError,
)

from slotq import errors
from slotq.client import QueueClient
from slotq.configuration.settings import Config, load
from slotq.transport.signed_http import TRIES, Transport
from slotq_core.model.jobs import JobState
from slotq_core.wire.views.jobs import JobView
from tests.least_request import least_request
from tests.unit.client.fake_queue import (
    ENDPOINT,
    Clock,
    FakeAnswer,
    FakeAws,
    FakeHttp,
    FakeQueue,
    client_of,
    ended,
    job_view,
    no_connection,
    running,
    served,
    waiting,
)

REQUEST = least_request("job1", Tags=[{"Key": "priority", "Value": "7"}])


def test_submit_returns_the_job():
    http = FakeHttp()
    job = client_of(http).submit(REQUEST)
    assert isinstance(job, JobView)
    assert (job.name, job.priority, job.state) == ("job1", 7, "pending")
    assert http.sent[0].url == f"{ENDPOINT}/add-job"
    assert http.last_body() == REQUEST


def test_jobs_are_read_listed_and_cancelled():
    http = FakeHttp(FakeQueue(running(), job_view("job2"), ended(name="job3")))
    client = client_of(http)
    assert client.jobs.view("job1").state == "running"
    assert [job.name for job in client.jobs()] == ["job1", "job2", "job3"]
    assert [job.name for job in client.jobs(["pending", "completed"])] == ["job2", "job3"]
    assert [job.name for job in client.jobs(limit=2)] == ["job1", "job2"]
    assert client.jobs.cancel("job2").state == "cancelled"


def test_pages_of_jobs_are_followed_up_to_the_limit():
    queue = FakeQueue(*(job_view(f"job{number}") for number in range(7)))
    queue.most_at_once = 2
    http = FakeHttp(queue)
    client = client_of(http)
    every = [f"job{number}" for number in range(7)]
    whole = client.jobs(limit=7)
    assert ([job.name for job in whole], whole.more) == (every, False)
    assert len(http.sent) == 4
    some = client.jobs(limit=5)
    assert ([job.name for job in some], some.more) == (every[:5], True)
    assert not client.jobs("pending,failed", limit=9).more


def test_a_job_on_two_pages_is_told_once_as_it_stands_last():
    queue = FakeQueue()
    first, last = running(), ended(name="job1")
    queue.jobs = {"begin": first, "job2": job_view("job2"), "end": last}
    queue.most_at_once = 2
    found = client_of(FakeHttp(queue)).jobs()
    assert [(job.name, job.state) for job in found] == [("job2", "pending"), ("job1", last.state)]


def test_calls_are_signed_for_execute_api():
    http = FakeHttp(FakeQueue(job_view()))
    client_of(http).jobs.view("job1")
    assert "/eu-west-1/execute-api/aws4_request" in str(http.sent[0].headers["Authorization"])


def test_without_credentials_calls_are_unsigned():
    http = FakeHttp(FakeQueue(job_view()))
    client_of(http, aws=FakeAws(signed=False)).jobs.view("job1")
    assert "Authorization" not in http.sent[0].headers


def test_a_call_through_a_vpc_endpoint_signs_the_api_id():
    http = FakeHttp(FakeQueue(job_view()))
    endpoint = "https://vpce-0a.execute-api.eu-west-1.vpce.amazonaws.com/prod"
    client_of(http, config=Config(endpoint=endpoint, api_id="a1b2c3")).jobs.view("job1")
    headers = http.sent[0].headers
    assert headers["x-apigw-api-id"] == "a1b2c3"
    assert "x-apigw-api-id" in str(headers["Authorization"])


@pytest.mark.parametrize(
    "trouble", [no_connection(), FakeAnswer(429, "{}"), FakeAnswer(503, ""), FakeAnswer(500, "x")]
)
def test_transient_errors_are_retried(trouble):
    http, clock = FakeHttp(FakeQueue(job_view())), Clock()
    http.troubles = [trouble, trouble]
    assert client_of(http, clock=clock).jobs.view("job1").name == "job1"
    assert len(http.sent) == 3
    assert clock.slept == [0.25, 0.5]


def test_the_answer_sets_the_pause_before_a_retry():
    http, clock = FakeHttp(FakeQueue(job_view())), Clock()
    http.troubles = [FakeAnswer(429, "{}", {"Retry-After": "3"})]
    client_of(http, clock=clock).jobs.view("job1")
    assert clock.slept == [3.0]


def test_a_submission_with_a_lost_answer_is_the_same_job():
    queue = FakeQueue()
    http = FakeHttp(queue)
    client = client_of(http)
    client.submit(REQUEST)
    http.troubles = [no_connection()]
    assert client.submit(REQUEST).name == "job1"
    assert list(queue.jobs) == ["job1"]


def test_no_connection_names_the_endpoint_and_what_to_check():
    http = FakeHttp()
    http.troubles = [no_connection()] * TRIES
    with pytest.raises(errors.CannotReach, match=r"https://queue.test/prod.*VPC"):
        client_of(http).jobs.view("job1")
    assert len(http.sent) == TRIES


def test_a_wrong_certificate_is_not_retried():
    http = FakeHttp()
    http.troubles = [SSLError(endpoint_url=ENDPOINT, error="self-signed")]
    with pytest.raises(errors.CannotReach, match="AWS_CA_BUNDLE"):
        client_of(http).jobs.view("job1")
    assert len(http.sent) == 1


def test_a_queue_that_stays_unavailable_is_an_error():
    http = FakeHttp()
    http.troubles = [FakeAnswer(503, '{"message": "Service Unavailable"}')] * TRIES
    with pytest.raises(errors.Unavailable, match=r"503 5 times.*Service Unavailable"):
        client_of(http).jobs.view("job1")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request", errors.InvalidRequest),
        (400, "never_fits", errors.NeverFits),
        (409, "name_taken", errors.NameTaken),
        (409, "too_late", errors.TooLate),
        (404, "no_such_job", errors.NoSuchJob),
        (422, "a_newer_code", errors.Refused),
    ],
)
def test_each_refusal_has_its_exception(status, code, kind):
    http = FakeHttp()
    http.troubles = [
        FakeAnswer(status, f'{{"code": "{code}", "message": "do this", "field": "Tags"}}')
    ]
    with pytest.raises(kind, match="do this") as raised:
        client_of(http).submit(REQUEST)
    assert raised.value.field == "Tags"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Missing Authentication Token", "must end with the stage"),
        ("User: x is not authorized to perform: execute-api:Invoke on", "execute-api:Invoke"),
        ("The security token included in the request is expired", "expired: log in again"),
        ("The security token included in the request is invalid.", "SLOTQ_AWS_PROFILE"),
        ("The request signature we calculated does not match", "SLOTQ_REGION"),
        ("Signature expired: 20261120T110000Z is now earlier than 20261120T110500Z", "clock"),
        ("Signature not yet current: 20261120T113000Z is still later than", "clock"),
        ("Forbidden", "SLOTQ_API_ID"),
        ("something new", "execute-api:Invoke"),
    ],
)
def test_a_denied_caller_learns_what_to_check(message, said):
    http = FakeHttp()
    http.troubles = [FakeAnswer(403, f'{{"Message": "{message}"}}')]
    with pytest.raises(errors.NotAllowed, match=said):
        client_of(http).jobs()


def test_a_denied_unsigned_caller_learns_that_credentials_are_missing():
    http = FakeHttp()
    http.troubles = [FakeAnswer(403, '{"message": "Missing Authentication Token"}')]
    with pytest.raises(errors.NotAllowed, match="no AWS credentials"):
        client_of(http, aws=FakeAws(signed=False)).jobs()


@pytest.mark.parametrize(
    "answer",
    [
        FakeAnswer(200, "<html>"),
        FakeAnswer(200, '{"jobs": []}'),
        FakeAnswer(200, '{"version": 2, "jobs": []}'),
        FakeAnswer(404, "Not Found"),
        FakeAnswer(404, '{"code": "no_such_route", "message": "there is only …"}'),
    ],
)
def test_a_foreign_answer_is_an_error(answer):
    http = FakeHttp()
    http.troubles = [answer]
    with pytest.raises(errors.UnexpectedAnswer, match="ends with its stage"):
        client_of(http).jobs()


def test_cancelling_twice_succeeds_and_after_the_end_is_too_late():
    http = FakeHttp(FakeQueue(job_view(state="cancelled"), ended(name="job2")))
    client = client_of(http)
    assert client.jobs.cancel("job1").state == "cancelled"
    with pytest.raises(errors.TooLate):
        client.jobs.cancel("job2")


@pytest.mark.parametrize("name", ["", "a/b", "../jobs", "a b", "x" * 64])
def test_an_impossible_job_name_is_not_sent(name):
    http = FakeHttp()
    with pytest.raises(errors.InvalidRequest):
        client_of(http).jobs.view(name)
    assert not http.sent


def test_a_too_large_request_is_not_sent():
    http = FakeHttp()
    with pytest.raises(errors.InvalidRequest, match="move large values"):
        client_of(http).submit(REQUEST | {"HyperParameters": {"a": "x" * 1_100_000}})
    assert not http.sent


def test_a_missing_region_is_an_error():
    http = FakeHttp()
    config = Config(endpoint=ENDPOINT)
    with pytest.raises(errors.NotConfigured, match="SLOTQ_REGION"):
        client_of(http, config=config, aws=FakeAws(region=None)).jobs()


def test_an_unknown_profile_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(errors.NotConfigured, match=r"'nobody'.*list-profiles"):
        Transport(Config(endpoint=ENDPOINT, aws_profile="nobody"))


def test_calls_work_over_a_real_connection(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://nowhere.test:1")  # a proxy is never used for loopback
    with served(FakeQueue()) as endpoint:
        client = QueueClient(endpoint, region="eu-west-1")
        assert client.submit(REQUEST).priority == 7
        assert client.jobs.view("job1").place == 1
        assert [job.name for job in client.jobs(["pending"])] == ["job1"]
        assert client.jobs.cancel("job1").state == "cancelled"
        with pytest.raises(errors.NoSuchJob):
            client.jobs.view("job2")


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (EndpointConnectionError(endpoint_url="https://sts.test"), errors.CannotReach),
        (ReadTimeoutError(endpoint_url="https://sts.test"), errors.CannotReach),
        (SSOTokenLoadError(error_msg="it has expired"), errors.NotConfigured),
    ],
)
def test_credentials_that_cannot_be_renewed_for_now_are_no_wrong_setting(trouble, kind):
    """Whoever waits for a job outlasts an outage of the network."""

    def renewed():
        raise trouble

    aws = FakeAws()
    expired = RefreshableCredentials("a", "b", "c", datetime.now(UTC), renewed, "assume-role")
    aws.get_credentials = lambda: expired
    with pytest.raises(kind, match="the AWS credentials cannot be loaded"):
        client_of(FakeHttp(), aws=aws).jobs()


def test_a_text_in_a_query_is_sent_as_the_signature_covers_it(http):
    """SigV4 knows a space as %20 alone: as a plus sign it made the signature a wrong one."""
    client_of(http).jobs(submitter="jane doe+1/ä\ud800")
    assert http.sent[-1].url.endswith("?submitter=jane%20doe%2B1%2F%C3%A4%3F")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a?b", "a#b", "a\nb", "\ud800"])
def test_what_is_no_name_leads_to_no_other_path(http, name):
    client = client_of(http)
    for call in (
        client.groups.view,
        client.pools.remove,
        client.projects.remove,
        lambda name: client.pools.set(name, {"slots": 1}),
        lambda name: client.projects.set(name, {"quota": 1}),
    ):
        with pytest.raises(errors.InvalidRequest, match="is no name"):
            call(name)
    assert http.sent == []


def test_no_connection_on_loopback_suggests_the_emulator():
    config = Config(endpoint="http://127.0.0.1:9", region="eu-west-1")
    transport = Transport(config, aws=FakeAws(), sleep=Clock().sleep)
    with pytest.raises(errors.CannotReach, match="slotq local start"):
        QueueClient(config=config, transport=transport).jobs()


def test_the_clients_priority_counts_for_jobs_without_one(http, monkeypatch):
    monkeypatch.setenv("SLOTQ_PRIORITY", "3")
    configured = client_of(http, config=load({"endpoint": ENDPOINT, "region": "eu-west-1"}))
    for name, client in (
        ("by-environment", configured),
        ("by-settings", configured.with_settings(priority=9, pools=["p5", "p4"])),
    ):
        client.submit(REQUEST | {"TrainingJobName": name, "Tags": []})
    own = [{"Key": "priority", "Value": "7"}]
    configured.submit(REQUEST | {"TrainingJobName": "own", "Tags": own})
    requests = http.queue.requests
    assert requests["by-environment"]["Tags"] == [{"Key": "priority", "Value": "3"}]
    assert requests["by-settings"]["Tags"] == [
        {"Key": "priority", "Value": "9"},
        {"Key": "slotq:pools", "Value": "p5,p4"},
    ]
    assert requests["own"]["Tags"] == own


def test_the_clients_project_counts_for_jobs_without_one(http, monkeypatch):
    monkeypatch.setenv("SLOTQ_PROJECT", "vision")
    configured = client_of(http, config=load({"endpoint": ENDPOINT, "region": "eu-west-1"}))
    given = client_of(http, config=load({"endpoint": ENDPOINT, "project": "speech"}))
    own = [{"Key": "slotq:project", "Value": "audio"}]
    configured.submit(REQUEST | {"TrainingJobName": "by-environment", "Tags": []})
    given.submit(REQUEST | {"TrainingJobName": "by-argument", "Tags": []})
    configured.submit(REQUEST | {"TrainingJobName": "own", "Tags": own})
    tags = {name: request["Tags"] for name, request in http.queue.requests.items()}
    assert tags == {
        "by-environment": [{"Key": "slotq:project", "Value": "vision"}],
        "by-argument": [{"Key": "slotq:project", "Value": "speech"}],
        "own": own,
    }


def test_a_clone_keeps_the_originals_settings(http):
    client = client_of(http)
    client.submit(REQUEST | {"TrainingJobName": "first"})
    client.with_settings(priority=9).jobs.clone("first", "second")
    assert http.queue.requests["second"].get("Tags") == http.queue.requests["first"].get("Tags")


@pytest.mark.parametrize("states", ["pending", ["pending"], "pending,held", JobState.PENDING])
def test_one_state_may_be_a_string(http, states):
    http.queue.jobs = {"job1": running(), "job3": waiting(1, name="job3")}
    assert [job.name for job in client_of(http).list(states)] == ["job3"]
    assert [job.name for job in client_of(http).jobs(states)] == ["job3"]


@pytest.mark.parametrize("states", ["pendnig", ["running", "pendnig"], ""])
def test_an_unknown_state_is_refused_with_the_known_ones(http, states):
    with pytest.raises(errors.InvalidRequest, match=r"pending, preempted.*, not '(pendnig)?'"):
        client_of(http).list(states)
    assert http.sent == []

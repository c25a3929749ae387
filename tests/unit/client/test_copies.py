"""Clients and jobs can be copied and pickled, without credentials."""

from __future__ import annotations

import copy
import pickle
from multiprocessing import get_context
from pickle import PicklingError

import boto3
import pytest
from click.testing import CliRunner

import slotq
from slotq import QueueClient, errors
from slotq.cli.exits import ExitCode
from slotq.cli.main import cli
from slotq.configuration.settings import Config
from slotq.transport.signed_http import Transport
from tests.least_request import least_request
from tests.unit.client.fake_queue import FakeQueue, served, waiting

REQUEST = least_request("job2")
URL = "https://queue.test/prod"


@pytest.fixture
def queue():
    return FakeQueue(waiting(1))


@pytest.fixture
def client(queue):
    with served(queue) as endpoint:
        yield QueueClient(endpoint, region="eu-west-1", priority=4)


def of_session(client, **settings):
    config = Config(endpoint=client.config.endpoint, region="eu-west-1")
    return QueueClient(config=config, transport=Transport(config, aws=boto3.Session(**settings)))


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copied_client_works(client, queue, copied):
    job = copied(client.get("job1"))
    assert job.set_priority(7).priority == 7
    copied(client).submit(REQUEST)
    assert queue.requests["job2"]["Tags"] == [{"Key": "priority", "Value": "4"}]
    assert [each.name for each in copied(client.list())] == ["job1", "job2"]


def state_of(job):
    return job.refresh().state


def test_jobs_survive_pickling_between_processes(client):
    with get_context("spawn").Pool(1) as pool:
        assert pool.map(state_of, client.list()) == ["pending"]
        (back,) = pool.map(copy.copy, client.list())
    assert back.cancel().state == "cancelled"


def test_a_pickle_holds_no_credentials(client, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA-IN-THE-ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t-in-the-environment")
    client = of_session(client)
    client.jobs.view("job1")
    pickled = pickle.dumps(client)
    assert b"in-the-environment" not in pickled.lower()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA-OF-THE-OTHER")
    assert pickle.loads(pickled).transport.credentials().access_key == "AKIA-OF-THE-OTHER"


def test_a_client_with_given_keys_can_be_copied_but_not_pickled(client):
    keys = {"aws_access_key_id": "mine", "aws_secret_access_key": "s3cr3t"}
    client = of_session(client, **keys)
    assert copy.deepcopy(client).transport.credentials().access_key == "mine"
    with pytest.raises(PicklingError, match=r"profile_name=…"):
        pickle.dumps(client)


def test_a_pickle_keeps_the_profiles_name(client, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    file = tmp_path / "credentials"
    file.write_text("[team]\naws_access_key_id = of-team\naws_secret_access_key = s3cr3t\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    pickled = pickle.dumps(of_session(client, profile_name="team"))
    assert b"of-team" not in pickled
    assert pickle.loads(pickled).transport.credentials().access_key == "of-team"
    file.write_text("")
    with pytest.raises(errors.NotConfigured, match="'team'"):
        pickle.loads(pickled)


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_survive_pickling_between_processes(name):
    kind = getattr(errors, name)
    refused = issubclass(kind, errors.Refused)
    error = kind("no", field="Tags") if refused else kind("no")
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back)) == (kind, "no")
    assert getattr(back, "field", "Tags") == "Tags"


@pytest.mark.parametrize(
    "what",
    [lambda: slotq.QueueClient(URL), lambda: slotq.install(endpoint=URL)],
    ids=["slotq.QueueClient(URL)", "slotq.install(endpoint=URL)"],
)
@pytest.mark.parametrize(
    ("variables", "source"),
    [
        ({"AWS_PROFILE": "nobody"}, "AWS_PROFILE"),
        ({"AWS_DEFAULT_PROFILE": "nobody"}, "AWS_DEFAULT_PROFILE"),
        ({"SLOTQ_AWS_PROFILE": "nobody"}, "SLOTQ_AWS_PROFILE"),
    ],
)
def test_a_wrong_aws_profile_is_named_with_what_to_do(
    tmp_path, monkeypatch, what, variables, source
):
    file = tmp_path / "config"
    file.write_text("[profile team]\nregion = eu-west-1\n")
    for name, value in ({"AWS_CONFIG_FILE": str(file)} | variables).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(errors.NotConfigured) as refused:
        what()
    said = str(refused.value)
    assert said.startswith(f"the AWS profile 'nobody' (from {source}) ")
    assert "the profiles are team" in said
    assert "aws configure --profile nobody" in said


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[default", "Unable to parse config file"),
        ("[default]\nretry_mode = wild\n", "wild"),
        ("[default]\nmax_attempts = many\n", "many"),
    ],
)
def test_aws_settings_that_boto3_does_not_take_are_no_traceback(
    tmp_path, monkeypatch, config, said
):
    file = tmp_path / "config"
    file.write_text(config)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    with served(FakeQueue(waiting(1, name="job1"))) as endpoint:
        done = CliRunner().invoke(cli, ["--endpoint", endpoint, "logs", "job1"])
    assert done.exit_code == ExitCode.USAGE
    assert done.stderr.startswith("slotq: boto3 does not take the settings in AWS's config files")
    assert said in done.stderr


def test_a_wrong_aws_profile_does_not_matter_when_the_session_names_another(
    client, tmp_path, monkeypatch
):
    file = tmp_path / "config"
    file.write_text("[profile team]\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert of_session(client, profile_name="team").jobs.view("job1").name == "job1"

"""The client finds a queue by the name of its stack."""

import socket
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from slotq.configuration.settings import Config
from slotq.errors import NotConfigured
from slotq.transport.discovery import complete

URL = "https://a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com/prod"
WRITTEN = f'{{"endpoint": "{URL}", "api_id": "a1b2c3d4e5"}}'


class Account:
    """A boto3 session with these parameters in its parameter store."""

    def __init__(self, **parameters: str) -> None:
        self.parameters = parameters
        self.asked: list[str] = []
        self.region: str | None = None

    def client(self, service: str, region_name: str | None, config: Any) -> Any:
        assert service == "ssm"
        self.region = region_name
        return SimpleNamespace(get_parameter=self._get)

    def _get(self, Name: str) -> dict[str, Any]:  # noqa: N803 - boto3's word
        self.asked.append(Name)
        name = Name.removeprefix("/slotq/")
        if name not in self.parameters:
            said = {"Error": {"Code": "ParameterNotFound", "Message": "there is none"}}
            raise ClientError(said, "GetParameter")
        return {"Parameter": {"Value": self.parameters[name]}}


def test_the_endpoint_comes_from_the_stacks_parameter():
    found = complete(Config(queue="team"), aws=Account(team=WRITTEN))
    assert (found.endpoint, found.api_id) == (URL, "a1b2c3d4e5")
    assert found.source("endpoint") == "SSM parameter /slotq/team"
    assert found.signing_region() == "eu-west-1"


def test_no_parameter_is_read_with_an_endpoint_or_without_a_queue():
    account = Account()
    for config in (Config(queue="team", endpoint=URL), Config()):
        assert complete(config, aws=account) is config
    assert account.asked == []


def test_the_parameter_is_read_in_the_configured_region():
    account = Account(team=WRITTEN)
    complete(Config(queue="team", region="eu-west-1"), aws=account)
    assert account.region == "eu-west-1"


def test_a_configured_api_id_is_kept():
    assert complete(Config(queue="q", api_id="mine"), aws=Account(q=WRITTEN)).api_id == "mine"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (None, "ParameterNotFound"),
        ("no JSON", "/slotq/team"),
        ("[]", "has no endpoint and api_id"),
        ('{"endpoint": "x"}', "has no endpoint and api_id"),
        ('{"endpoint": "ftp://x", "api_id": "a"}', "from /slotq/team"),
    ],
)
def test_a_missing_or_wrong_parameter_is_an_error(written, told):
    account = Account(**({"team": written} if written else {}))
    with pytest.raises(NotConfigured, match=told):
        complete(Config(queue="team"), aws=account)


def test_an_unreachable_ssm_is_an_error_within_seconds(monkeypatch: pytest.MonkeyPatch):
    """As in a private network without SSM's endpoint: the call is accepted, and no answer comes.
    One attempt with short timeouts is seconds; botocore's own defaults are minutes."""
    made: list[Any] = []
    create = boto3.Session.client

    def client(*arguments: Any, **named: Any) -> Any:
        made.append(create(*arguments, **named))
        return made[-1]

    monkeypatch.setattr(boto3.Session, "client", client)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SSM", f"http://127.0.0.1:{silent.getsockname()[1]}")
        keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
        aws = boto3.Session(region_name="eu-west-1", **keys)
        with pytest.raises(NotConfigured, match=r"(?s)the route to SSM.*SLOTQ_ENDPOINT"):
            complete(Config(queue="team"), aws=aws)
        silent.settimeout(0)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    (ssm,) = made
    assert ssm.meta.config.read_timeout + ssm.meta.config.connect_timeout <= 5

"""People behind shared roles, from STS to the command line: sessions as the emulator's STS gives
them."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from click.testing import CliRunner, Result

from slotq.cli.exits import ExitCode
from slotq.cli.main import cli
from tests.e2e.test_commands import request
from tests.e2e.waiting import until

pytestmark = pytest.mark.usefixtures("aws")

ACCOUNT = "123456789012"
SSO = "AWSReservedSSO_Research_0a1b2c3d4e5f6071"
SECRET = {"HyperParameters": {"token": "s3cr3t-0123"}}


class Person:
    """One session of a role: its command line, and what its programs sign their calls with."""

    def __init__(self, role: str, session: str) -> None:
        keys = (
            boto3.Session()
            .client("sts")
            .assume_role(RoleArn=f"arn:aws:iam::{ACCOUNT}:role/{role}", RoleSessionName=session)[
                "Credentials"
            ]
        )
        self.arn = f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/{session}"
        self._keys = {
            "aws_access_key_id": keys["AccessKeyId"],
            "aws_secret_access_key": keys["SecretAccessKey"],
            "aws_session_token": keys["SessionToken"],
        }

    def boto(self) -> boto3.Session:
        return boto3.Session(**self._keys)

    def slotq(self, *words: str, **options: Any) -> Result:
        env = {name.upper(): value for name, value in self._keys.items()}
        with patch.object(boto3, "DEFAULT_SESSION", None):  # The command's process would have none.
            return CliRunner().invoke(cli, words, env=env, **options)

    def submits(self, name: str) -> None:
        made = self.slotq(
            "submit", "-", input=json.dumps({**request(name, "sleep", "60"), **SECRET})
        )
        assert made.exit_code == ExitCode.OK, made.output

    def jobs(self) -> list[str]:
        shown = self.slotq("ls", "--mine", "--json")
        assert shown.exit_code == ExitCode.OK, shown.output
        return [job["name"] for job in json.loads(shown.stdout)["jobs"]]

    def person(self) -> str:
        return str(json.loads(self.slotq("whoami", "--json").stdout)["person"])


def test_the_identity_provider_tells_people_of_one_role_apart():
    ada, bob = Person(SSO, "ada@example.org"), Person(SSO, "bob@example.org")
    ada.submits("adas")
    bob.submits("bobs")
    assert (ada.person(), bob.person()) == (ada.arn, bob.arn)
    assert (ada.jobs(), bob.jobs()) == (["adas"], ["bobs"])
    cloned = bob.slotq("clone", "adas", "stolen")
    assert cloned.exit_code == ExitCode.NOT_ALLOWED
    assert "submitted by another person" in cloned.stderr
    assert ada.slotq("clone", "adas", "adas-2").exit_code == ExitCode.OK
    assert ada.slotq("cancel", "--mine").exit_code == ExitCode.OK
    until(lambda: not ada.jobs(), "ada's jobs have been cancelled")
    assert bob.jobs() == ["bobs"]
    assert bob.slotq("cancel", "--mine").exit_code == ExitCode.OK


def test_the_sessions_of_an_ordinary_role_are_one_person():
    """Whoever assumes the role chooses the session name, even that of somebody else."""
    lab, other = Person("Lab", "monday"), Person("Lab", "ada@example.org")
    lab.submits("mondays")
    assert lab.person() == other.person() == lab.arn.removesuffix("/monday")
    assert "chosen by the caller who assumes it" in lab.slotq("whoami").stdout
    assert other.jobs() == ["mondays"]
    cancelled = other.slotq("cancel", "--mine")
    assert "--mine selects the jobs of all sessions of" in cancelled.stderr
    until(lambda: not lab.jobs(), "the role's jobs have been cancelled")

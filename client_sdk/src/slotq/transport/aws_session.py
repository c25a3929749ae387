"""The boto3 session that signs: found, named where it is wrong, found again in another process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pickle import PicklingError
from typing import Any

import boto3
import botocore.session
from botocore.exceptions import ProfileNotFound

from slotq.configuration.settings import Config
from slotq.errors import NotConfigured

_PROFILE_VARIABLES = ("AWS_DEFAULT_PROFILE", "AWS_PROFILE")
"""In botocore's order."""
_BY_KEYS = "explicit"
"""botocore's word for credentials that were handed over as keys."""


def signing(config: Config) -> boto3.Session:
    """The session that signs for these settings: their AWS profile's, else boto3's default one.
    Raises NotConfigured where there is no such profile."""
    if config.aws_profile is None and boto3.DEFAULT_SESSION is not None:
        return boto3.DEFAULT_SESSION
    return made(config.aws_profile, source=config.source("aws_profile"))


def made(
    profile: str | None = None, *, source: str = "argument", region: str | None = None
) -> boto3.Session:
    """A new session. `source`: where the profile's name came from. Raises NotConfigured where AWS's
    files have no such profile."""
    try:
        return boto3.Session(profile_name=profile, region_name=region)
    except ProfileNotFound as error:
        raise no_such_profile(error, source=source if profile else _variable()) from None


def no_such_profile(error: ProfileNotFound, *, source: str) -> NotConfigured:
    """What to say of an AWS profile that is not there."""
    there = botocore.session.Session().available_profiles
    known = f"there are {', '.join(sorted(there))}" if there else "they have none"
    return NotConfigured(
        f"the AWS profile '{error.kwargs['profile']}' (from {source}) is not in the AWS config "
        f"files (`aws configure list-profiles`); {known}. Name one that is there, or none, or make "
        f"it: `aws configure --profile {error.kwargs['profile']}`"
    )


def _variable() -> str:
    """The variable that names the profile where no setting of ours does."""
    return next((name for name in _PROFILE_VARIABLES if os.environ.get(name)), "AWS_PROFILE")


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Where a session finds its credentials, without them: what another process needs to know."""

    profile: str | None
    region: str | None

    def session(self) -> boto3.Session:
        """A session of the process that asks. Raises NotConfigured."""
        return made(self.profile, source="the pickled client", region=self.region)


def identity(aws: Any) -> Identity:
    """Raises PicklingError where the session was handed its keys: a pickle must not carry them, and
    without them another process would sign as somebody else."""
    credentials = aws.get_credentials()
    method = getattr(credentials, "method", None)
    if method == _BY_KEYS:
        raise PicklingError(
            "this client signs with keys that were handed to its boto3 session, and a pickle does "
            "not carry credentials: use a profile (boto3.Session(profile_name=…)) or the "
            "environment, or make the client where it is used"
        )
    named = None if method == "env" or aws.profile_name == "default" else aws.profile_name
    return Identity(profile=named, region=aws.region_name)

"""The boto3 session that signs requests: find it, explain errors, recreate it when unpickled."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pickle import PicklingError  # nosec B403 - the error alone; nothing is unpickled here
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.exceptions import BotoCoreError, ProfileNotFound

from slotq.errors import NotConfigured

if TYPE_CHECKING:
    from slotq.configuration.settings import Config

_PROFILE_VARIABLES = ("AWS_DEFAULT_PROFILE", "AWS_PROFILE")
"""In botocore's order."""
_BY_KEYS = "explicit"
"""botocore's word for credentials that were passed in as keys."""


def signing(config: Config) -> boto3.Session:
    """The session that signs: for the configured AWS profile, else boto3's default session.

    Raises NotConfigured if the profile does not exist.
    """
    if config.aws_profile is None and boto3.DEFAULT_SESSION is not None:
        return boto3.DEFAULT_SESSION
    return made(config.aws_profile, source=config.source("aws_profile"))


def made(
    profile: str | None = None, *, source: str = "argument", region: str | None = None
) -> boto3.Session:
    """A new session. `source`: where the profile's name came from.

    Raises NotConfigured if AWS's files have no such profile, or cannot be read.
    """
    try:
        return boto3.Session(profile_name=profile, region_name=region)
    except ProfileNotFound as error:
        raise no_such_profile(error, source=source if profile else _variable()) from None
    except BotoCoreError as error:
        raise wrong_settings(error) from None


def wrong_settings(error: Exception) -> NotConfigured:
    """The error for settings of AWS's that boto3 does not take."""
    return NotConfigured(
        f"boto3 does not take the settings in AWS's config files and the AWS_… variables: {error}"
    )


def no_such_profile(error: ProfileNotFound, *, source: str) -> NotConfigured:
    """The error for an AWS profile that does not exist."""
    there = botocore.session.Session().available_profiles
    known = f"the profiles are {', '.join(sorted(there))}" if there else "there are no profiles"
    return NotConfigured(
        f"the AWS profile '{error.kwargs['profile']}' (from {source}) is not in the AWS config "
        f"files (`aws configure list-profiles`); {known}. Choose one of these or none, or "
        f"create it: `aws configure --profile {error.kwargs['profile']}`"
    )


def _variable() -> str:
    """The environment variable that names the AWS profile if no setting of SlotQ does."""
    return next((name for name in _PROFILE_VARIABLES if os.environ.get(name)), "AWS_PROFILE")


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Where a session finds its credentials, for use in another process; without credentials."""

    profile: str | None
    region: str | None

    def session(self) -> boto3.Session:
        """A new session in this process. Raises NotConfigured."""
        return made(self.profile, source="the pickled client", region=self.region)


def identity(aws: Any) -> Identity:
    """The identity of a boto3 session.

    Raises PicklingError if the session has explicit keys: a pickle must not carry them, and another
    process would sign with other credentials.
    """
    credentials = aws.get_credentials()
    method = getattr(credentials, "method", None)
    if method == _BY_KEYS:
        raise PicklingError(
            "this client signs with keys that were passed to its boto3 session, and a pickle "
            "carries no credentials: use a profile (boto3.Session(profile_name=…)) or the "
            "environment, or create the client in the process that uses it"
        )
    named = None if method == "env" or aws.profile_name == "default" else aws.profile_name
    return Identity(profile=named, region=aws.region_name)

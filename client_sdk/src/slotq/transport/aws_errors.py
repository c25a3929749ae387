"""Errors of AWS's other services, where a command calls them with the user's own rights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    ProfileNotFound,
)

from slotq.errors import CannotReach, NotAllowed, NotConfigured

_ERRORS = {
    "AccessDenied": NotAllowed,
    "AccessDeniedException": NotAllowed,
    "UnrecognizedClientException": NotAllowed,
    "InvalidClientTokenId": NotAllowed,
    "ExpiredToken": NotAllowed,
    "ExpiredTokenException": NotAllowed,
    "ResourceNotFoundException": NotConfigured,
}
"""The meaning of codes; any other is a service that cannot be used now."""


@contextmanager
def aws_errors(service: str) -> Iterator[None]:
    """Errors inside become errors that commands show. `service`: its name in the messages."""
    try:
        yield
    except (NoRegionError, NoCredentialsError, ProfileNotFound) as error:
        raise NotConfigured(str(error)) from None
    except BotoCoreError as error:
        raise CannotReach(f"{service}: {error}") from None
    except ClientError as error:
        kind = _ERRORS.get(code_of(error), CannotReach)
        raise kind(f"{service}: {error}") from None


def code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))

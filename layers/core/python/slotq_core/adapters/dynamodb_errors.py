"""What DynamoDB's errors mean to the queue, in one table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import (
    ClientError,
    HTTPClientError,
    NoCredentialsError,
)
from botocore.exceptions import (
    ConnectionError as NoConnection,
)

from slotq_core.errors import Conflict, Misconfigured, SlotQError, Unavailable


class Contended(Conflict):
    """Another transaction was at the same items just then; no condition is known to be false."""


_CANCELLED = "TransactionCanceledException"

_MEANING: dict[str, type[SlotQError]] = {
    "ConditionalCheckFailedException": Conflict,
    # As a call's own error, or as one action's reason in a cancelled transaction.
    "TransactionConflictException": Contended,
    "TransactionConflict": Contended,
    "TransactionInProgressException": Unavailable,
    "ProvisionedThroughputExceededException": Unavailable,
    "ProvisionedThroughputExceeded": Unavailable,
    "ThrottlingException": Unavailable,
    "ThrottlingError": Unavailable,
    "RequestLimitExceeded": Unavailable,
    "LimitExceededException": Unavailable,
    "InternalServerError": Unavailable,
    "ServiceUnavailable": Unavailable,
    "ExpiredTokenException": Unavailable,
    "ResourceNotFoundException": Misconfigured,
    "AccessDeniedException": Misconfigured,
    "UnrecognizedClientException": Misconfigured,
    "ConditionalCheckFailed": Conflict,
}


@contextmanager
def translated() -> Iterator[None]:
    """Errors of DynamoDB and of the way there become SlotQ's; what is a bug stays as it is."""
    try:
        yield
    except ClientError as error:
        meaning = meaning_of(error)
        if meaning is None:
            raise
        raise meaning(str(error)) from error
    except (HTTPClientError, NoConnection) as error:
        raise Unavailable(f"DynamoDB did not answer: {error}") from error
    except NoCredentialsError as error:
        raise Misconfigured(str(error)) from error


def meaning_of(error: ClientError) -> type[SlotQError] | None:
    """None for what no queue should ever see, such as a malformed expression."""
    code = error.response["Error"]["Code"]
    if code == _CANCELLED:
        return _strongest(cancellation_codes(error))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return _MEANING.get(code) or (Unavailable if status >= 500 else None)


def cancellation_codes(error: ClientError) -> list[str]:
    """For each action of a cancelled transaction, why it was refused; "None": it was not."""
    return [reason.get("Code", "None") for reason in error.response.get("CancellationReasons", [])]


def _strongest(codes: list[str]) -> type[SlotQError] | None:
    """A condition that is false says more than a collision, and that more than a throttle."""
    meanings = {_MEANING.get(code) for code in codes if code != "None"}
    return next((each for each in (Conflict, Contended, Unavailable) if each in meanings), None)

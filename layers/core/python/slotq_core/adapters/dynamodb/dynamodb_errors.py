"""What DynamoDB's errors mean to the queue, in one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import (
    ClientError,
    HTTPClientError,
    NoCredentialsError,
)
from botocore.exceptions import (
    ConnectionError as NoConnection,
)

from slotq_core.errors import Conflict, Misconfigured, RightMissing, SlotQError, Unavailable


class Contended(Conflict):
    """Another transaction was at the same items just then; no condition is known to be false."""


class WrongType(Unavailable):
    """An item is not of the form that it must have: until it is mended, nothing adds to it."""


_CANCELLED = "TransactionCanceledException"

_INVALID = "ValidationException"
_WRONG_TYPE = "incorrect data type"
"""What DynamoDB says where an update adds to what is no number."""

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
    "AccessDeniedException": RightMissing,
    "UnrecognizedClientException": RightMissing,
    "ConditionalCheckFailed": Conflict,
    _WRONG_TYPE: WrongType,
}


_STRENGTH = (Conflict, Contended, WrongType, Unavailable)


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
    if code == _INVALID and _WRONG_TYPE in str(error):
        return WrongType
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return _MEANING.get(code) or (Unavailable if status >= 500 else None)


def refused_keys(error: Conflict, actions: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Of the items that a cancelled transaction would have put, those whose condition is false."""
    cause = error.__cause__
    codes = cancellation_codes(cause) if isinstance(cause, ClientError) else []
    items = [action.get("Put", {}).get("Item") for action in actions]
    return {
        (item["pk"]["S"], item["sk"]["S"])
        for item, code in zip(items, codes, strict=False)
        if item and code == "ConditionalCheckFailed"
    }


def cancellation_codes(error: ClientError) -> list[str]:
    """For each action of a cancelled transaction, why it was refused; "None": it was not."""
    return [_code(reason) for reason in error.response.get("CancellationReasons", [])]


def _code(reason: Mapping[str, Any]) -> str:
    wrong_type = _WRONG_TYPE in str(reason.get("Message", ""))
    return _WRONG_TYPE if wrong_type else str(reason.get("Code", "None"))


def _strongest(codes: list[str]) -> type[SlotQError] | None:
    """A condition that is false says more than a collision, and that more than a throttle."""
    meanings = {_MEANING.get(code) for code in codes if code != "None"}
    return next(
        (each for each in (Conflict, Contended, WrongType, Unavailable) if each in meanings), None
    )

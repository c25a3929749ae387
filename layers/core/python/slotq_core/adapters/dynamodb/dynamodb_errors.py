"""The meaning of DynamoDB's errors for the queue, in one table."""

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

from slotq_core.errors import (
    ConditionFalse,
    Conflict,
    Malformed,
    Misconfigured,
    RightMissing,
    SlotQError,
    Unavailable,
)


class Contended(Conflict):
    """Another transaction used the same items at that moment; no condition is known to be false."""


_CANCELLED = "TransactionCanceledException"

_INVALID = "ValidationException"
_WRONG_TYPE = "incorrect data type"
"""DynamoDB's words for an update that adds to a value that is no number."""

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
    _WRONG_TYPE: Malformed,
}


_STRENGTH = (Conflict, Contended, Malformed, Unavailable)


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of DynamoDB and of the connection into SlotQ's errors. Errors that only a
    bug causes stay as they are."""
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
    """Return the meaning of an error; None for errors that only a bug causes, such as a malformed
    expression."""
    code = error.response["Error"]["Code"]
    if code == _CANCELLED:
        return _strongest(cancellation_codes(error))
    if code == _INVALID and _WRONG_TYPE in str(error):
        return Malformed
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return _MEANING.get(code) or (Unavailable if status >= 500 else None)


def refused_keys(error: Conflict, actions: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Return the keys of the items whose condition is false, of a cancelled transaction."""
    cause = error.__cause__
    codes = cancellation_codes(cause) if isinstance(cause, ClientError) else []
    return {
        _key_in(action)
        for action, code in zip(actions, codes, strict=False)
        if code == "ConditionalCheckFailed"
    }


def with_pools(error: Conflict, pools: frozenset[str]) -> Conflict:
    """Return the error with the pools whose ledgers were not as read; a collision of two
    transactions stays as it is."""
    return error if isinstance(error, Contended) else ConditionFalse(str(error), pools=pools)


def _key_in(action: Mapping[str, Any]) -> tuple[str, str]:
    (contents,) = action.values()
    key = contents.get("Item") or contents["Key"]
    return key["pk"]["S"], key["sk"]["S"]


def item_in_the_way(error: Conflict) -> dict[str, Any] | None:
    """Return the item that the first false condition of a cancelled transaction has found, if the
    action asked for it and there is one."""
    cause = error.__cause__
    reasons = (
        cause.response.get("CancellationReasons", []) if isinstance(cause, ClientError) else ()
    )
    return next((reason["Item"] for reason in reasons if reason.get("Item")), None)


def cancellation_codes(error: ClientError) -> list[str]:
    """Return, for each action of a cancelled transaction, why it was refused; "None": it was
    not."""
    return [_code(reason) for reason in error.response.get("CancellationReasons", [])]


def _code(reason: Mapping[str, Any]) -> str:
    wrong_type = _WRONG_TYPE in str(reason.get("Message", ""))
    return _WRONG_TYPE if wrong_type else str(reason.get("Code", "None"))


def _strongest(codes: list[str]) -> type[SlotQError] | None:
    """Return the strongest meaning: a false condition before a collision, a collision before a
    wrong type, a wrong type before a throttle."""
    meanings = {_MEANING.get(code) for code in codes if code != "None"}
    return next(
        (each for each in (Conflict, Contended, Malformed, Unavailable) if each in meanings), None
    )

"""Calls to the table: pages, consistency, and what DynamoDB's errors mean to the queue."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from botocore.exceptions import (
    ClientError,
    HTTPClientError,
    NoCredentialsError,
)
from botocore.exceptions import (
    ConnectionError as NoConnection,
)

from slotq_core.adapters.dynamodb.layout.expressions import Expression
from slotq_core.adapters.dynamodb.layout.items import keyed
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.table import Key
from slotq_core.adapters.dynamodb.layout.validation import key_of
from slotq_core.adapters.dynamodb.transactions import Action, key_in
from slotq_core.errors import (
    ConditionFalse,
    Conflict,
    Malformed,
    Misconfigured,
    RightMissing,
    SlotQError,
    Unavailable,
)
from slotq_core.ports.surroundings import InParallel


class Contended(Conflict):
    """Another transaction used the same items at that moment; no condition is known to be false."""


MAX_KEYS = 100
"""DynamoDB's limit on keys in one BatchGetItem."""

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
    """Return the keys of a cancelled transaction's items whose condition is false."""
    cause = error.__cause__
    codes = cancellation_codes(cause) if isinstance(cause, ClientError) else []
    return {
        key_in(action)
        for action, code in zip(actions, codes, strict=False)
        if code == "ConditionalCheckFailed"
    }


def with_pools(error: Conflict, pools: frozenset[str]) -> Conflict:
    """Return the error with the pools whose ledgers had changed; a collision of two transactions is
    returned unchanged."""
    return error if isinstance(error, Contended) else ConditionFalse(str(error), pools=pools)


def item_in_the_way(error: Conflict) -> dict[str, Any] | None:
    """Return the item that made the first condition of a cancelled transaction false, if the action
    requested it and the item exists."""
    cause = error.__cause__
    reasons = (
        cause.response.get("CancellationReasons", []) if isinstance(cause, ClientError) else ()
    )
    return next((reason["Item"] for reason in reasons if reason.get("Item")), None)


def cancellation_codes(error: ClientError) -> list[str]:
    """Return the code of each action of a cancelled transaction; "None": this action was not
    refused."""
    return [_code(reason) for reason in error.response.get("CancellationReasons", [])]


def _code(reason: Mapping[str, Any]) -> str:
    wrong_type = _WRONG_TYPE in str(reason.get("Message", ""))
    return _WRONG_TYPE if wrong_type else str(reason.get("Code", "None"))


def _strongest(codes: list[str]) -> type[SlotQError] | None:
    """Return the strongest meaning: a false condition before a collision, a collision before a
    wrong type, a wrong type before a throttle."""
    meanings = {_MEANING.get(code) for code in codes if code != "None"}
    return next(
        (
            meaning
            for meaning in (Conflict, Contended, Malformed, Unavailable)
            if meaning in meanings
        ),
        None,
    )


class Unannounced:
    """Whether this process has changed what the queue shows since it last moved the queue's version
    (`wake`). Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._noted = False

    def note(self) -> None:
        with self._lock:
            self._noted = True

    def take(self) -> bool:
        """Return whether there is a change to announce, and clear it. Before the announcing call: a
        change during the call needs another one."""
        with self._lock:
            noted, self._noted = self._noted, False
            return noted


class TableCalls:
    """One table. Every method may raise the errors of `translated`."""

    def __init__(self, client: Any, table: str) -> None:
        self._client = client
        self.table = table
        self.unannounced = Unannounced()

    def item(self, key: Key) -> Item | None:
        """Read one item, strongly consistent."""
        with translated():
            answer: dict[str, Item] = self._client.get_item(
                TableName=self.table, Key=keyed(key), ConsistentRead=True
            )
        return answer.get("Item")

    def items(self, keys: Sequence[Key]) -> dict[Key, Item]:
        """Read these items, each strongly consistent, those of one transaction perhaps not at one
        moment. Items that do not exist are left out. One call for each 100 keys, and for what an
        answer of 16 MB leaves out."""
        found: dict[Key, Item] = {}
        waiting = [*dict.fromkeys(keys)]
        while waiting:
            asked, waiting = waiting[:MAX_KEYS], waiting[MAX_KEYS:]
            request = {"Keys": [keyed(key) for key in asked], "ConsistentRead": True}
            with translated():
                answer = self._client.batch_get_item(RequestItems={self.table: request})
            found |= {key_of(item): item for item in answer["Responses"].get(self.table, ())}
            left = answer.get("UnprocessedKeys", {}).get(self.table, {}).get("Keys", ())
            if len(left) == len(asked):
                raise Unavailable("DynamoDB answered for none of the items")
            waiting = [*map(key_of, left), *waiting]
        return found

    def items_at_once(self, keys: Sequence[Key], in_parallel: InParallel) -> dict[Key, Item]:
        """As `items`, with its calls at once."""
        parts = [keys[at : at + MAX_KEYS] for at in range(0, len(keys), MAX_KEYS)]
        return dict(chain.from_iterable(found.items() for found in in_parallel(self.items, parts)))

    def query(
        self,
        expression: Expression,
        *,
        limit: int | None = None,
        at_once: int | None = None,
        consistent: bool = True,
    ) -> Iterator[Item]:
        """Yield the items, at most `limit`. Each page is read on demand. With `at_once`, the first
        page has that many items, and each further page twice as many."""
        for answer in self._pages(expression, limit, at_once, consistent=consistent):
            yield from answer["Items"]

    def scan(self, expression: Expression) -> Iterator[Item]:
        """Yield every item that the expression admits, strongly consistent. Only for operators'
        commands."""
        request = {**expression, "TableName": self.table, "ConsistentRead": True}
        while True:
            with translated():
                answer = self._client.scan(**request)
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def count(self, expression: Expression, *, limit: int | None = None) -> int:
        """Return the number of items, or `limit` if there are more; not strongly consistent."""
        pages = self._pages({**expression, "Select": "COUNT"}, limit, consistent=False)
        return sum(answer["Count"] for answer in pages)

    def _pages(
        self,
        expression: Expression,
        limit: int | None,
        at_once: int | None = None,
        *,
        consistent: bool,
    ) -> Iterator[dict[str, Any]]:
        request = {**expression, "TableName": self.table, "ConsistentRead": consistent}
        while limit is None or limit > 0:
            bounds = [bound for bound in (limit, at_once) if bound is not None]
            if bounds:
                request["Limit"] = min(bounds)
            with translated():
                answer = self._client.query(**request)
            yield answer
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
            limit = None if limit is None else limit - answer["Count"]
            at_once = None if at_once is None else 2 * at_once

    def update(self, key: Key, expression: Expression) -> None:
        with translated():
            self._client.update_item(TableName=self.table, Key=keyed(key), **expression)

    def updated(self, key: Key, expression: Expression) -> Item:
        """Update the item, and return its new form."""
        with translated():
            answer: dict[str, Item] = self._client.update_item(
                TableName=self.table, Key=keyed(key), ReturnValues="ALL_NEW", **expression
            )
        return answer["Attributes"]

    def replaced(self, key: Key, expression: Expression) -> Item | None:
        """Update the item, and return its old form; None if it did not exist."""
        with translated():
            answer: dict[str, Item] = self._client.update_item(
                TableName=self.table, Key=keyed(key), ReturnValues="ALL_OLD", **expression
            )
        return answer.get("Attributes")

    def put(self, key: Key, item: Item, condition: Expression | None = None) -> None:
        with translated():
            self._client.put_item(TableName=self.table, Item=keyed(key, item), **(condition or {}))

    def delete(self, key: Key, condition: Expression | None = None) -> None:
        with translated():
            self._client.delete_item(TableName=self.table, Key=keyed(key), **(condition or {}))

    def transact(self, actions: Sequence[Action]) -> None:
        """Run all of the actions or none.

        botocore gives each call its own ClientRequestToken and keeps the token over its retries.
        Therefore a retry of a transaction that took effect gets the answer of the first try.
        """
        try:
            with translated():
                self._client.transact_write_items(TransactItems=list(actions))
        except (Conflict, Malformed):
            raise
        except Exception:
            self.unannounced.note()  # It may have taken effect.
            raise
        self.unannounced.note()

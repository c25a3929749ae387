"""What all calls of one client share, and the base of the classes that hold them by noun."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from slotq.errors import InvalidRequest, LimitReached
from slotq.transport import answers

if TYPE_CHECKING:
    from slotq.configuration.settings import Config
    from slotq.transport.answers import View
    from slotq.transport.signed_http import Transport

T = TypeVar("T")

LONGEST = 180
"""Total seconds that one request may wait."""


def patiently(
    call: Callable[[], T],
    *kinds: type[LimitReached],
    sleep: Callable[[float], None],
    say: Callable[[str], None],
) -> T:
    """Return what `call` returns. On a refusal of one of these kinds, wait as long as the queue
    asks and retry. Raises the refusal if the total wait would exceed LONGEST."""
    waited = 0
    while True:
        try:
            return call()
        except kinds as refused:
            pause = max(1, refused.retry_after)
            if waited + pause > LONGEST:
                raise
            say(f"{refused}; waiting {pause} s")
            sleep(pause)
            waited += pause


def to_stderr(text: str) -> None:
    """Write a message to stderr, apart from the command's output."""
    sys.stderr.write(f"slotq: {text}\n")
    sys.stderr.flush()


Result = TypeVar("Result")

_NO_NAMES, _IN_NO_NAME = frozenset({"", ".", ".."}), frozenset("/?#")


class Connection:
    """The queue that a client speaks to, and what its submissions have in common."""

    config: Config
    transport: Transport
    say: Callable[[str], None]
    """Receives why a call waits."""
    tags: Mapping[str, str]
    """Settings of every submitted job that does not name them itself."""
    knows_dry_runs: bool | None
    """Whether the queue supports dry runs; None: not asked yet."""


class ConnectedCalls:
    """Calls about one noun."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _read(
        self,
        view: type[View],
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, Any] | bytes | None = None,
    ) -> View:
        """The view that the queue answers a call with; the one kept from the call before if nothing
        has changed. Raises its refusal, and what every call may raise (`QueueClient`)."""
        transport = self._connection.transport
        content = json.dumps(body).encode() if isinstance(body, Mapping) else body
        if method != "GET":
            answer = transport.call(method, path, query=query, body=content)
        else:
            question = json.dumps([path, query], default=str)
            tag, kept = transport.kept.get(question)
            answer = transport.call(method, path, query=query, body=content, known=tag)
            if kept is not None and answer.status_code == HTTPStatus.NOT_MODIFIED:
                answer = kept
            else:
                transport.kept.keep(question, answer)
        return answers.read(view, answer, transport, self._connection.config)

    def _patiently(self, call: Callable[[], Result], *refusals: type[LimitReached]) -> Result:
        """Wait and repeat the call while the queue refuses it with one of these."""
        connection = self._connection
        return patiently(call, *refusals, sleep=connection.transport.sleep, say=connection.say)


def stated(settings: Mapping[str, Any], revision: int | None) -> dict[str, Any]:
    """The settings, with the revision that the change is based on if there is one."""
    return {**settings} if revision is None else {**settings, "revision": revision}


def below(path: str, name: str) -> str:
    """The path of one of many. Raises InvalidRequest for a name that would lead to another path."""
    if name in _NO_NAMES or not name.isprintable() or not _IN_NO_NAME.isdisjoint(name):
        raise InvalidRequest(f"{name!r} is no name", field="name")
    return f"{path}/{quote(name, safe='')}"

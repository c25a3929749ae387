"""Entity tags: an answer that cannot have changed is not computed and not sent again.

A tag contains the version of the queue (`Scheduler.version`), the caller, the question and the
release, hashed: no two callers and no two questions share a tag. A change of the configuration, and
so of anybody's rights, moves the version as a change of a job does. So one read decides whether a
tag still holds.

A tag also expires. Time alone changes answers, scripts report past the table, the index by state
lags, and a handler may die before it moves the version. An answer that a 304 confirms is therefore
at most LONGEST old. A tag that follows a change holds for SHORTEST only, because the index may lag
behind that change; so does one issued while a pass runs, which moves the version at its end.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from slotq_core import __version__
from slotq_core.api.router import Response
from slotq_core.ports.surroundings import QueueVersion

SHORTEST, WITH_REPORTS, LONGEST = 5, 15, 60
"""How long (s) a tag holds: after a change, with reports of scripts in the answer, else."""

_MOST_TEXT = 4_000
"""The most characters of If-None-Match that are read: a client has one tag for a question."""

_TAG = r'(?:W/)?"[!#-~\x80-\xff]*"'
_LIST = re.compile(rf"[ \t,]*{_TAG}(?:[ \t]*,[ \t,]*{_TAG})*[ \t,]*")
_OWN = re.compile(r'"([0-9a-f]{1,12})-([0-9]{1,2})-([0-9a-f]{24})"')

ANY = "*"


def tags_in(text: str) -> tuple[str, ...]:
    """The tags of If-None-Match, without their weakness; (ANY,) for any. A malformed value has
    none, and so the whole answer is sent."""
    text = text.strip(" \t")
    if text == ANY:
        return (ANY,)
    if len(text) > _MOST_TEXT or not _LIST.fullmatch(text):
        return ()
    return tuple(tag.removeprefix("W/") for tag in re.findall(_TAG, text))


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """Who asks what."""

    caller: str
    path: str
    query: Mapping[str, Sequence[str]]
    tags: tuple[str, ...]
    """The tags of the answers that the caller has."""


class Tags:
    """Answers questions, with 304 where the caller has the answer already."""

    def __init__(self, version: Callable[[], tuple[QueueVersion, int]]) -> None:
        """`version` reads the queue's version, and gives the time (ms)."""
        self._version = version

    def answer(self, question: Question, compute: Callable[[], Response]) -> Response:
        version, now = self._version()  # First: it is never newer than the answer.
        busy = now < version.busy_until
        known = [found for tag in question.tags if (found := _OWN.fullmatch(tag))]
        same = [found for found in known if found[0] == _tag(question, version, *_parts(found))]
        for tag in same:
            issued, life = _parts(tag)
            if -SHORTEST < now // 1000 - issued < life and (life <= SHORTEST or not busy):
                return _with_headers(Response(status=HTTPStatus.NOT_MODIFIED, body=""), tag[0])
        response = compute()
        if response.status != HTTPStatus.OK:
            return response
        life = LONGEST if same and not busy else SHORTEST
        life = min(life, WITH_REPORTS) if response.has_reports else life
        if ANY in question.tags:
            response = Response(status=HTTPStatus.NOT_MODIFIED, body="")
        return _with_headers(response, _tag(question, version, now // 1000, life))


def _parts(own: re.Match[str]) -> tuple[int, int]:
    return int(own[1], 16), int(own[2])


def _tag(question: Question, version: QueueVersion, issued: int, life: int) -> str:
    """The tag issued at a moment (s) for so long (s)."""
    query = sorted((name, list(values)) for name, values in question.query.items())
    meant = [__version__, question.caller, question.path, query, version.text, issued, life]
    digest = hashlib.sha256(json.dumps(meant).encode()).hexdigest()[:24]
    return f'"{issued:x}-{life}-{digest}"'


def _with_headers(response: Response, tag: str) -> Response:
    """The tag is weak: the gateway compresses answers, and two with one tag may differ in what time
    alone has changed."""
    response.headers |= {
        "ETag": f"W/{tag}",
        "Cache-Control": "private, no-cache",
        "Vary": "Authorization, Accept-Encoding",
    }
    return response

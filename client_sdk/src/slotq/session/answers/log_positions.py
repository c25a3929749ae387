"""What a reader of a job's log asks for, where the reader is, and the page that answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slotq.errors import InvalidRequest
from slotq.jobs.job_logs import LogSource
from slotq.session.hooks import Answer

NODE, OWN, NOTICE = "node", "own", "notice"
"""The parts of an attempt, last first: the lines in its node's stream, those in its own stream, and
the notice that begins it."""
PART_BEFORE = {NODE: OWN, OWN: NOTICE}


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamPosition:
    """A reader's position in a virtual stream."""

    attempt: int = 1
    """Number of the attempt being read, from 1."""
    token: str = ""
    """CloudWatch's token in the stream of that attempt."""
    node_token: str = ""
    """The same in the stream of the attempt's node."""
    said: int = 0
    """Checksum of the last status that the stream reported."""
    evictions: int = 0
    """Number of evictions reported so far."""
    back: str = ""
    """The part of the attempt in which the reader goes back; empty: the reader goes forward."""

    def written(self) -> str:
        return base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def read(cls, token: str) -> StreamPosition:
        """Parse a token from `written`. Raises InvalidRequest."""
        try:
            return cls(**json.loads(base64.urlsafe_b64decode(token.encode())))
        except (ValueError, TypeError):
            raise InvalidRequest("The specified nextToken is invalid.", field="nextToken") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPage:
    """Events, and the positions before and behind them. No events: no more are there now."""

    events: list[Mapping[str, Any]]
    before: StreamPosition
    behind: StreamPosition

    def answer(self) -> Answer:
        return {
            "events": self.events,
            "nextForwardToken": self.behind.written(),
            "nextBackwardToken": self.before.written(),
        }


class LogQuery:
    """What a call of GetLogEvents asks for, besides the stream. Raises InvalidRequest."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        token = str(params.get("nextToken") or "")
        self.at = StreamPosition.read(token) if token else None
        self.from_head = bool(params.get("startFromHead"))
        self.start, self.end = params.get("startTime"), params.get("endTime")
        self._passed = {key: params[key] for key in ("limit", "unmask") if key in params}

    @property
    def by_time(self) -> bool:
        """Whether the reader asks for a time. Such a reader may go on by the time of the last event
        without a token, and must find the same events again. So reports of the status, which
        change, are left out."""
        return self.start is not None or self.end is not None

    def includes(self, moment: int) -> bool:
        return (self.start or 0) <= moment and (self.end is None or moment < self.end)

    def at_aws(self, source: LogSource) -> dict[str, Any]:
        """The parameters of the same question about one of CloudWatch's streams."""
        asked = self._passed | source.place
        starts = [start for start in (self.start, source.since) if start is not None]
        asked |= {"startTime": max(starts)} if starts else {}
        return asked if self.end is None else asked | {"endTime": self.end}

"""The logs of a job over all its attempts, as CloudWatch's own calls read them.

Each attempt has its own log streams, named after its training job. For a job of the queue,
DescribeLogStreams shows virtual streams instead, one for each host: `<job>/algo-1-slotq`. A virtual
stream gives the lines of the first attempt, then those of the next. Between the attempts, the
stream of the first host also reports the job's status: the place in the line and the reason, the
cause of an eviction, the outcome. The lines of an attempt that its node printed follow its own.

Nothing is stored here: the token of each page holds the reader's position.
"""

from __future__ import annotations

import base64
import json
import re
import time
import zlib
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from slotq.errors import InvalidRequest, NoSuchJob
from slotq.jobs.follow import ending, news_since, status_line
from slotq.jobs.job_logs import LogSource, in_stream_of_node, may_be_on_node
from slotq.jobs.notices import Output
from slotq.session.hooks import Answer, Context, Params, TakenCall, untouched
from slotq.session.training_calls import TrainingCalls
from slotq_core.names import LOG_GROUP
from slotq_core.timestamps import from_iso
from slotq_core.wire.views.jobs import AttemptView, JobView

listener: ContextVar[Callable[[str], object] | None] = ContextVar("slotq_log_lines", default=None)
"""Receives each line that a reader in this thread gets; None: no receiver."""
_OURS = "slotq: "
"""The prefix of the lines that report a job's status."""
_FIRST = "algo-1"
"""The host whose stream reports the job's status."""
_STREAM = re.compile(r"(?P<job>[^/]+)/(?P<host>algo-[0-9]+)-slotq")


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

    def written(self) -> str:
        return base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def read(cls, token: str) -> StreamPosition:
        """Parse a token from `written`. Raises InvalidRequest."""
        try:
            return cls(**json.loads(base64.urlsafe_b64decode(token.encode())))
        except (ValueError, TypeError):
            raise InvalidRequest("The specified nextToken is invalid.", field="nextToken") from None


class VirtualLogs:
    """`client` returns boto3's client for `logs`; called when first needed."""

    def __init__(
        self,
        jobs: TrainingCalls,
        client: Callable[[], Any],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._jobs, self._client, self._clock = jobs, client, clock
        self._streams: dict[tuple[str, str], str] = {}

    def calls(self) -> tuple[TakenCall, ...]:
        return (
            TakenCall(operation="logs.DescribeLogStreams", before=self._list),
            TakenCall(operation="logs.GetLogEvents", before=self._read),
        )

    def _list(self, params: Params, _: Context) -> Callable[[], Answer] | None:
        prefix = str(params.get("logStreamNamePrefix") or "")
        if params.get("logGroupName") != LOG_GROUP or "/" not in prefix:
            return None
        job = self._jobs.known(prefix.partition("/")[0])
        if job is None:
            return None
        created = from_iso(job.entry_time)
        streams = [f"{job.name}/algo-{n}-slotq" for n in range(1, job.demand["slots"] + 1)]
        answer = {
            "logStreams": [
                {"logStreamName": name, "creationTime": created}
                for name in streams
                if name.startswith(prefix)
            ]
        }
        return lambda: answer

    def _read(self, params: Params, _: Context) -> Callable[[], Answer] | None:
        stream = _STREAM.fullmatch(str(params.get("logStreamName") or ""))
        if stream is None or params.get("logGroupName") != LOG_GROUP:
            return None
        token = str(params.get("nextToken") or "")
        return partial(self._page, stream["job"], stream["host"], token)

    def _page(self, name: str, host: str, token: str) -> Answer:
        """The page after `token`. The job's lines come before a report of its status."""
        at = StreamPosition.read(token) if token else StreamPosition()
        job = self._jobs.known(name)
        if job is None:
            raise NoSuchJob(f"the queue has no job '{name}'", field="logStreamName")
        events, at = self._lines(job, host, at)
        if not events and host == _FIRST:
            events, at = self._status_line(job, at)
        if (hear := listener.get()) is not None:
            label = f"[{host}] " if job.demand["slots"] > 1 else ""
            for event in events:
                hear(_line(event["message"].rstrip("\n"), label))
        written = at.written()
        return {"events": events, "nextForwardToken": written, "nextBackwardToken": written}

    def _lines(
        self, job: JobView, host: str, at: StreamPosition
    ) -> tuple[list[Mapping[str, Any]], StreamPosition]:
        """The next lines of the current attempt, or, once it has no more, of the next one."""
        attempts = {attempt.number: attempt for attempt in job.attempts}
        while (attempt := attempts.get(at.attempt)) is not None:
            before = at
            events, at = self._real_page(attempt, host, at)
            if events:
                return events, at
            if at != before:
                continue
            if at.attempt + 1 not in attempts:
                break
            at = replace(at, attempt=at.attempt + 1, token="", node_token="")  # pages' # nosec B106
            evictions = sum(
                earlier.outcome == "evicted" for earlier in job.attempts[: at.attempt - 1]
            )
            if host == _FIRST and evictions > at.evictions:
                line = f"attempt {attempt.number} was {ending(attempt)}"
                return [self._event(job, line)], replace(at, evictions=evictions)
        return [], at

    def _real_page(
        self, attempt: AttemptView, host: str, at: StreamPosition
    ) -> tuple[list[Mapping[str, Any]], StreamPosition]:
        """The next lines of the attempt, from its own stream, then from its node's."""
        if attempt.running_since is None:
            return [], at
        with untouched():
            try:
                stream = self._real_stream(attempt.training_job, host)
                if stream is not None:
                    page = self._read_page(LogSource(stream=stream), at.token)
                    if page["events"] or page["nextForwardToken"] != at.token:
                        return page["events"], replace(at, token=page["nextForwardToken"])
                if host == _FIRST and may_be_on_node(attempt, has_stream=stream is not None):
                    return self._page_on_node(attempt, at)
            except ClientError as error:
                if error.response["Error"]["Code"] != "ResourceNotFoundException":
                    raise
        return [], at

    def _page_on_node(
        self, attempt: AttemptView, at: StreamPosition
    ) -> tuple[list[Mapping[str, Any]], StreamPosition]:
        stream = self._real_stream(attempt.node_training_job, host=_FIRST)
        if stream is None:
            return [], at
        source = in_stream_of_node(stream, attempt)
        page = self._read_page(source, at.node_token)
        events = source.events(page)
        if not events and source.is_past(page):
            return [], at
        return [*events], replace(at, node_token=page["nextForwardToken"])

    def _read_page(self, source: LogSource, token: str) -> Mapping[str, Any]:
        where = {"nextToken": token} if token else {}
        page: Mapping[str, Any] = self._client().get_log_events(
            **source.place, startFromHead=True, **where
        )
        return page

    def _real_stream(self, training_job: str, host: str) -> str | None:
        key = training_job, host
        if key not in self._streams:
            found = self._client().describe_log_streams(
                logGroupName=LOG_GROUP, logStreamNamePrefix=f"{training_job}/{host}-"
            )["logStreams"]
            if not found:
                return None
            self._streams[key] = found[0]["logStreamName"]
        return self._streams[key]

    def _status_line(
        self, job: JobView, at: StreamPosition
    ) -> tuple[list[Mapping[str, Any]], StreamPosition]:
        now = zlib.crc32(status_line(job).encode())
        if now == at.said:
            return [], at
        event = self._event(job, news_since(at.evictions, job))
        return [event], replace(at, said=now, evictions=job.evictions)

    def _event(self, job: JobView, line: str) -> Mapping[str, Any]:
        moment = int(1000 * self._clock())
        message = f"{_OURS}{job.name}: {line}"
        return {"timestamp": moment, "ingestionTime": moment, "message": message}


def _line(message: str, label: str) -> str:
    return message if message.startswith(_OURS) else Output(f"{label}{message}")

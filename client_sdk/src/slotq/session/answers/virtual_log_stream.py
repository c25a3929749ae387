"""The log of one host of a job over all its attempts, read as one stream.

Each attempt has its own log streams, named after its training job. The virtual stream gives the
lines of the first attempt, then those of the next. Between the attempts, the stream of the first
host also reports the job's status: the place in the line and the reason, the cause of an eviction,
the outcome. The lines of an attempt that its node printed follow its own.

Readers go on in one of two ways. A token holds the reader's position; nothing is stored here. Other
readers ask again from the time of the last event, and skip what they know. They find the same
events each time: the lines, and a notice of each eviction.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from slotq.jobs.follow import ending, news_since, status_line
from slotq.jobs.job_logs import LogSource, in_stream_of_node, may_be_on_node
from slotq.session.answers.log_positions import (
    NODE,
    NOTICE,
    OWN,
    PART_BEFORE,
    LogPage,
    LogQuery,
    StreamPosition,
)
from slotq_core.names import log_place
from slotq_core.timestamps import from_iso
from slotq_core.wire.views.jobs import AttemptView, JobView

STATUS = "slotq: "
"""The prefix of the lines that report a job's status."""
_FIRST = "algo-1"
"""The host whose stream reports the job's status."""
_HOST = re.compile("algo-[0-9]+")
Events = list[Mapping[str, Any]]


class RealStreams:
    """CloudWatch's streams of training jobs. `client` returns boto3's client for `logs`."""

    def __init__(self, client: Callable[[], Any]) -> None:
        self._client = client
        self._names: dict[tuple[str, str], str] = {}

    def source(self, attempt: AttemptView, host: str, part: str) -> LogSource | None:
        """Where CloudWatch has the lines of one part of the attempt, if it has any."""
        if attempt.running_since is None:
            return None
        own = self._name(attempt.training_job, host)
        if part == OWN:
            group, _ = log_place(attempt.training_job)
            return None if own is None else LogSource(stream=own, group=group)
        if host != _FIRST or not may_be_on_node(attempt, has_stream=own is not None):
            return None
        stream = self._name(attempt.node_training_job, host=_FIRST)
        return None if stream is None else in_stream_of_node(stream, attempt)

    def page(
        self, source: LogSource, query: LogQuery, token: str, *, from_head: bool
    ) -> Mapping[str, Any]:
        where = {"nextToken": token} if token else {}
        found: Mapping[str, Any] = self._client().get_log_events(
            **query.at_aws(source), startFromHead=from_head, **where
        )
        return found

    def beginning_with(self, job: JobView, hosts: Iterable[str]) -> list[str]:
        """The names of the attempts' streams whose hosts begin so; a host's whole name is that host
        alone."""
        return [
            stream
            for attempt in job.attempts
            for host in sorted(hosts)
            for stream in self._found(
                attempt.training_job, f"{host}{'-' if _HOST.fullmatch(host) else ''}"
            )
        ]

    def _name(self, training_job: str, host: str) -> str | None:
        key = training_job, host
        if key not in self._names:
            found = next(iter(self._found(training_job, f"{host}-")), None)
            if found is None:
                return None
            self._names[key] = found
        return self._names[key]

    def _found(self, training_job: str, host: str) -> Iterator[str]:
        group, prefix = log_place(training_job)
        asked = {"logGroupName": group, "logStreamNamePrefix": f"{prefix}{host}"}
        try:
            while True:
                page = self._client().describe_log_streams(**asked)
                yield from (stream["logStreamName"] for stream in page["logStreams"])
                if not page.get("nextToken"):
                    return
                asked["nextToken"] = page["nextToken"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise


class VirtualStream:
    """What one call reads of the log of a job's host. `now`: the time (ms) of a status report."""

    def __init__(
        self, job: JobView, host: str, query: LogQuery, *, streams: RealStreams, now: int
    ) -> None:
        self._job, self._host, self._query = job, host, query
        self._streams, self._now = streams, now
        self._attempts = {attempt.number: attempt for attempt in job.attempts}

    def page(self) -> LogPage:
        """The page that the call asks for."""
        at = self._query.at
        if at is not None:
            return self._before(at) if at.back else self._behind(at)
        return self._behind(StreamPosition()) if self._query.from_head else self._last()

    def _behind(self, at: StreamPosition) -> LogPage:
        """The next lines of the current attempt, or, once it has no more, of the next one. Lines
        come before a report of the job's status."""
        while (attempt := self._attempts.get(at.attempt)) is not None:
            page = self._next_page(attempt, at)
            if page.events:
                return page
            if page.behind != at:
                at = page.behind
                continue
            if at.attempt + 1 not in self._attempts:
                break
            at = replace(at, attempt=at.attempt + 1, token="", node_token="")  # pages' # nosec B106
            evictions = self._evictions_before(at.attempt)
            notice = self._notice(at.attempt) if evictions > at.evictions else []
            if notice:
                before = StreamPosition(attempt=at.attempt - 1, back=NODE)
                behind = replace(at, evictions=evictions)
                return LogPage(events=notice, before=before, behind=behind)
        events, behind = self._status(at)
        before = StreamPosition(attempt=at.attempt, back=NODE)
        return LogPage(events=events, before=before, behind=behind)

    def _next_page(self, attempt: AttemptView, at: StreamPosition) -> LogPage:
        """The next lines of the attempt, from its own stream, then from its node's."""
        for part, key in ((OWN, "token"), (NODE, "node_token")):
            source = self._streams.source(attempt, self._host, part)
            if source is None:
                continue
            token = getattr(at, key)
            page = self._streams.page(source, self._query, token, from_head=True)
            events, forward = source.events(page), page["nextForwardToken"]
            is_past = part == NODE and not events and source.is_past(page)
            if not is_past and (events or forward != token):
                back = page["nextBackwardToken"]
                return LogPage(
                    events=[*events],
                    before=StreamPosition(attempt=attempt.number, back=part, token=back),
                    behind=replace(at, **{key: forward}),
                )
        before = StreamPosition(attempt=attempt.number, back=NODE)
        return LogPage(events=[], before=before, behind=at)

    def _last(self) -> LogPage:
        """The last lines; where there are none, the report of the job's status."""
        last = len(self._job.attempts)
        if not last:
            return self._behind(StreamPosition())
        page = self._before(StreamPosition(attempt=last, back=NODE))
        behind = StreamPosition(
            attempt=last,
            token=self._end(last, OWN),
            node_token=self._end(last, NODE),
            evictions=self._evictions_before(last),
        )
        if not page.events:
            events, behind = self._status(behind)
            page = replace(page, events=events)
        return replace(page, behind=behind)

    def _before(self, at: StreamPosition) -> LogPage:
        """The lines before a position, back through the attempts."""
        while (attempt := self._attempts.get(at.attempt)) is not None:
            if at.back == NOTICE:
                notice, number = self._notice(at.attempt), at.attempt
                at = StreamPosition(attempt=number - 1, back=NODE)
                if notice:
                    behind = StreamPosition(
                        attempt=number, evictions=self._evictions_before(number)
                    )
                    return LogPage(events=notice, before=at, behind=behind)
                continue
            source = self._streams.source(attempt, self._host, at.back)
            if source is not None:
                page = self._streams.page(source, self._query, at.token, from_head=False)
                before = replace(at, token=page["nextBackwardToken"])
                if events := source.events(page):
                    behind = self._behind_part(at, page["nextForwardToken"])
                    return LogPage(events=[*events], before=before, behind=behind)
                if before != at:
                    at = before
                    continue
            at = replace(at, back=PART_BEFORE[at.back], token="")  # a page's # nosec B106
        begin = StreamPosition(attempt=0, back=NODE)
        return LogPage(events=[], before=begin, behind=StreamPosition())

    def _behind_part(self, at: StreamPosition, forward: str) -> StreamPosition:
        """The position behind a page of the part that `at` names."""
        behind = StreamPosition(attempt=at.attempt, evictions=self._evictions_before(at.attempt))
        if at.back == OWN:
            return replace(behind, token=forward)
        return replace(behind, token=self._end(at.attempt, OWN), node_token=forward)

    def _end(self, number: int, part: str) -> str:
        """CloudWatch's token at the end of one part of an attempt; empty: it has no such part."""
        source = self._streams.source(self._attempts[number], self._host, part)
        if source is None:
            return ""
        page = self._streams.page(source, self._query, "", from_head=False)
        return str(page["nextForwardToken"])

    def _evictions_before(self, number: int) -> int:
        return sum(attempt.outcome == "evicted" for attempt in self._job.attempts[: number - 1])

    def _notice(self, number: int) -> Events:
        """What stands between an attempt that was evicted and the one of this number. The moment is
        that of the later one's admission: after all lines of the one before, and the same in each
        answer."""
        last, moment = self._attempts.get(number - 1), from_iso(self._attempts[number].admitted_at)
        if self._host != _FIRST or last is None or last.outcome != "evicted":
            return []
        if not self._query.includes(moment):
            return []
        return [self._event(f"attempt {last.number} was {ending(last)}", moment)]

    def _status(self, at: StreamPosition) -> tuple[Events, StreamPosition]:
        """The report of the job's status, if it has changed since the last one."""
        now = zlib.crc32(status_line(self._job).encode())
        if self._host != _FIRST or self._query.by_time or now == at.said:
            return [], at
        event = self._event(news_since(at.evictions, self._job), self._now)
        return [event], replace(at, said=now, evictions=self._job.evictions)

    def _event(self, line: str, moment: int) -> Mapping[str, Any]:
        message = f"{STATUS}{self._job.name}: {line}"
        return {"timestamp": moment, "ingestionTime": moment, "message": message}

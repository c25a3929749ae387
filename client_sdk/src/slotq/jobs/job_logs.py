"""The log lines of a job's training jobs, one attempt after the other, and the last ones of a job
that has failed: its message is often only an exit code.

A node that does not reach CloudWatch Logs prints the lines of its jobs itself. They are then in the
log stream of the node's own training job, each after the name of its attempt in brackets.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq.errors import SlotQError
from slotq.jobs.follow import ended_by_time_box
from slotq.jobs.notices import Output, Trouble, one_line
from slotq_core.model.attempts import AttemptOutcome
from slotq_core.model.jobs import JobState
from slotq_core.names import LOG_GROUP, log_place
from slotq_core.timestamps import from_iso

if TYPE_CHECKING:
    from slotq_core.wire.views.jobs import AttemptView, JobView

RIGHTS = "You need logs:DescribeLogStreams and logs:GetLogEvents on /aws/sagemaker/TrainingJobs."
"""What to say to a user who cannot read logs."""

LAST_LINES = 10
"""The most lines of one instance that are shown of a failed job."""
_INSTANCES = 4
"""The most instances whose last lines are read: one request each."""
LONGEST_SHOWN = 500
"""Characters of one of these lines. CloudWatch takes lines of 256 kB and more."""

LATE_READS = 3
"""How often to read the logs after their attempt has ended: the last lines arrive late."""
_LATE = 300_000
"""How long (ms) after an attempt's end its node may still print lines of it."""
_NODE_PAGES = 20
"""The most pages of a node's stream that are searched for an attempt's last lines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSource:
    """A stream of the log group, or the lines of one attempt in the stream of its node."""

    stream: str
    group: str = LOG_GROUP
    mark: str = ""
    """What begins the attempt's lines in the stream of a node; empty: a stream of its own."""
    since: int | None = None
    until: int | None = None
    """When the first of these lines may be, and the last (ms); None: not known."""

    @property
    def place(self) -> dict[str, Any]:
        """Where GetLogEvents reads."""
        place: dict[str, Any] = {"logGroupName": self.group, "logStreamName": self.stream}
        return place if self.since is None else {**place, "startTime": self.since}

    def events(self, page: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The attempt's events of a page, without the mark."""
        return [
            {**event, "message": event["message"].removeprefix(self.mark)}
            for event in page["events"]
            if event["message"].startswith(self.mark)
        ]

    def is_past(self, page: Mapping[str, Any]) -> bool:
        """Whether the pages after this one have no lines of the attempt."""
        return self.until is not None and any(
            event["timestamp"] > self.until for event in page["events"]
        )


def source_on_node(client: Any, attempt: AttemptView) -> LogSource | None:
    """The attempt's lines in its node's stream. None: no node, or no stream.

    Raises ClientError, BotoCoreError.
    """
    if not attempt.node_training_job:
        return None
    stream = next(_streams(client, attempt.node_training_job), None)
    return None if stream is None else in_stream_of_node(stream, attempt)


def in_stream_of_node(stream: str, attempt: AttemptView) -> LogSource:
    """The attempt's lines in this stream of its node."""
    return LogSource(
        stream=stream,
        mark=f"[{attempt.training_job}] ",
        since=from_iso(attempt.admitted_at),
        until=None if attempt.ended_at is None else from_iso(attempt.ended_at) + _LATE,
    )


def may_be_on_node(attempt: AttemptView, *, has_stream: bool) -> bool:
    """Whether to look for lines in the stream of the attempt's node: where the attempt has no
    stream of its own, and once more at its end, because a node may lose its way to CloudWatch Logs
    in between."""
    return bool(attempt.node_training_job) and not (has_stream and attempt.ended_at is None)


class LogTail:
    """Prints each new log line once, across attempts.

    `client` is boto3's client for `logs`. If the logs cannot be read, LogTail reports that once and
    tries again at the next look, from the same line; waiting for the job goes on.
    """

    def __init__(
        self,
        client: Any,
        *,
        say: Callable[[str], None],
        line: Callable[[str, str], None] | None = None,
        last: int | None = None,
    ) -> None:
        """`line` receives the training job and one of its log lines; without it, `say` does.

        `last`: begin with at most so many lines at the end of each stream, 10,000 at most; None:
        with the first line.
        """
        self._client = client
        self._say = say
        self._line = line or (lambda _, text: say(Output(text)))
        self._last = last
        self.skipped = False
        """Whether lines before the `last` may be missing."""
        self._tokens: dict[tuple[str, str, str], str] = {}
        """By log group, stream and attempt."""
        self._nodes: dict[str, str] = {}
        """The streams of nodes, by their training jobs."""
        self._read_after_end: Counter[int] = Counter()
        self.trouble: Exception | None = None
        """Why the last look failed: a missing right, or a service that does not answer."""
        self._said = ""

    def show(self, job: JobView) -> None:
        """Print the new lines of every attempt that has run and is not read to its end."""
        self.trouble = None
        for attempt in job.attempts:
            if attempt.running_since is None or self._read_after_end[attempt.number] >= LATE_READS:
                continue
            self._print(attempt)
            if self.trouble is not None:
                return  # The lines of later attempts come after these.
            if attempt.ended_at is not None:
                self._read_after_end[attempt.number] += 1

    def _print(self, attempt: AttemptView) -> None:
        try:
            for line in self._lines_of(attempt):
                self._line(attempt.training_job, line)
        except (ClientError, BotoCoreError) as error:
            if _not_there_yet(error):
                return
            self.trouble = error
            if str(error) != self._said:
                self._said = str(error)
                self._say(Trouble(f"the logs cannot be read (the job goes on): {error}"))

    def _lines_of(self, attempt: AttemptView) -> Iterator[str]:
        has_stream = yield from self.new_lines(attempt.training_job)
        if may_be_on_node(attempt, has_stream=has_stream):
            stream = self._stream_of_node(attempt.node_training_job)
            if stream is not None:
                yield from self._events(in_stream_of_node(stream, attempt))

    def new_lines(self, training_job: str) -> Generator[str, None, bool]:
        """The lines written since the last call; with several hosts, each line names its host.
        Returns whether the training job has a stream.

        Raises ClientError, BotoCoreError.
        """
        streams = list(_streams(self._client, training_job))
        for stream in streams:
            label = f"[{host_of(stream)}] " if len(streams) > 1 else ""
            source = LogSource(stream=stream, group=log_place(training_job)[0])
            for message in self._events(source):
                yield label + message
        return bool(streams)

    def _stream_of_node(self, training_job: str) -> str | None:
        if training_job not in self._nodes:
            stream = next(_streams(self._client, training_job), None)
            if stream is None:
                return None
            self._nodes[training_job] = stream
        return self._nodes[training_job]

    def _events(self, source: LogSource) -> Iterator[str]:
        key = source.group, source.stream, source.mark
        if self._last is not None and key not in self._tokens:
            lines, self._tokens[key] = _end_of(self._client, source, self._last)
            self.skipped |= len(lines) == self._last
            yield from lines
        token = self._tokens.get(key)
        while True:  # A page may be empty though more follow: only the same token is the end.
            where = {} if token is None else {"nextToken": token}
            page = self._client.get_log_events(**source.place, startFromHead=True, **where)
            for event in source.events(page):
                yield event["message"].rstrip("\n")
            before, token = token, page["nextForwardToken"]
            self._tokens[key] = token
            if token == before or source.is_past(page):
                return


def _streams(client: Any, training_job: str) -> Iterator[str]:
    group, prefix = log_place(training_job)
    pages = client.get_paginator("describe_log_streams").paginate(
        logGroupName=group, logStreamNamePrefix=prefix
    )
    for page in pages:
        for stream in page["logStreams"]:
            yield stream["logStreamName"]


def _end_of(client: Any, source: LogSource, limit: int) -> tuple[list[str], str]:
    """The last lines of a source, and the token to go on behind them with."""
    asked = {**source.place, "startFromHead": False, "limit": 10_000 if source.mark else limit}
    if source.until is not None:
        asked["endTime"] = source.until
    wanted, pages = (limit, _NODE_PAGES) if source.mark else (1, sys.maxsize)
    page = client.get_log_events(**asked)
    behind: str = page["nextForwardToken"]
    events = source.events(page)
    before = None  # A page may be empty though there are lines: only the same token is the end.
    while len(events) < wanted and page["nextBackwardToken"] != before and pages > 1:
        before, pages = page["nextBackwardToken"], pages - 1
        page = client.get_log_events(**asked, nextToken=before)
        events = source.events(page) + events
    return [event["message"].rstrip("\n") for event in events[-limit:]], behind


def failure_log(logs: Callable[[], Any], job: JobView) -> list[str]:
    """The last log lines of a failed job's last attempt, and the place of the rest; empty if no
    script has failed.

    `logs` returns boto3's client for `logs`. If the logs cannot be read, returns only the place:
    the job's failure matters more.
    """
    last = job.attempts[-1] if job.attempts else None
    failed = job.state == JobState.FAILED and not ended_by_time_box(job)
    if not failed or last is None or last.running_since is None:
        return []
    if last.outcome != AttemptOutcome.FAILED:
        return []
    try:
        lines = [*_last_lines(logs(), last)]
    except (ClientError, BotoCoreError, SlotQError):
        lines = []
    if not lines:
        return [f"  log: `slotq logs {job.name}`"]
    return [f"  last lines of its log (`slotq logs {job.name}` prints it whole):", *lines]


def _last_lines(client: Any, attempt: AttemptView) -> Iterator[str]:
    group, _ = log_place(attempt.training_job)
    found_streams = islice(_streams(client, attempt.training_job), _INSTANCES)
    streams = [LogSource(stream=stream, group=group) for stream in found_streams]
    if (node := source_on_node(client, attempt)) is not None:
        found = {"": [*streams, node]}
    elif len(streams) > 1:
        found = {f"[{host_of(source.stream)}] ": [source] for source in streams}
    else:
        found = {"": streams}
    for label, sources in found.items():
        lines = [line for source in sources for line in _end_of(client, source, LAST_LINES)[0]]
        for line in lines[-LAST_LINES:]:
            shown = one_line(line[:LONGEST_SHOWN])
            yield f"    {label}{shown}{'…' if len(line) > LONGEST_SHOWN else ''}"


def host_of(stream: str) -> str:
    """The host in a stream's name: `algo-2` of `<training job>/algo-2-1700000000`."""
    return "-".join(stream.rsplit("/", 1)[-1].split("-")[:2])


def _not_there_yet(error: Exception) -> bool:
    return (
        isinstance(error, ClientError)
        and error.response["Error"]["Code"] == "ResourceNotFoundException"
    )

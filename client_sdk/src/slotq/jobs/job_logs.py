"""The log lines of a job's training jobs, one attempt after the other, and the last ones of a job
that has failed: its message is often only an exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq.errors import SlotQError
from slotq.jobs.follow import ended_by_time_box
from slotq.jobs.notices import Output, Trouble, one_line
from slotq_core.model.attempts import AttemptOutcome
from slotq_core.model.jobs import JobState
from slotq_core.names import LOG_GROUP

if TYPE_CHECKING:
    from slotq_core.wire.views.jobs import JobView

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
        self._tokens: dict[str, str] = {}
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
            self._print(attempt.training_job)
            if self.trouble is not None:
                return  # The lines of later attempts come after these.
            if attempt.ended_at is not None:
                self._read_after_end[attempt.number] += 1

    def _print(self, training_job: str) -> None:
        try:
            for line in self.new_lines(training_job):
                self._line(training_job, line)
        except (ClientError, BotoCoreError) as error:
            if _not_there_yet(error):
                return
            self.trouble = error
            if str(error) != self._said:
                self._said = str(error)
                self._say(Trouble(f"the logs cannot be read (the job goes on): {error}"))

    def new_lines(self, training_job: str) -> Iterator[str]:
        """The lines written since the last call; with several hosts, each line names its host.

        Raises ClientError, BotoCoreError.
        """
        streams = list(self._streams(training_job))
        for stream in streams:
            label = f"[{host_of(stream)}] " if len(streams) > 1 else ""
            for message in self._events(stream):
                yield label + message

    def _streams(self, training_job: str) -> Iterator[str]:
        pages = self._client.get_paginator("describe_log_streams").paginate(
            logGroupName=LOG_GROUP, logStreamNamePrefix=f"{training_job}/"
        )
        for page in pages:
            for stream in page["logStreams"]:
                yield stream["logStreamName"]

    def _events(self, stream: str) -> Iterator[str]:
        if self._last is not None and stream not in self._tokens:
            lines, self._tokens[stream] = _end_of(self._client, stream, self._last)
            self.skipped |= len(lines) == self._last
            yield from lines
        token = self._tokens.get(stream)
        while True:  # A page may be empty though more follow: only the same token is the end.
            where = {} if token is None else {"nextToken": token}
            page = self._client.get_log_events(
                logGroupName=LOG_GROUP, logStreamName=stream, startFromHead=True, **where
            )
            for event in page["events"]:
                yield event["message"].rstrip("\n")
            before, token = token, page["nextForwardToken"]
            self._tokens[stream] = token
            if token == before:
                return


def _end_of(client: Any, stream: str, limit: int) -> tuple[list[str], str]:
    """The last lines of a stream, and the token to go on behind them with."""
    asked = {
        "logGroupName": LOG_GROUP,
        "logStreamName": stream,
        "startFromHead": False,
        "limit": limit,
    }
    page = client.get_log_events(**asked)
    behind: str = page["nextForwardToken"]
    before = None  # A page may be empty though there are lines: only the same token is the end.
    while not page["events"] and page["nextBackwardToken"] != before:
        before = page["nextBackwardToken"]
        page = client.get_log_events(**asked, nextToken=before)
    return [event["message"].rstrip("\n") for event in page["events"]], behind


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
        lines = [*_last_lines(logs(), last.training_job)]
    except (ClientError, BotoCoreError, SlotQError):
        lines = []
    if not lines:
        return [f"  log: `slotq logs {job.name}`"]
    return [f"  last lines of its log (`slotq logs {job.name}` prints it whole):", *lines]


def _last_lines(client: Any, training_job: str) -> Iterator[str]:
    pages = client.get_paginator("describe_log_streams").paginate(
        logGroupName=LOG_GROUP, logStreamNamePrefix=f"{training_job}/"
    )
    first: dict[str, Any] = next(iter(pages), {})
    streams = [stream["logStreamName"] for stream in first.get("logStreams", [])]
    for stream in streams[:_INSTANCES]:
        label = f"[{host_of(stream)}] " if len(streams) > 1 else ""
        lines, _ = _end_of(client, stream, LAST_LINES)
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

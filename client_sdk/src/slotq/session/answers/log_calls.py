"""CloudWatch's calls about the logs of training jobs, for the jobs of the queue.

DescribeLogStreams shows virtual streams, one for each host: `<job>/algo-1-slotq`. GetLogEvents
reads them (`virtual_log_stream`). FilterLogEvents is CloudWatch's own, over the streams of all
attempts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any

from slotq.errors import InvalidRequest, NoSuchJob
from slotq.jobs.notices import Output
from slotq.session.answers.log_positions import LogQuery
from slotq.session.answers.virtual_log_stream import STATUS, RealStreams, VirtualStream
from slotq.session.hooks import Answer, Context, Params, TakenCall, untouched
from slotq.session.training_calls import TrainingCalls
from slotq_core.model.capacity.work import WorkKind, bare, marked
from slotq_core.names import LOG_GROUPS
from slotq_core.timestamps import from_iso
from slotq_core.wire.views.jobs import JobView

listener: ContextVar[Callable[[str], object] | None] = ContextVar("slotq_log_lines", default=None)
"""Receives each line that a reader in this thread gets; None: no receiver."""
_STREAM = re.compile(r"(?P<job>[^/]+)/(?P<host>algo-[0-9]+)-slotq")
_STREAMS = 50
"""Log streams on a page of DescribeLogStreams: CloudWatch's default, and its most."""
_MOST_FILTERED = 100
"""The most log streams that FilterLogEvents takes."""
_FILTERED = "slotq_filtered"
"""In the context of a FilterLogEvents that is about a job of the queue."""


class LogCalls:
    """`client` returns boto3's client for `logs`; called when first needed."""

    def __init__(
        self,
        jobs: TrainingCalls,
        client: Callable[[], Any],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._jobs, self._streams, self._clock = jobs, RealStreams(client), clock

    def calls(self) -> tuple[TakenCall, ...]:
        return (
            TakenCall(operation="logs.DescribeLogStreams", before=self._list),
            TakenCall(operation="logs.GetLogEvents", before=self._read),
            TakenCall(operation="logs.FilterLogEvents", before=self._filter),
        )

    def _list(self, params: Params, _: Context) -> Callable[[], Answer] | None:
        job = self._job_of_prefix(params)
        return None if job is None else partial(_streams_of, job, dict(params))

    def _read(self, params: Params, _: Context) -> Callable[[], Answer] | None:
        stream = _STREAM.fullmatch(str(params.get("logStreamName") or ""))
        work = _work_in(params)
        if stream is None or work is None:
            return None
        return partial(self.page, marked(stream["job"], work), stream["host"], dict(params))

    def page(self, name: str, host: str, params: Mapping[str, Any]) -> Answer:
        """The answer of GetLogEvents. Raises NoSuchJob, InvalidRequest and ClientError."""
        query, now = LogQuery(params), int(1000 * self._clock())
        job = self._jobs.known(name)
        if job is None:
            raise NoSuchJob(f"the queue has no job '{name}'", field="logStreamName")
        with untouched():
            page = VirtualStream(job, host, query, streams=self._streams, now=now).page()
        if (hear := listener.get()) is not None:
            label = f"[{host}] " if job.demand["slots"] > 1 else ""
            for event in page.events:
                hear(_line(event["message"].rstrip("\n"), label))
        return page.answer()

    def _filter(self, params: Params, context: Context) -> Callable[[], Answer] | None:
        """Let CloudWatch filter the streams of all attempts; an empty answer where no attempt has
        one yet."""
        asked = [str(name) for name in params.get("logStreamNames") or ()]
        virtual = [stream for name in asked if (stream := _STREAM.fullmatch(name))]
        if virtual and (work := _work_in(params)):
            job = self._jobs.known(marked(virtual[0]["job"], work))
            hosts = {stream["host"] for stream in virtual}
        else:
            job = self._job_of_prefix(params)
            host = str(params.get("logStreamNamePrefix") or "").partition("/")[2]
            hosts = {host.removesuffix("-slotq")}
        if job is None:
            return None
        own = bare(job.name)
        if any(name.partition("/")[0] != own for name in asked) or len(virtual) < len(asked):
            return partial(_refuse_streams, f"name the virtual log streams of job {job.name} alone")
        with untouched():
            real = self._streams.beginning_with(job, hosts)
        if not real:
            return lambda: {"events": [], "searchedLogStreams": []}
        if len(real) > _MOST_FILTERED:
            return partial(
                _refuse_streams,
                f"job {job.name} has {len(real)} log streams, and FilterLogEvents takes "
                f"{_MOST_FILTERED}: name one host's, as {own}/algo-1-slotq",
            )
        params.pop("logStreamNamePrefix", None)
        params["logStreamNames"] = real
        context[_FILTERED] = job.name
        return None

    def _job_of_prefix(self, params: Mapping[str, Any]) -> JobView | None:
        """The job whose streams have the prefix that a call names."""
        name, slash, _ = str(params.get("logStreamNamePrefix") or "").partition("/")
        work = _work_in(params)
        return self._jobs.known(marked(name, work)) if slash and work else None


def _work_in(params: Mapping[str, Any]) -> WorkKind | None:
    """The kind of work whose log group a call names; None: another group."""
    return work_in(str(params.get("logGroupName") or params.get("logGroupIdentifier") or ""))


def work_in(group: str) -> WorkKind | None:
    """The kind of work of a log group, by its name or by its ARN; None: another group."""
    named = group.rpartition(":log-group:")[2].removesuffix(":*")
    return next((work for work, own in LOG_GROUPS.items() if own == named), None)


def _refuse_streams(message: str) -> Answer:
    raise InvalidRequest(message, field="logStreamNames")


def _streams_of(job: JobView, params: Mapping[str, Any]) -> Answer:
    """One page of the job's virtual streams, in the order of their names. Raises InvalidRequest."""
    if params.get("orderBy") == "LastEventTime":
        raise InvalidRequest(
            "Cannot order by LastEventTime with a logStreamNamePrefix.", field="orderBy"
        )
    token = str(params.get("nextToken") or "0")
    if not token.isdecimal():
        raise InvalidRequest("The specified nextToken is invalid.", field="nextToken")
    start, created = int(token), from_iso(job.entry_time)
    names = sorted(
        (f"{bare(job.name)}/algo-{n}-slotq" for n in range(1, job.demand["slots"] + 1)),
        reverse=bool(params.get("descending")),
    )
    chosen = [name for name in names if name.startswith(params["logStreamNamePrefix"])]
    end = start + int(params.get("limit") or _STREAMS)
    shown = [{"logStreamName": name, "creationTime": created} for name in chosen[start:end]]
    return {"logStreams": shown} | ({"nextToken": str(end)} if end < len(chosen) else {})


def _line(message: str, label: str) -> str:
    return message if message.startswith(STATUS) else Output(f"{label}{message}")

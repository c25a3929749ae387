"""ListTrainingJobs, over SageMaker's training jobs and the jobs of the queue.

SageMaker's pages are merged with the jobs that SageMaker cannot list: those that wait or have ended
without a training job, and those on nodes. A training job that bears the name of a job shows the
status of the job, as DescribeTrainingJob does. Training jobs of later attempts
(`<job>-qstamp-<n>-…`) show their own.

A page's token holds the place in SageMaker's pages and in the queue's jobs; nothing is stored here.
"""

from __future__ import annotations

import base64
import heapq
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from botocore.utils import parse_to_aware_datetime

from slotq.errors import InvalidRequest
from slotq.jobs.foreign_names import is_listed
from slotq.jobs.job_calls import JobCalls
from slotq.session.answers.describe import as_listed, summary
from slotq.session.hooks import Answer, Context, Params
from slotq_core.model.capacity.work import WorkKind, work_of
from slotq_core.model.jobs import TERMINAL_STATES, WAITING_STATES, JobState
from slotq_core.timestamps import to_datetime
from slotq_core.wire.views.jobs import JobView

_TOKEN = "slotq:"  # noqa: S105 - marks our own page tokens # nosec B105
_PAGE = 10
"""Rows per page: SageMaker's default."""
_ASKED = "slotq_listing"
MOST = 10_000
"""The most jobs of the queue that one page is made from."""
LIVING = tuple(state for state in JobState if state not in TERMINAL_STATES)
_UNSURE = frozenset({"Stopped", "Failed", "Stopping"})
"""The statuses of a job's first training job with which the job may have another status."""
_KEYS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "CreationTime": lambda row: round(row["CreationTime"].timestamp() * 1000),
    "Name": lambda row: row["TrainingJobName"],
    "Status": lambda row: row["TrainingJobStatus"],
}
_OF_TRAINING_JOBS = ("WarmPoolStatusEquals", "TrainingPlanArnEquals")
"""Filters that let no job through that SageMaker has no training job for."""

_ENDED_AS: Mapping[str, tuple[JobState, ...]] = {
    "Completed": (JobState.COMPLETED,),
    "Failed": (JobState.FAILED,),
    "Stopped": (JobState.FAILED, JobState.CANCELLED, JobState.STOPPED),
}
"""The states of the jobs that have ended with a status: one that reached its maximum runtime has
failed in the queue, and is Stopped."""
_MARGIN = 1000
"""Milliseconds around the times that a page's jobs are asked for by."""

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ListPosition:
    """Where the next page begins."""

    at_aws: str = ""
    """SageMaker's token of the page to read; empty: its first."""
    ended: bool = False
    """Whether SageMaker's pages are all shown."""
    last: str = ""
    """The name of the last training job shown of that page; empty: none."""
    after: tuple[Any, str] | None = None
    """The sort key and name of the last job of the queue shown; None: none."""
    reverse: bool | None = None
    """Whether SageMaker's pages are in descending order; None: not known yet."""

    def written(self) -> str:
        return _TOKEN + base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def read(cls, token: str) -> ListPosition:
        """Parse a token of ours or of SageMaker. Raises InvalidRequest."""
        if not token.startswith(_TOKEN):
            return cls(at_aws=token)
        try:
            position = cls(
                **json.loads(base64.urlsafe_b64decode(token.removeprefix(_TOKEN).encode()))
            )
            after = None if position.after is None else (position.after[0], position.after[1])
            return replace(position, after=after)
        except (ValueError, TypeError, LookupError):
            raise InvalidRequest("Invalid NextToken", field="NextToken") from None


class TrainingJobListing:
    """The answers to ListTrainingJobs. `known` returns the queue's job of a name, or None. `say`
    receives that a list is not whole."""

    def __init__(
        self,
        jobs: JobCalls,
        known: Callable[[str], JobView | None],
        *,
        forgotten: Callable[[str], bool],
        say: Callable[[str], object],
    ) -> None:
        self._jobs, self._known = jobs, known
        self._forgotten, self._say = forgotten, say

    def page(self, params: Params, context: Context) -> Callable[[], Answer] | None:
        """Let SageMaker answer with the next of its pages; once all are shown, answer here."""
        try:
            at = ListPosition.read(str(params.get("NextToken") or ""))
        except InvalidRequest as error:
            return _raising(error)
        asked = _Asked(params, at, region=str(context.get("client_region") or ""))
        if at.ended:
            return lambda: self._merged([], asked, more="")
        params.pop("NextToken", None)
        if at.at_aws:
            params["NextToken"] = at.at_aws
        context[_ASKED] = asked
        return None

    def amend(self, parsed: Answer, context: Context) -> None:
        """Merge SageMaker's page with the jobs of the queue."""
        asked: _Asked | None = context.get(_ASKED)
        if asked is None:
            return
        rows, more = parsed.get("TrainingJobSummaries") or [], parsed.pop("NextToken", "")
        parsed.update(self._merged(rows, asked, more=more))

    def _merged(self, page: list[Row], asked: _Asked, *, more: str) -> Answer:
        """`page`: SageMaker's rows; `more`: the token of its next page."""
        asked.see(page)
        entries = [_Entry(key=asked.key(row), row=row) for row in page]
        bound = entries[-1].key if entries and more else None
        near = {} if more and bound is None else self._near(asked, bound)
        merged = [
            *heapq.merge(
                self._as_jobs(_behind(entries, asked.at.last), near, asked),
                self._own(near, asked, bound),
                key=lambda entry: entry.key,
                reverse=asked.reverse,
            )
        ]
        shown = merged[: asked.size]
        at = asked.at
        for entry in shown:
            at = (
                replace(at, after=(entry.key, entry.name))
                if entry.is_own
                else replace(at, last=entry.name)
            )
        if len(merged) == len(shown):
            at = replace(at, at_aws=more, last="", ended=not more)
        answer: Answer = {"TrainingJobSummaries": [entry.row for entry in shown]}
        if len(merged) > len(shown) or more:
            answer["NextToken"] = at.written()
        return answer

    def _near(self, asked: _Asked, bound: Any) -> dict[str, JobView]:
        """The queue's jobs among which the page's are: all that live, and those that have ended, as
        far as filters and order say."""
        since, until = asked.window(bound)
        parts = [self._jobs(LIVING, limit=MOST)]
        if ended := asked.ended():
            parts.append(self._jobs(ended, limit=MOST, since=since, until=until))
        if any(part.more for part in parts):
            self._say(
                f"ListTrainingJobs is made from {MOST:,} of the queue's jobs, and more are there: "
                "narrow it by StatusEquals or CreationTimeAfter, or use `slotq ls`"
            )
        jobs = (job for part in parts for job in part if not self._forgotten(job.name))
        return {job.name: job for job in jobs if work_of(job.name) is WorkKind.TRAINING}

    def _own(self, near: Mapping[str, JobView], asked: _Asked, bound: Any) -> list[_Entry]:
        """Those of the jobs that SageMaker does not list, or not with this status, in order: behind
        the last one shown, up to this sort key."""
        if asked.of_training_jobs:
            return []
        rows = [
            summary(job, region=asked.region)
            for job in near.values()
            if _is_unlisted(job) or (asked.status is not None and _differs(job))
        ]
        entries = [
            _Entry(key=asked.key(row), row=row, is_own=True) for row in rows if asked.wants(row)
        ]
        entries.sort(key=lambda entry: (entry.key, entry.name), reverse=asked.reverse)
        return [entry for entry in entries if asked.is_due(entry, bound)]

    def _as_jobs(
        self, page: list[_Entry], near: Mapping[str, JobView], asked: _Asked
    ) -> Iterator[_Entry]:
        """SageMaker's rows with the statuses of the jobs whose names they bear, filtered again."""
        for entry in page:
            status, job = entry.row["TrainingJobStatus"], None
            if status in _UNSURE:
                job = self._known(entry.name)
            elif status == "Completed" and entry.name in near:
                job = near[entry.name]
            if job is not None and asked.status is not None and _differs(job):
                continue  # It is among the queue's own, with the job's status.
            row = entry.row if job is None else as_listed(job, entry.row)
            if asked.status in {None, row["TrainingJobStatus"]}:
                yield replace(entry, row=row)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """A row, and the key that it is sorted by."""

    key: Any
    row: Row
    is_own: bool = False
    """Whether it is a job of the queue that SageMaker has not listed."""

    @property
    def name(self) -> str:
        return str(self.row["TrainingJobName"])


class _Asked:
    """One call: its filters and its order."""

    def __init__(self, params: Mapping[str, Any], at: ListPosition, *, region: str) -> None:
        self._params, self.at, self.region = dict(params), at, region
        self.status = params.get("StatusEquals")
        self.size = int(params.get("MaxResults") or _PAGE)
        self.key = _KEYS[str(params.get("SortBy") or "CreationTime")]
        self.of_training_jobs = any(params.get(key) for key in _OF_TRAINING_JOBS)
        self._order = params.get("SortOrder")

    @property
    def reverse(self) -> bool:
        return bool(self.at.reverse)

    def see(self, page: list[Row]) -> None:
        """Learn the order of SageMaker's page where the call names none."""
        reverse = self._order == "Descending"
        if self._order is None and self.at.reverse is None and page:
            reverse = self.key(page[0]) > self.key(page[-1])
        if self.at.reverse is None:
            self.at = replace(self.at, reverse=reverse)

    def wants(self, row: Mapping[str, Any]) -> bool:
        times = {key: row[key] for key in ("CreationTime", "LastModifiedTime")}
        has_status = self.status in {None, row["TrainingJobStatus"]}
        return has_status and is_listed(row["TrainingJobName"], times, self._params)

    def is_due(self, entry: _Entry, bound: Any) -> bool:
        """Whether the queue's job is behind the last one shown, and not beyond this sort key."""
        place, after = (entry.key, entry.name), self.at.after
        if bound is not None and (entry.key < bound if self.reverse else entry.key > bound):
            return False
        return after is None or (place < after if self.reverse else place > after)

    def ended(self) -> tuple[JobState, ...]:
        """The final states of the jobs that may have the status that the call asks for."""
        return tuple(TERMINAL_STATES) if self.status is None else _ENDED_AS.get(self.status, ())

    def window(self, bound: Any) -> tuple[datetime | None, datetime | None]:
        """When the jobs of the page have entered the queue."""
        asked = map(self._params.get, ("CreationTimeAfter", "CreationTimeBefore"))
        since, until = (
            None if moment is None else parse_to_aware_datetime(moment) for moment in asked
        )
        if self.key is _KEYS["CreationTime"]:
            ends = [None if self.at.after is None else self.at.after[0], bound]
            first, last = ends[::-1] if self.reverse else ends
            since = since if first is None else to_datetime(first - _MARGIN)
            until = until if last is None else to_datetime(last + _MARGIN)
        return since, until


def _is_unlisted(job: JobView) -> bool:
    """Whether SageMaker has no training job of the job's name: it has not run, or on a node."""
    return job.attempts_begun == 0 or bool(job.gpus)


def _differs(job: JobView) -> bool:
    """Whether the job's first training job may have another status than the job."""
    return job.attempts_begun > 1 or job.state in WAITING_STATES


def _behind(page: list[_Entry], last: str) -> list[_Entry]:
    """The rows of SageMaker's page after the last one shown. All, if that one is there no more."""
    names = [entry.name for entry in page]
    return page[names.index(last) + 1 :] if last in names else page


def _raising(error: InvalidRequest) -> Callable[[], Answer]:
    def answer() -> Answer:
        raise error

    return answer

"""SageMaker's training calls, answered for jobs of the queue.

A job of the queue may have had several training jobs, or none yet. A program can still use the
job's name for everything: describe, stop, attach, list tags, find the model.

- CreateTrainingJob submits to the queue;
- DescribeTrainingJob describes the training job of the latest attempt, or is answered here while
  there is none;
- StopTrainingJob cancels in the queue;
- DeleteTrainingJob deletes the training jobs of a job that has ended (`deletion`);
- UpdateTrainingJob updates the training job of the latest attempt;
- Search is SageMaker's own, and the session says what it does not find;
- ListTags and AddTags read and write the tags of a waiting job;
- ListTrainingJobs also shows jobs that have no training job now (`list_training_jobs`).

Names that the queue does not know go to SageMaker unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from slotq.client import QueueClient
from slotq.errors import InvalidRequest, NoDryRuns, NoSuchJob
from slotq.groups.batches import batch_of
from slotq.groups.gathering import Gang, gathered, gathering
from slotq.jobs.follow import left, patiently
from slotq.jobs.foreign_names import ForeignNames
from slotq.jobs.notices import Warned
from slotq.jobs.submission import jsonable
from slotq.session.answers.describe import arn_of, as_the_job, description, has_training_job
from slotq.session.answers.list_training_jobs import TrainingJobListing
from slotq.session.hooks import Answer, Context, Params, TakenCall, untouched
from slotq_core.model.capacity.work import WorkKind, marked
from slotq_core.wire.groups.views import GroupView
from slotq_core.wire.training.processing_request import NAME, is_processing
from slotq_core.wire.views.jobs import JobView

_JOB = "slotq_job"
SEARCHES = (
    "Search looks through SageMaker's training jobs: it does not find jobs that wait in the queue, "
    "and shows each attempt by itself. ListTrainingJobs and `slotq ls` list the queue's jobs"
)
KINDS = {f":{work}-job/": work for work in WorkKind}
"""The part of an ARN between the account and the name of a job, by the job's kind of work."""
PAUSE = 5.0
"""Seconds between two tries while the queue does not answer."""
last_to_answer: WeakValueDictionary[str, TrainingCalls] = WeakValueDictionary()
"""The object in this process that last answered for a job, by job name. SDK v3 needs it: its
clients serve all sessions, and its jobs do not know their session (`shared_clients`)."""


class Captured(Exception):
    """Carries a request out of the SDK's call that was about to submit it."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__("captured")
        self.request = request


_capturing: ContextVar[TrainingCalls | None] = ContextVar("slotq_capturing", default=None)
"""Whose next request is captured. In this thread only: another one may train meanwhile."""


class Interrupted(Exception, KeyboardInterrupt):
    """Ctrl-C while the SDK follows a job of the queue. The telemetry of both SDKs lets only an
    Exception out of `fit()` and `train()`: with a plain KeyboardInterrupt they would return, and
    the script would go on as if the job had completed."""


class TrainingCalls:
    """`say` reports each submission, and a queue that has not answered for a while."""

    def __init__(
        self,
        queue: QueueClient,
        *,
        say: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._queue = queue
        self.say, self._clock, self._sleep = say, clock, sleep
        self.names: ForeignNames | None = None
        """Checks whether a new job's name is free in SageMaker; None: no check."""
        self.ship: Callable[[Mapping[str, Any], Callable[[], object]], dict[str, Any]] | None = None
        """Puts slotq_training.py beside the code of a request, and calls the function before it
        uploads; None: the code stays unchanged."""
        self.logged_elsewhere: Callable[[str], object] | None = None
        """Receives the lines of a wait that another log shows; None: they are dropped."""
        self.processing = False
        """Whether processing jobs go to the queue, too."""
        self._requests: dict[str, Mapping[str, Any]] = {}
        self._forgotten: set[str] = set()
        self._caller = ""
        self._said_of_search = False
        self.warned = Warned(say)
        """Reports the warnings of jobs, each once."""

    def calls(self) -> tuple[TakenCall, ...]:
        listing = TrainingJobListing(
            self._queue.jobs, self.known, forgotten=self._forgotten.__contains__, say=self.say
        )
        return (
            TakenCall(operation="sagemaker.CreateTrainingJob", before=self._create),
            TakenCall(
                operation="sagemaker.DescribeTrainingJob",
                before=self._describe,
                after=_show_the_job,
            ),
            TakenCall(operation="sagemaker.StopTrainingJob", before=self._stop),
            TakenCall(operation="sagemaker.UpdateTrainingJob", before=self._update),
            TakenCall(operation="sagemaker.Search", before=self._search),
            TakenCall(operation="sagemaker.ListTags", before=self._list_tags),
            TakenCall(operation="sagemaker.AddTags", before=self._add_tags),
            TakenCall(
                operation="sagemaker.ListTrainingJobs", before=listing.page, after=listing.amend
            ),
        )

    def captured(self, call: Callable[[], object]) -> dict[str, Any]:
        """The request that `call` would submit; nothing is submitted. The SDK's uploads take place.
        Raises InvalidRequest if `call` submits nothing."""
        token = _capturing.set(self)
        try:
            call()
        except Captured as found:
            return found.request
        finally:
            _capturing.reset(token)
        raise InvalidRequest(
            "nothing was submitted through this session: give the estimator "
            "sagemaker_session=session",
            field="estimator",
        )

    def forget(self, name: str) -> None:
        """Leave the name to SageMaker until a job of that name is submitted again."""
        self._forgotten.add(name)

    def say_left(self, name: str) -> None:
        """Say how to go on with a job that the program no longer watches."""
        self.say(left(name, f'session.queue.jobs.cancel("{name}")'))

    def submit(self, request: Mapping[str, Any], region: str = "") -> JobView:
        """Put a CreateTrainingJob request into the queue. `region`: where its training job would
        be; empty: the session's."""
        sent = jsonable(request)
        if _capturing.get() is self:
            raise Captured(sent if self.ship is None else self.ship(sent, lambda: None))
        processes = is_processing(sent)
        if processes and gathering() is not None:
            raise InvalidRequest(
                "a processing job belongs to no gang; start it outside the block", field=NAME
            )
        if self.names is not None and not processes:
            with untouched():
                self.names.check(sent.get("TrainingJobName"), region)
        if self.ship is not None and not processes:
            sent = self.ship(sent, partial(self._ask, sent))
        gang, batch = gathering(), batch_of(self._queue)
        if gang is not None:
            job = gang.gather(sent, self)
        elif batch is not None:
            batch.submitter = self.caller()
            job = self._queue.submit(sent)
            batch.then(job.name, self._said_to_wait)
        else:
            job = self._queue.submit(sent)
            self._said_to_wait(job)
        self._requests[job.name] = sent
        self._forgotten.discard(job.name)
        last_to_answer[job.name] = self
        return job

    def _ask(self, request: Mapping[str, Any]) -> None:
        """Raises what the queue would refuse, if it can say so."""
        with suppress(NoDryRuns):
            self._queue.submit(request, dry_run=True)

    def submit_gang(self, gang: Gang) -> GroupView:
        """Put the jobs gathered for a gang into the queue."""
        group = self._queue.groups.submit_gang(
            gang.name,
            gang.requests.values(),
            min_members=gang.min_members,
            mandatory=gang.mandatory,
            same_pool=gang.same_pool,
            elastic=gang.elastic,
        )
        for job in group.jobs:
            self._said_of(job, f"in the queue, in gang {gang.name}")
        return group

    def caller(self) -> str:
        """The ARN that the queue sees; asked for once."""
        self._caller = self._caller or self._queue.service.about().caller
        return self._caller

    def _said_to_wait(self, job: JobView) -> None:
        self._said_of(job, f"in the queue with priority {job.priority}")

    def _said_of(self, job: JobView, what: str) -> None:
        self.say(f"{job.name}: {what}")
        self.warned.report(job, submitted=True)

    def _create(self, params: Params, context: Context) -> Callable[[], Answer] | None:
        if params.get("ServerlessJobConfig") and not params.get("ResourceConfig"):
            return None  # A serverless job uses no instances of a pool.
        request, region = dict(params), _region(context)
        return lambda: {"TrainingJobArn": arn_of(self.submit(request, region), region)}

    def _describe(self, params: Params, context: Context) -> Callable[[], Answer] | None:
        job = self._job(params.get("TrainingJobName"))
        if job is None:
            return None
        if job.name in self._requests:  # Warnings of other submitters' jobs are not reported.
            self.warned.report(job)
        if has_training_job(job):
            params["TrainingJobName"] = job.training_job
            context[_JOB] = job
            return None
        return lambda: description(job, self.request(job.name), region=_region(context))

    def _stop(self, params: Params, _: Context) -> Callable[[], Answer] | None:
        job = self._job(params.get("TrainingJobName"))
        return None if job is None else partial(self.cancel, job.name)

    def cancel(self, name: str) -> Answer:
        self._queue.jobs.cancel(name)
        return {}

    def _update(self, params: Params, context: Context) -> Callable[[], Answer] | None:
        """Let SageMaker update the training job of the latest attempt, while there is one."""
        job = self._job(params.get("TrainingJobName"))
        if job is None:
            return None
        if not has_training_job(job):
            return partial(_refuse_update, job)
        params["TrainingJobName"] = job.training_job
        context[_JOB] = job
        return None

    def _search(self, params: Params, _: Context) -> None:
        """Let SageMaker search, and say, once, what it cannot find."""
        if params.get("Resource") == "TrainingJob" and not self._said_of_search:
            self._said_of_search = True
            self.say(SEARCHES)

    def _list_tags(self, params: Params, _: Context) -> Callable[[], Answer] | None:
        job = self._waiting(params.get("ResourceArn"))
        if job is None:
            return None
        return lambda: {"Tags": list(self._queue.jobs.request(job.name).get("Tags") or ())}

    def _add_tags(self, params: Params, _: Context) -> Callable[[], Answer] | None:
        job = self._waiting(params.get("ResourceArn"))
        if job is None:
            return None
        tags = list(params.get("Tags") or ())
        return lambda: self._tag(job.name, {tag["Key"]: tag["Value"] for tag in tags})

    def _tag(self, name: str, tags: Mapping[str, str]) -> Answer:
        now = self._queue.jobs.add_tags(name, tags)
        return {"Tags": [{"Key": key, "Value": value} for key, value in now.items()]}

    def _waiting(self, arn: Any) -> JobView | None:
        """The job with this ARN, if SageMaker has no training job for it now."""
        name = name_in_arn(str(arn or ""))
        job = self._job(name) if name else None
        return None if job is None or has_training_job(job) else job

    def _job(self, name: Any) -> JobView | None:
        job = self.known(name)
        if job is not None:
            last_to_answer[job.name] = self
        return job

    def known(self, name: Any) -> JobView | None:
        """The queue's job of that name, or None. A job submitted here is fetched with retries, so
        that a program that waits for the job survives a short outage of the queue."""
        if name in self._forgotten:
            return None
        if (job := gathered(name)) is not None:
            return job
        fetch = partial(self._queue.jobs.view, str(name or ""))
        try:
            if name in self._requests:
                return patiently(
                    fetch, say=self.say, clock=self._clock, sleep=self._sleep, poll=PAUSE
                )
            return fetch()
        except (NoSuchJob, InvalidRequest):
            return None

    def request(self, name: str) -> Mapping[str, Any]:
        """The request of a job, cached: its tags may be out of date; the rest never changes."""
        if name not in self._requests:
            self._requests[name] = self._queue.jobs.request(name)
        return self._requests[name]


def name_in_arn(arn: str) -> str:
    """The queue's name of the job with this ARN; empty: it is no ARN of a job."""
    for part, work in KINDS.items():
        before, _, name = arn.partition(part)
        if before.startswith("arn:") and name:
            return marked(name, work)
    return ""


def _show_the_job(parsed: Answer, context: Context) -> None:
    if _JOB in context:
        parsed.update(as_the_job(context[_JOB], parsed))


def _refuse_update(job: JobView) -> Answer:
    raise InvalidRequest(
        f"job {job.name} is {job.state} in the queue and has no training job to update now",
        field="TrainingJobName",
    )


def _region(context: Context) -> str:
    return str(context.get("client_region") or "")

"""Many independent jobs, submitted in few requests: `queue.submit_many`, `queue.batch`.

    with queue.batch() as batch:
        for request in requests:
            queue.submit(request)
    print(batch.outcomes)

Inside the block a job is only collected, also one of an SDK or of boto3: DescribeTrainingJob shows
it as pending, and the queue does not have it yet. If the block raises, nothing is submitted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from slotq.errors import (
    InvalidRequest,
    NameTaken,
    NotAllowed,
    Refused,
    SlotQError,
    TooManySubmissions,
    Unavailable,
    UnexpectedAnswer,
)
from slotq.groups.gathering import BLOCKS, pending
from slotq.jobs.job_calls import JobCalls
from slotq.jobs.submission import collected_by, collector_of
from slotq.jobs.verbs import Outcome
from slotq.transport.answers import error_of_one
from slotq.transport.connection import LONGEST, Connection
from slotq_core.wire.training.processing_request import job_name
from slotq_core.wire.views.jobs import JobView

if TYPE_CHECKING:  # `slotq ls` need not wait for what only submissions use.
    from slotq_core.wire.job_changes import OutcomeView

NEW_AT_ONCE = 250
"""How many new jobs one request submits: the queue needs some seconds for them."""

_BYTES_AT_ONCE = 3_500_000
"""The most bytes of their requests together, written out. The queue reads 4 MB."""

Progress = Callable[[int, int], None]
"""Receives how many jobs of how many have their outcome."""


class ManySubmissions(JobCalls):
    """New jobs by the hundred, each as a submission of its own."""

    def submit_all(
        self, requests: Iterable[Mapping[str, Any]], *, progress: Progress | None = None
    ) -> list[Outcome]:
        """Submit the jobs, each as `submit` does, and return an outcome for each, in their order.

        A refusal of one job does not affect the others. Any other error raises if no job was
        submitted yet; afterwards it becomes the error of each job that was not reached.
        """
        done: dict[int, Outcome] = {}
        sent: dict[int, Mapping[str, Any]] = {}
        for number, request in enumerate(self._prepared(requests)):
            try:
                sent[number] = self._checked(request)
            except InvalidRequest as error:
                done[number] = Outcome(name=job_name(request), error=error)
        total = len(done) + len(sent)
        for ended in self._ended(sent):
            done |= ended
            if progress is not None:
                progress(len(done), total)
        return [done[number] for number in range(total)]

    def submit_checked(self, requests: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        """Submit jobs with requests as `_checked` returns them."""
        done: dict[int, Outcome] = {}
        for ended in self._ended(dict(enumerate(requests))):
            done |= ended
        return [done[number] for number in range(len(requests))]

    def _ended(self, requests: Mapping[int, Mapping[str, Any]]) -> Iterator[dict[int, Outcome]]:
        """Yield the outcomes of the requests, some at a time. They are submitted one by one if the
        caller may not submit jobs in bulk, or if the queue is of a release that cannot."""
        left, waited, begun = dict(requests), 0, False
        while left:
            try:
                found = self._answered(_first(left))
            except (NotAllowed, UnexpectedAnswer):
                yield from self._singly(left, begun=begun)
                return
            except SlotQError as error:
                if not begun:
                    raise
                yield {number: Outcome(name=job_name(left[number]), error=error) for number in left}
                return
            ended = {number: each for number, each in found.items() if not _comes_again(each)}
            left = {number: request for number, request in left.items() if number not in ended}
            begun, waited = begun or bool(ended), 0 if ended else waited
            yield ended
            again = sorted((found[number] for number in left if number in found), key=_pause)
            if not again:
                continue
            why, pause = again[-1].error, _pause(again[-1])
            if not ended and (not pause or waited + pause > LONGEST):
                yield _given_up(left, why, begun=begun)
                return
            if pause:
                self._connection.say(f"{why}; waiting {pause} s")
                self._connection.transport.sleep(pause)
                waited += pause

    def _answered(self, requests: Mapping[int, Mapping[str, Any]]) -> dict[int, Outcome]:
        """What the queue answers to one request with these jobs."""
        from slotq_core.wire.groups.members import compacted

        template, jobs = compacted([*requests.values()])
        body = json.dumps({"template": template, "jobs": jobs}).encode()
        from slotq_core.wire.job_changes import OutcomesView

        views = self._read(OutcomesView, "POST", "/jobs", body=body).outcomes
        if len(views) != len(jobs):
            raise UnexpectedAnswer(f"the queue answered for {len(views)} of {len(jobs)} jobs")
        return {
            number: Outcome(name=job_name(request), job=view.job, error=_error_in(view, place))
            for place, ((number, request), view) in enumerate(
                zip(requests.items(), views, strict=True)
            )
        }

    def _singly(
        self, requests: Mapping[int, Mapping[str, Any]], *, begun: bool
    ) -> Iterator[dict[int, Outcome]]:
        for number, request in requests.items():
            name = job_name(request)
            try:
                yield {number: Outcome(name=name, job=self._put(request))}
            except Refused as error:
                yield {number: Outcome(name=name, error=error)}
            except SlotQError as error:
                if not begun:
                    raise
                yield {number: Outcome(name=name, error=error)}
            begun = True


class Batch:
    """The jobs that a block has submitted: sent together at its end."""

    def __init__(self, queue: Connection) -> None:
        self._queue = queue
        self._requests: dict[str, Mapping[str, Any]] = {}
        self._then: dict[str, Callable[[JobView], object]] = {}
        self.submitter = ""
        """The ARN that a collected job shows."""
        self.outcomes: list[Outcome] = []
        """One for each job in the order of their submission, once they are sent."""

    def __repr__(self) -> str:
        refused = sum(outcome.error is not None for outcome in self.outcomes)
        state = f"{refused} refused" if self.outcomes else "not submitted yet"
        return f"<batch of {len(self._requests):,} jobs, {state}>"

    @property
    def jobs(self) -> list[JobView]:
        """The submitted jobs, once they are sent."""
        return [outcome.job for outcome in self.outcomes if outcome.job is not None]

    def collect(self, request: Mapping[str, Any]) -> JobView:
        """Collect a job; returns its view before submission. Raises NameTaken if the batch has
        another one of that name."""
        name = job_name(request)
        if self._requests.setdefault(name, request) != request:
            raise NameTaken(
                f"the batch has another job named '{name}'; choose another name",
                field="TrainingJobName",
            )
        return self.known(name)

    def then(self, name: str, act: Callable[[JobView], object]) -> None:
        """Call `act` with this job once the queue has it."""
        self._then[name] = act

    def names(self) -> Collection[str]:
        return self._requests.keys()

    def known(self, name: str) -> JobView:
        """The view of a collected job: a waiting job."""
        return pending(name, self.submitter)

    def send(self) -> None:
        """Submit the jobs, and note their outcomes."""
        self.outcomes = ManySubmissions(self._queue).submit_checked([*self._requests.values()])
        for job in self.jobs:
            if job.name in self._then:
                self._then[job.name](job)


@contextmanager
def batch(queue: Connection) -> Iterator[Batch]:
    """Submit the jobs of this block together when it ends (`QueueClient.batch`)."""
    with collecting(queue) as made:
        yield made
    errors = [outcome.error for outcome in made.outcomes if outcome.error is not None]
    if errors:
        errors[0].add_note(
            f"{len(errors):,} of the batch's {len(made.outcomes):,} jobs were refused; its "
            "`outcomes` have each"
        )
        raise errors[0]


@contextmanager
def collecting(queue: Connection) -> Iterator[Batch]:
    """The same, without raising a refusal: the batch's outcomes have them."""
    made = Batch(queue)
    token = BLOCKS.set((made, *BLOCKS.get()))
    try:
        with collected_by(made, queue):
            yield made
    finally:
        BLOCKS.reset(token)
    made.send()


class BatchCalls(Connection):
    """The calls of QueueClient for many new jobs."""

    def submit_many(
        self, requests: Iterable[Mapping[str, Any]], *, progress: Progress | None = None
    ) -> list[Outcome]:
        """Put many requests into the queue, hundreds at a time, each as `submit` does. Returns an
        outcome for each, in their order: the job, or the error that left it out. A job may come
        after earlier ones.

        A refusal of one job does not affect the others. Any other error raises if no job was
        submitted yet; afterwards it becomes the error of each job that was not reached. The same
        requests again, while their jobs live, return the same jobs. `progress` receives how many
        jobs of how many have their outcome.
        """
        return ManySubmissions(self).submit_all(requests, progress=progress)

    def batch(self) -> AbstractContextManager[Batch]:
        """Collect what this client submits in the block, and submit it together when the block
        ends; nothing if the block raises. For this thread, and for sessions with this client.

        Use `fit(wait=False)` inside. Each job has its outcome in `batch.outcomes`. Raises the first
        refusal at the end of the block, after everything was sent, and what `submit_many` raises.
        """
        return batch(self)


def batch_of(queue: Connection) -> Batch | None:
    """The batch that collects this client's submissions now, if there is one."""
    found = collector_of(queue)
    return found if isinstance(found, Batch) else None


def _first(requests: Mapping[int, Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """As many of the requests, the first ones, as one call submits."""
    found: dict[int, Mapping[str, Any]] = {}
    size = 0
    for number, request in requests.items():
        size += len(json.dumps(request))
        if found and (len(found) == NEW_AT_ONCE or size > _BYTES_AT_ONCE):
            break
        found[number] = request
    return found


def _error_in(view: OutcomeView, place: int) -> SlotQError | None:
    if view.error is None:
        return None
    return error_of_one(view.error, place=f"jobs.{place}", retry_after=view.retry_after)


def _comes_again(outcome: Outcome) -> bool:
    """Whether the queue may answer otherwise soon: it had no time, or this minute's limit is
    reached."""
    return isinstance(outcome.error, Unavailable | TooManySubmissions)


def _pause(outcome: Outcome) -> int:
    """How long (s) to wait before this job is sent again."""
    return outcome.error.retry_after if isinstance(outcome.error, TooManySubmissions) else 0


def _given_up(
    left: Mapping[int, Mapping[str, Any]], error: SlotQError | None, *, begun: bool
) -> dict[int, Outcome]:
    """The outcomes of jobs that are not sent again. Raises Unavailable if no job was submitted."""
    if isinstance(error, Unavailable) and not begun:
        raise error
    return {number: Outcome(name=job_name(left[number]), error=error) for number in left}

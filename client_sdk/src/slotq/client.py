"""QueueClient: the queue's calls, and its refusals as exceptions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from slotq import discovery, refusals
from slotq.config import Config, load
from slotq.errors import InvalidRequest, NotAllowed, TooLate, UnexpectedAnswer
from slotq.job import QueuedJob
from slotq.submission import jsonable, settings_tags, with_tags
from slotq.transport import Answer, Transport
from slotq_core import names
from slotq_core.wire import (
    MAX_BODY,
    VERSION,
    DoctorView,
    FindingView,
    JobView,
    PoolsView,
    PoolView,
    QueueView,
    RequestView,
)

View = TypeVar("View", JobView, QueueView, PoolsView, DoctorView, RequestView)
# Named here, for `list` within the class is one of its methods.
JobViews = list[JobView]
PoolViews = list[PoolView]
FindingViews = list[FindingView]
QueuedJobs = list[QueuedJob]


class QueueClient:
    """Speaks to the queue's API.

    Every method may raise NotConfigured, NotAllowed, CannotReach, Unavailable and UnexpectedAnswer
    (`slotq.errors`), and the Refused of `slotq_core.errors` that the queue answered with.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        api_id: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        config: Config | None = None,
        transport: Transport | None = None,
    ) -> None:
        """What is not given comes from the environment or the config file (`slotq.config`)."""
        arguments = {"endpoint": endpoint, "api_id": api_id, "region": region, "profile": profile}
        self.config = config or load(arguments)
        if transport is None:
            self.config = discovery.complete(self.config)
        self._transport = transport or Transport(self.config)

    def submit(self, request: Mapping[str, Any]) -> JobView:
        """Put a CreateTrainingJob request into the queue and return the job as it then stands.

        The same request again, while its job lives, gives the same job.
        """
        body = json.dumps(jsonable(request)).encode()
        if len(body) > MAX_BODY:
            raise InvalidRequest(
                f"the request has {len(body):,} bytes, the queue takes {MAX_BODY:,}: put what is "
                "large (hyperparameters, environment) into S3"
            )
        return self._read(JobView, self._transport.call("POST", "/add-job", body=body))

    def job(self, name: str) -> JobView:
        """One job with its attempts, place and reason. Raises NoSuchJob."""
        return self._read(JobView, self._transport.call("GET", _path(name)))

    def jobs(self, states: Iterable[str] | None = None, *, limit: int | None = None) -> JobViews:
        """Jobs in the order of the queue: running, then waiting by place, then ended.

        `states` keeps only those (None: all); `limit` cuts the list.
        """
        query: dict[str, object] = {}
        if states is not None:
            query["state"] = [*states]
            if not query["state"]:
                return []
        if limit is not None:
            query["limit"] = limit
        return self._read(QueueView, self._transport.call("GET", "/jobs", query=query)).jobs

    def cancel(self, name: str) -> JobView:
        """Cancel a job, whether it waits or runs. Raises NoSuchJob, TooLate (it has ended).

        Cancelling a cancelled job is no error: the first answer may have been lost.
        """
        try:
            return self._read(JobView, self._transport.call("DELETE", _path(name)))
        except TooLate:
            job = self.job(name)
            if job.state == "cancelled":
                return job
            raise

    def request(self, name: str) -> dict[str, Any]:
        """The job's CreateTrainingJob request, with the tags of today. Raises NoSuchJob.

        Where the job was submitted under another IAM identity, without what may hold secrets
        (`HyperParameters`, `Environment` and more).
        """
        return self._request(name).request

    def _request(self, name: str) -> RequestView:
        return self._read(RequestView, self._transport.call("GET", f"{_path(name)}/request"))

    def hold(self, name: str) -> JobView:
        """The job shall not start until it is released. Raises NoSuchJob; TooLate where it holds
        slots or has ended. Holding a held job is no error."""
        return self._amend(name, held=True)

    def release(self, name: str) -> JobView:
        """A held job waits again, at its old entry time. Raises NoSuchJob, TooLate (it has ended).
        Releasing a job that is not held is no error."""
        return self._amend(name, held=False)

    def set_priority(self, name: str, priority: int) -> JobView:
        """High first. A running job's counts too: it says whom it is evicted for. Raises NoSuchJob,
        TooLate (it has ended), InvalidRequest."""
        return self._amend(name, tags=settings_tags(priority=priority))

    def move(self, name: str, pools: str | Iterable[str]) -> JobView:
        """It accepts these pools from now on, the most welcome first; a running attempt stays where
        it is. Raises NoSuchJob, TooLate (it has ended), InvalidRequest, NeverFits."""
        return self._amend(name, tags=settings_tags(pools=pools))

    def add_tags(self, name: str, tags: Mapping[str, str]) -> dict[str, str]:
        """Add tags to the job and to every attempt that it will begin; returns all that it has.
        Queue settings are tags too. Raises NoSuchJob, TooLate (it has ended), InvalidRequest."""
        self._amend(name, tags=tags)
        return {tag["Key"]: tag["Value"] for tag in self.request(name).get("Tags") or ()}

    def clone(self, name: str, new_name: str, *, priority: int | None = None) -> JobView:
        """Submit a job's request once more, under another name and as its caller's. Raises
        NoSuchJob, what `submit` raises, and NotAllowed where the request is not shown whole to this
        caller.

        What the first writes its checkpoints to, the second finds there.
        """
        kept = self._request(name)
        if kept.withheld:
            raise NotAllowed(
                f"'{name}' was submitted under another IAM identity, and its {kept.withheld[0]} is "
                "shown to that one alone: ask its submitter to clone it"
            )
        request = {**kept.request, "TrainingJobName": new_name}
        return self.submit(with_tags(request, settings_tags(priority=priority), override=True))

    def pools(self) -> PoolViews:
        """The pools in their order, with what is used of them and what was learned of them."""
        return self._read(PoolsView, self._transport.call("GET", "/pools")).pools

    def doctor(self, *, fix: bool = False) -> FindingViews:
        """Everything that the queue keeps and that disagrees with itself or with SageMaker; mended
        where `fix` says so and where one look suffices."""
        method = "POST" if fix else "GET"
        return self._read(DoctorView, self._transport.call(method, "/doctor")).findings

    def get(self, name: str) -> QueuedJob:
        """One job as an object, to act on and to wait for. Raises NoSuchJob."""
        return QueuedJob(self, self.job(name))

    def list(self, states: Iterable[str] | None = None, *, limit: int | None = None) -> QueuedJobs:
        """As `jobs`, as objects."""
        return [QueuedJob(self, view) for view in self.jobs(states, limit=limit)]

    def _amend(self, name: str, **changes: Any) -> JobView:
        body = json.dumps(changes).encode()
        return self._read(JobView, self._transport.call("PATCH", _path(name), body=body))

    def _read(self, view: type[View], answer: Answer) -> View:
        if not 200 <= answer.status_code < 300:
            signed = self._transport.credentials() is not None
            raise refusals.error(answer, config=self.config, signed=signed)
        try:
            read = view.model_validate_json(answer.content)
        except ValidationError:
            raise self._not_the_queue(answer) from None
        if "version" not in read.model_fields_set or read.version != VERSION:
            raise self._not_the_queue(answer)
        return read

    def _not_the_queue(self, answer: Answer) -> UnexpectedAnswer:
        return UnexpectedAnswer(
            f"{self.config.endpoint} answered {answer.status_code} with something that is not the "
            "queue's: check that the endpoint is the queue's API and ends with its stage (…/prod), "
            f"and that the queue speaks this client's version ({VERSION})"
        )


def _path(name: str) -> str:
    if not names.TRAINING_JOB_NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} cannot be a job's name: those are 1 to 63 letters, digits and hyphens",
            field="name",
        )
    return "/jobs/" + quote(name, safe="")

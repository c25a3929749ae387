"""A queue to test the client against: speaks the wire views, keeps jobs in a dict, decides nothing.

`FakeHttp` stands for botocore's HTTP session, so that signing and repeating are the real ones.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit
from wsgiref.simple_server import WSGIRequestHandler, make_server

from botocore.awsrequest import HeadersDict
from botocore.exceptions import EndpointConnectionError

from slotq.client import QueueClient
from slotq.config import Config
from slotq.transport import Transport
from slotq_core.errors import NameTaken, NoSuchJob, Refused, TooLate
from slotq_core.wire import (
    AmendmentBody,
    AttemptView,
    DoctorView,
    ErrorView,
    FindingView,
    JobView,
    PoolsView,
    PoolView,
    QueueView,
    ReasonView,
    RequestView,
    parse_amendment,
    parse_submission,
    retagged,
)

ENDPOINT = "https://queue.test/prod"
MOMENT = "2026-11-20T10:30:00.000Z"
STATUS = {"name_taken": 409, "too_late": 409, "no_such_job": 404}


def job_view(name: str = "job1", state: str = "pending", **fields: Any) -> JobView:
    given = {
        "priority": 1,
        "entry_time": MOMENT,
        "changed_at": MOMENT,
        "demand": {"slots": 1},
        "pools": ["p5"],
        "preemptible": True,
        "min_runtime": 0,
        "retries": 0,
        "submitter": "arn:aws:iam::123456789012:user/ada",
        "attempts_begun": 0,
        "evictions": 0,
    }
    return JobView(name=name, state=state, **(given | fields))


def waiting(place: int, text: str = "the pool is full", **fields: Any) -> JobView:
    reason = ReasonView(code="no_free_slots", text=text, numbers={})
    return job_view(place=place, reason=reason, **fields)


def attempt(number: int = 1, **fields: Any) -> AttemptView:
    given = {
        "training_job": "job1" if number == 1 else f"job1-qstamp-{number}-abcdef",
        "pool": "p5",
        "instance_type": "ml.p5.48xlarge",
        "admitted_at": MOMENT,
        "running_since": MOMENT,
    }
    return AttemptView(number=number, **(given | fields))


def running(number: int = 1, **fields: Any) -> JobView:
    given = {
        "state": "running",
        "pool": "p5",
        "attempts_begun": number,
        "training_job": attempt(number).training_job,
        "attempts": [attempt(n) for n in range(1, number + 1)],
    }
    return job_view(**(given | fields))


def ended(state: str = "completed", number: int = 1, **fields: Any) -> JobView:
    return running(number, **({"state": state, "pool": None} | fields))


class FakeQueue:
    """Answers the queue's calls. `script` gives, by job, the views of the next looks at it."""

    def __init__(self, *jobs: JobView) -> None:
        self.jobs = {job.name: job for job in jobs}
        self.requests: dict[str, dict[str, Any]] = {}
        self.withheld: list[str] = []
        """What of the requests is not shown to this caller."""
        self.scripts: dict[str, list[JobView]] = {}
        self.pools: list[PoolView] = []
        self.drift: list[FindingView] = []

    def script(self, *views: JobView) -> None:
        self.jobs[views[0].name] = views[0]
        self.scripts[views[0].name] = list(views)

    def handle(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> Any:
        if (method, path) == ("POST", "/add-job"):
            return 202, self._submit(body)
        if (method, path) == ("GET", "/jobs"):
            return 200, self._list(query)
        if (method, path) == ("GET", "/pools"):
            return 200, PoolsView(pools=self.pools)
        if path == "/doctor":
            return 200, DoctorView(findings=self._examined(mend=method == "POST"))
        name, _, part = path.removeprefix("/jobs/").partition("/")
        if name not in self.jobs:
            raise NoSuchJob(f"there is no job '{name}'", field="name")
        if part == "request":
            request = {
                k: v for k, v in self.requests.get(name, {}).items() if k not in self.withheld
            }
            return 200, RequestView(name=name, request=request, withheld=self.withheld)
        if method == "PATCH":
            return 200, self._amend(name, parse_amendment(body))
        return 200, self._cancel(name) if method == "DELETE" else self._look(name)

    def _submit(self, body: bytes) -> JobView:
        submission, request = parse_submission(body)
        if self.requests.get(submission.name, request) != request:
            raise NameTaken(f"'{submission.name}' is taken", field="TrainingJobName")
        self.requests[submission.name] = request
        job = self.taken(submission.name, submission.priority)
        return self.jobs.setdefault(submission.name, job)

    def taken(self, name: str, priority: int) -> JobView:
        """A new job as it first stands."""
        return waiting(len(self.jobs) + 1, name=name, priority=priority)

    def _list(self, query: dict[str, list[str]]) -> QueueView:
        states = query.get("state")
        jobs = [job for job in self.jobs.values() if states is None or job.state in states]
        return QueueView(jobs=jobs[: int(query.get("limit", ["1000"])[0])])

    def _look(self, name: str) -> JobView:
        script = self.scripts.get(name, [])
        if script:
            self.jobs[name] = script.pop(0)
        return self.jobs[name]

    def _examined(self, *, mend: bool) -> list[FindingView]:
        """Everything but an orphan is mended at once."""
        return [it.model_copy(update={"mended": mend and it.kind != "orphan"}) for it in self.drift]

    def _amend(self, name: str, wanted: AmendmentBody) -> JobView:
        job = self.jobs[name]
        if job.state in {"completed", "failed", "cancelled", "stopped"}:
            raise TooLate(f"{name} has ended", field="name")
        if wanted.tags:
            request = retagged(self.requests.get(name, {}), wanted.tags)
            self.requests[name] = request
            job = job.model_copy(
                update={"priority": int(wanted.tags.get("priority", job.priority))}
            )
        if wanted.held is not None:
            job = job.model_copy(update={"state": "held" if wanted.held else "pending"})
        self.jobs[name] = job
        return job

    def _cancel(self, name: str) -> JobView:
        if self.jobs[name].state in {"completed", "failed", "cancelled", "stopped"}:
            raise TooLate(f"{name} has ended", field="name")
        self.jobs[name] = self.jobs[name].model_copy(update={"state": "cancelled", "place": None})
        return self.jobs[name]


class FakeAnswer:
    def __init__(self, status: int, content: bytes | str, headers: dict[str, str] | None = None):
        self.status_code = status
        self.content = content.encode() if isinstance(content, str) else content
        self.headers = HeadersDict(headers or {})


class FakeHttp:
    """Sends requests to a FakeQueue, after whatever `troubles` are queued up: an answer or an error
    each. Keeps what was sent."""

    def __init__(self, queue: FakeQueue | None = None) -> None:
        self.queue = queue or FakeQueue()
        self.troubles: list[FakeAnswer | Exception] = []
        self.sent: list[Any] = []

    def send(self, request: Any) -> FakeAnswer:
        self.sent.append(request)
        if self.troubles:
            trouble = self.troubles.pop(0)
            if isinstance(trouble, Exception):
                raise trouble
            return trouble
        url = urlsplit(request.url)
        path = url.path.removeprefix("/prod")
        try:
            status, view = self.queue.handle(
                request.method, path, parse_qs(url.query), request.body or b""
            )
        except Refused as error:
            status = STATUS.get(error.code, 400)
            view = ErrorView(code=error.code, message=error.message, field=error.field)
        return FakeAnswer(status, view.model_dump_json())

    def last_body(self) -> Any:
        return json.loads(self.sent[-1].body)


class Clock:
    """A clock that only sleeping moves. `at` runs things when their moment has come."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.after_sleep: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
        self.after_sleep()


class FakeAws:
    """Stands for a boto3 session, as far as signing asks."""

    def __init__(self, *, signed: bool = True, region: str | None = "eu-west-1") -> None:
        self.signed = signed
        self.region_name = region

    def get_credentials(self) -> Any:
        from botocore.credentials import Credentials

        return Credentials("testing", "testing") if self.signed else None


class _Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


@contextmanager
def served(queue: FakeQueue) -> Iterator[str]:
    """The queue at a real address of this machine; gives the endpoint."""

    def app(environ, start_response):
        url = f"http://queue.test/prod{environ['PATH_INFO'].removeprefix('/prod')}"
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        request = SimpleNamespace(
            method=environ["REQUEST_METHOD"],
            url=f"{url}?{environ.get('QUERY_STRING', '')}",
            body=body,
        )
        answer = http.send(request)
        headers = [("Content-Type", "application/json")]
        start_response(f"{answer.status_code} {HTTPStatus(answer.status_code).phrase}", headers)
        return [answer.content]

    http = FakeHttp(queue)
    with make_server("127.0.0.1", 0, app, handler_class=_Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/prod"
        finally:
            server.shutdown()
            thread.join()


def client_of(
    http: FakeHttp,
    *,
    clock: Clock | None = None,
    config: Config | None = None,
    aws: FakeAws | None = None,
) -> QueueClient:
    config = config or Config(endpoint=ENDPOINT, region="eu-west-1")
    transport = Transport(
        config,
        aws=aws or FakeAws(),
        http=http,
        sleep=(clock or Clock()).sleep,
        jitter=lambda: 1.0,
    )
    return QueueClient(config=config, transport=transport)


def no_connection() -> Exception:
    return EndpointConnectionError(endpoint_url=ENDPOINT)

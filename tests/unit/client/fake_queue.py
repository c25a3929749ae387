"""A fake queue for tests of the client. It answers with wire views, keeps jobs in a dict and
decides nothing.

`FakeHttp` replaces botocore's HTTP session, so signing and retries are real.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit
from wsgiref.simple_server import WSGIRequestHandler, make_server

from botocore.awsrequest import HeadersDict
from botocore.exceptions import EndpointConnectionError

import slotq
from slotq.client import QueueClient
from slotq.configuration.settings import Config
from slotq.transport.signed_http import Transport
from slotq_core.errors import (
    NameTaken,
    NoSuchGroup,
    NoSuchJob,
    NoSuchPool,
    Outdated,
    PoolInUse,
    Refused,
    TooLate,
    TooManySubmissions,
)
from slotq_core.model.callers import NO_LIMITS, QueueUse
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group, StoredGroup, Sweep
from slotq_core.model.pools import PoolHealth
from slotq_core.model.users import classes_of
from slotq_core.timestamps import from_iso
from slotq_core.wire.base import ErrorView
from slotq_core.wire.configuration import (
    LimitsView,
    OwnLimitsView,
    limits_view,
    parse_limits,
    parse_pool,
)
from slotq_core.wire.groups.group_submission import parse_group
from slotq_core.wire.groups.members import parse_batch
from slotq_core.wire.groups.sweep import sweep_in, sweep_view
from slotq_core.wire.groups.views import (
    GangView,
    GroupSummaryView,
    GroupsView,
    GroupView,
    group_view,
    summary_view,
)
from slotq_core.wire.job_changes import (
    AmendmentBody,
    ChangeBody,
    OutcomesView,
    OutcomeView,
    parse_amendment,
    parse_changes,
    retagged,
)
from slotq_core.wire.limits_definition import OF_A_CALLER, limits_from
from slotq_core.wire.pool_definition import defined
from slotq_core.wire.record import ChangesView, ChangeView, PoolChangeView
from slotq_core.wire.resubmission import (
    all_taken,
    check_retryable,
    check_shown,
    names_to_try,
)
from slotq_core.wire.scenario.views import ScenarioView
from slotq_core.wire.submission import parse_submission
from slotq_core.wire.views import pools as views
from slotq_core.wire.views.about import AboutView, DoctorView, FindingView, MembershipView, MeView
from slotq_core.wire.views.jobs import AttemptView, JobView, QueueView, ReasonView, RequestView
from slotq_core.wire.views.nodes import NodesView, NodeView
from slotq_core.wire.views.pools import PoolsView, PoolView
from slotq_core.wire.views.usage import (
    AttemptsPageView,
    HeldSlotsView,
    UsagePageView,
    UsageRowView,
    WaitsView,
)
from tests.unit.client.fake_configuration import FakeConfiguration
from tests.unit.client.fake_scenario import fake_scenario

CALLER = "arn:aws:iam::123456789012:user/ada"
ENDPOINT = "https://queue.test/prod"
MOMENT = "2026-11-20T10:30:00.000Z"
STATUS = {
    "name_taken": 409,
    "too_late": 409,
    "pool_in_use": 409,
    "outdated": 409,
    "no_such_group": 404,
    "no_such_job": 404,
    "no_such_pool": 404,
    "no_such_project": 404,
}


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
        "submitter": CALLER,
        "attempts_begun": 0,
        "evictions": 0,
    }
    return JobView(name=name, state=state, **(given | fields))


def waiting(place: int, text: str = "the pool is full", **fields: Any) -> JobView:
    reason = ReasonView(code="no_free_slots", text=text, numbers={})
    return job_view(place=place, reason=reason, **fields)


def pool_view(
    name: str = "p5",
    *,
    used: int = 0,
    foreign: int = 0,
    health: dict[str, Any] | None = None,
    like: PoolView | None = None,
    **settings: Any,
) -> PoolView:
    """A pool with these settings; all other fields come from `like`."""
    given = {"slots": 4, "instance_type": "ml.p5.48xlarge"}
    wanted = {**(like.settings.model_dump() if like else given), **settings}
    pool = replace(defined(name, wanted), foreign=Demand(slots=foreign))
    pool = replace(pool, health=PoolHealth(**(health or {})))
    in_use = Demand(slots=used if like is None else like.used["slots"])
    return views.pool_view(pool, now=0, size=pool.size(0), used=in_use)


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
    """Answers the queue's calls. `script` sets the views that later calls return for a job."""

    def __init__(self, *jobs: JobView) -> None:
        self.jobs = {job.name: job for job in jobs}
        self.most_at_once = 1000
        """The largest number of jobs on one page of GET /jobs."""
        self.requests: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, tuple[list[str], int | None]] = {}
        self.members_per_page = 1_000
        """The members of each group, and how many of them may hold slots at once; None: a gang."""
        self.sweeps: dict[str, Sweep] = {}
        """What each sweep tries."""
        self.gangs: dict[str, GangView] = {}
        """The rules of each gang, and what it lacks."""
        self.group_reasons: dict[str, ReasonView] = {}
        self.withheld: list[str] = []
        """The parts of requests that are withheld from this caller."""
        self.scripts: dict[str, list[JobView]] = {}
        self.pools: list[PoolView] = []
        self.warnings_of_pools: list[str] = []
        self.changes: list[ChangeView] = []
        self.usage: list[UsagePageView] = [usage_page()]
        """The pages of GET /usage."""
        self.usage_queries: list[dict[str, list[str]]] = []
        self.attempts: list[AttemptsPageView] = [attempts_page()]
        """The pages of GET /attempts."""
        self.attempt_queries: list[dict[str, list[str]]] = []
        self.limits = NO_LIMITS
        self.configuration = FakeConfiguration()
        self.drift: list[FindingView] = []
        self.release = slotq.__version__
        self.dry_runs = True
        """Whether the queue knows dry submissions."""
        self.reaches: int | None = None
        """The number of changes that the queue has time for in one request; None: all."""
        self.room: int | None = None
        """The number of submissions that this minute has room for; None: any number."""
        self.person = CALLER
        self.scenario: ScenarioView = fake_scenario()
        self.nodes: list[NodeView] = []
        self.projects: list[MembershipView] = []
        """The person behind the caller."""

    def script(self, *views: JobView) -> None:
        self.jobs[views[0].name] = views[0]
        self.scripts[views[0].name] = list(views)

    def handle(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> Any:
        if (method, path) == ("POST", "/add-job"):
            return 202, placeless(self._submit(body))
        if path == "/jobs" and method != "GET":
            many = method == "POST"
            return 200, self._submit_batch(body) if many else self._change(parse_changes(body))
        if (method, path) == ("POST", "/groups"):
            return 202, self._submit_group(body)
        if path.startswith("/groups"):
            return 200, self._of_groups(path.removeprefix("/groups").strip("/"), query)
        if path.startswith("/jobs/"):
            return 200, self._of_job(method, *path.split("/")[2:], body=body)
        if path.startswith("/pools"):
            return 200, self._pools(method, path.removeprefix("/pools/"), query, body)
        if path.startswith(("/configuration", "/projects", "/quota")):
            dry_run, user = query.get("dry_run") == ["true"], query.get("user", [self.person])[0]
            return 200, self.configuration.handle(method, path, body, dry_run=dry_run, user=user)
        return 200, {
            "/jobs": lambda: self._list(query),
            "/changes": lambda: self._changes(query),
            "/usage": lambda: self._usage(query),
            "/attempts": lambda: self._attempts(query),
            "/limits": lambda: self._limits(method, body),
            "/nodes": lambda: NodesView(nodes=self.nodes),
            "/scenario": lambda: self.scenario,
            "/version": lambda: AboutView(
                slotq=self.release, caller=CALLER, dry_runs=self.dry_runs
            ),
            "/me": lambda: MeView(
                caller=CALLER, person=self.person, why="an IAM user", projects=self.projects
            ),
            "/doctor": lambda: DoctorView(findings=self._examined(mend=method == "POST")),
        }[path]()

    def _of_job(
        self, method: str, name: str, part: str = "", *, body: bytes
    ) -> JobView | RequestView:
        if name not in self.jobs:
            raise NoSuchJob(f"there is no job '{name}'", field="name")
        if part == "request":
            request = {
                k: v for k, v in self.requests.get(name, {}).items() if k not in self.withheld
            }
            return RequestView(name=name, request=request, withheld=self.withheld)
        if method == "PATCH":
            return placeless(self._amend(name, parse_amendment(body)))
        return self._cancel(name) if method == "DELETE" else self._look(name)

    def _change(self, changes: list[ChangeBody]) -> OutcomesView:
        outcomes = []
        for number, change in enumerate(changes):
            error: ErrorView | None = None
            if self.reaches is not None and number >= self.reaches:
                error = ErrorView(code="unavailable", message="send it again")
            else:
                try:
                    there = self._of_job("GET", change.name, body=b"")
                    assert isinstance(there, JobView)
                    if there.state not in change.states:
                        raise TooLate(f"job {change.name} has moved on", field="states")
                    there = placeless(self._changed(there, change))
                except Refused as refusal:
                    error = ErrorView(
                        code=refusal.code, message=refusal.message, field=refusal.field
                    )
            job = None if error else there
            outcomes.append(OutcomeView(name=change.name, job=job, error=error))
        return OutcomesView(outcomes=outcomes)

    def _changed(self, job: JobView, change: ChangeBody) -> JobView:
        if change.retry:
            return self._retry(job, change)
        if change.cancel:
            return job if job.state == "cancelled" else self._cancel(job.name)
        return self._amend(job.name, change)

    def _retry(self, job: JobView, change: ChangeBody) -> JobView:
        check_retryable(job.name, job.state)
        check_shown(job.name, self.withheld)
        for name in [change.new_name] if change.new_name else names_to_try(job.name):
            if self.room == 0:
                raise TooManySubmissions("60 in this minute are the most")
            request = retagged(self.requests.get(job.name, {}), change.tags)
            if name not in self.requests:
                self.room = None if self.room is None else self.room - 1
                made = self._submit(json.dumps({**request, "TrainingJobName": name}).encode())
                group = None if change.new_name else job.group
                self.jobs[name] = made.model_copy(update={"group": group or ""})
                return self.jobs[name]
        raise all_taken(job.name)

    def _limits(self, method: str, body: bytes) -> LimitsView:
        if method == "PATCH":
            settings, _ = parse_limits(body)
            self.limits = limits_from(settings, self.limits)
        own = OwnLimitsView(
            caller=CALLER,
            counted_as=CALLER,
            waiting_used=len(self.jobs),
            submissions_used=len(self.requests),
            **{key: getattr(self.limits.default, key) for key in OF_A_CALLER},
        )
        return limits_view(self.limits, revision=1, own=own, use=QueueUse())

    def _usage(self, query: dict[str, list[str]]) -> UsagePageView:
        """The pages in turn, and the last again and again."""
        self.usage_queries.append(query)
        return self.usage[min(len(self.usage_queries), len(self.usage)) - 1]

    def _attempts(self, query: dict[str, list[str]]) -> AttemptsPageView:
        """The pages in turn, and the last again and again."""
        self.attempt_queries.append(query)
        return self.attempts[min(len(self.attempt_queries), len(self.attempts)) - 1]

    def _changes(self, query: dict[str, list[str]]) -> ChangesView:
        return ChangesView(changes=self.changes[::-1][: int(query.get("limit", ["100"])[0])])

    def _pools(self, method: str, name: str, query: dict[str, list[str]], body: bytes) -> PoolsView:
        if method != "GET":
            seen = query["revision"][0] if "revision" in query else None
            settings, stated = parse_pool(body) if method == "PATCH" else (None, seen)
            if stated is not None and int(stated) != len(self.changes):
                raise Outdated(f"revision {len(self.changes)} by now", field="revision")
            self._set_pool(name, settings)
        return PoolsView(
            pools=self.pools, revision=len(self.changes), warnings=self.warnings_of_pools
        )

    def _set_pool(self, name: str, settings: dict[str, Any] | None) -> None:
        """Give the pool these settings; None: remove it."""
        there = {pool.name: pool for pool in self.pools}
        old = there.get(name)
        if old is None and "instance_type" not in (settings or {}):
            raise NoSuchPool(f"there is no pool '{name}'", field="name")
        if settings is None and there[name].used["slots"]:
            raise PoolInUse(f"pool {name} cannot be removed", field="name")
        new = None if settings is None else pool_view(name, like=old, **settings)
        self.pools = [*[each for each in self.pools if each.name != name], *([new] if new else [])]
        change = PoolChangeView(
            name=name, before=old.settings if old else None, after=new.settings if new else None
        )
        self.changes.append(
            ChangeView(
                revision=len(self.changes) + 1,
                who="arn:aws:sts::123456789012:assumed-role/Operator/grace",
                at=MOMENT,
                pools=[change],
                order=[pool.name for pool in self.pools],
            )
        )

    def dry_run(self, path: str, body: bytes) -> Any:
        """What the submission would be answered; nothing of it stays."""
        assert self.dry_runs, "an earlier release would store the job"
        kept = ("jobs", "requests", "groups", "gangs", "sweeps")
        before = {name: dict(getattr(self, name)) for name in kept}
        try:
            return 200, self.handle("POST", path, {}, body)[1]
        finally:
            vars(self).update(before)

    def _submit(self, body: bytes) -> JobView:
        submission, request = parse_submission(body)
        if self.requests.get(submission.name, request) != request:
            raise NameTaken(f"'{submission.name}' is taken", field="TrainingJobName")
        self.requests[submission.name] = request
        job = self.taken(submission.name, submission.priority)
        return self.jobs.setdefault(submission.name, job)

    def _submit_batch(self, body: bytes) -> OutcomesView:
        outcomes = []
        for place, (name, read) in enumerate(parse_batch(body)):
            job, error, again = None, None, None
            try:
                if self.reaches is not None and place >= self.reaches:
                    error = ErrorView(code="unavailable", message="send it again")
                elif isinstance(read, Refused):
                    raise read
                else:
                    job = placeless(self._submit_within(self.room, read[1]))
            except Refused as refusal:
                refusal.within(f"jobs.{place}")
                again = getattr(refusal, "retry_after", None)
                error = ErrorView(code=refusal.code, message=refusal.message, field=refusal.field)
            outcomes.append(OutcomeView(name=name, job=job, error=error, retry_after=again))
        return OutcomesView(outcomes=outcomes)

    def _submit_within(self, room: int | None, request: dict[str, Any]) -> JobView:
        """Submit a new job if this minute has room."""
        if room is not None and request["TrainingJobName"] not in self.requests:
            if room == 0:
                raise TooManySubmissions("60 in this minute are the most", retry_after=30)
            self.room = room - 1
        return self._submit(json.dumps(request).encode())

    def _submit_group(self, body: bytes) -> GroupView:
        group, members, _ = parse_group(body)
        names = [submission.name for submission, _ in members]
        if self.groups.get(group.name, (names,))[0] != names:
            raise NameTaken(f"a group named '{group.name}' exists already", field="name")
        for submission, request in members:
            self._submit(json.dumps(request).encode())
            job = self.jobs[submission.name]
            self.jobs[submission.name] = job.model_copy(update={"group": group.name})
        self.groups[group.name] = [submission.name for submission, _ in members], group.max_parallel
        if group.gang is not None:
            self.gangs[group.name] = GangView(**group.gang.model_dump())
        if group.sweep:
            self.sweeps[group.name] = sweep_in(group.sweep, len(members))
        return self._group(group.name)

    def _of_groups(self, name: str, query: dict[str, list[str]]) -> GroupView | GroupsView:
        if name:
            start = int(query.get("next", ["0"])[-1])
            return self._group(name, attempts=query.get("attempts") == ["true"], start=start)
        return self._groups(ended=query.get("ended") == ["true"])

    def _group(self, name: str, *, attempts: bool = False, start: int = 0) -> GroupView:
        if name not in self.groups:
            raise NoSuchGroup(f"there is no group '{name}'", field="name")
        current = self._current_jobs(name)
        jobs = [placeless(self.jobs[each]) for each in current.values()]
        if not attempts:
            jobs = [job.model_copy(update={"attempts": []}) for job in jobs]
        by_member = dict(zip(current, jobs, strict=True))
        sweep = sweep_view(self._stored_group(name), by_member, shows_parameters=True)
        end = start + self.members_per_page
        following = str(end) if end < len(jobs) else None
        view = group_view(
            self._summary(name),
            jobs[start:end],
            sweep=None if start else sweep,
            following=following,
        )
        return view.model_copy(update={"reason": self.group_reasons.get(name)})

    def _groups(self, *, ended: bool) -> GroupsView:
        found = [self._summary(name) for name in sorted(self.groups)]
        return GroupsView(
            groups=[it for it in found if ended or it.state in {"pending", "running", "held"}]
        )

    def _summary(self, name: str) -> GroupSummaryView:
        stored = self._stored_group(name)
        states = [self.jobs[each].state for each in self._current_jobs(name).values()]
        state = next((it for it in ("running", "pending", "held") if it in states), states[0])
        return summary_view(stored, states, gang=self.gangs.get(name), state=state)

    def _stored_group(self, name: str) -> StoredGroup:
        members, max_parallel = self.groups[name]
        return StoredGroup(
            group=Group(name=name, members=tuple(members), max_parallel=max_parallel),
            submitter=CALLER,
            digest="",
            at=from_iso(MOMENT),
            sweep=self.sweeps.get(name),
        )

    def _current_jobs(self, name: str) -> dict[str, str]:
        """The current job of each member: the member, or its retry."""
        members = self.groups[name][0]
        return {each: f"{each}-r2" if f"{each}-r2" in self.jobs else each for each in members}

    def taken(self, name: str, priority: int) -> JobView:
        """A new job as first stored."""
        return waiting(len(self.jobs) + 1, name=name, priority=priority)

    def _list(self, query: dict[str, list[str]]) -> QueueView:
        states = query.get("state")
        wanted = {key: query[key][0] for key in ("project", "submitter", "pool") if key in query}
        jobs = [
            job
            for job in self.jobs.values()
            if (states is None or job.state in states)
            and job.project in wanted.get("project", job.project).split(",")
            and wanted.get("submitter", "") in job.submitter
            and wanted.get("pool", job.pools[0]) in job.pools
            and query.get("since", [""])[0] <= job.entry_time
            and query.get("until", ["9"])[0] >= job.entry_time
        ]
        begin, most = int(query.get("next", ["0"])[0]), int(query.get("limit", ["1000"])[0])
        end = begin + min(most, self.most_at_once)
        more = len(jobs) > end
        return QueueView(jobs=jobs[begin:end], more=more, next=str(end) if more else None)

    def _look(self, name: str) -> JobView:
        script = self.scripts.get(name, [])
        if script:
            self.jobs[name] = script.pop(0)
        return self.jobs[name]

    def _examined(self, *, mend: bool) -> list[FindingView]:
        """Report every finding as mended, except orphans."""
        return [it.model_copy(update={"mended": mend and it.kind != "orphan"}) for it in self.drift]

    def _amend(self, name: str, wanted: AmendmentBody) -> JobView:
        job = self.jobs[name]
        if job.state in {"completed", "failed", "cancelled", "stopped"}:
            raise TooLate(f"{name} has ended", field="name")
        if wanted.tags:
            request = retagged(self.requests.get(name, {}), wanted.tags)
            self.requests[name] = request
            priority = wanted.tags.get("priority", str(job.priority))
            named = classes_of(()).get(priority)
            job = job.model_copy(
                update={
                    "priority": named.value if named else int(priority),
                    "priority_class": named.name if named else "",
                    "project": wanted.tags.get("slotq:project", job.project),
                }
            )
        if wanted.give_up is not None and job.state == "running":
            assert wanted.give_up == job.attempts_begun
            job = job.model_copy(update={"state": "stopping", "message": "given up by ada"})
        if wanted.held and job.pool is not None:
            raise TooLate(f"job {name} is {job.state}; only a waiting job can be held")
        if wanted.held is not None:
            job = job.model_copy(update={"state": "held" if wanted.held else "pending"})
        self.jobs[name] = job
        return job

    def _cancel(self, name: str) -> JobView:
        if self.jobs[name].state in {"completed", "failed", "cancelled", "stopped"}:
            raise TooLate(f"{name} has ended", field="name")
        self.jobs[name] = self.jobs[name].model_copy(update={"state": "cancelled", "place": None})
        return self.jobs[name]


def placeless(job: JobView) -> JobView:
    """The job as the queue answers changes: its place and reason are told by GET alone."""
    return job.model_copy(update={"place": None, "reason": None})


class FakeAnswer:
    def __init__(self, status: int, content: bytes | str, headers: dict[str, str] | None = None):
        self.status_code = status
        self.content = content.encode() if isinstance(content, str) else content
        self.headers = HeadersDict(headers or {})


class FakeHttp:
    """Sends requests to a FakeQueue, after the queued `troubles` (answers or errors). Keeps what
    was sent."""

    def __init__(self, queue: FakeQueue | None = None) -> None:
        self.queue = queue or FakeQueue()
        self.troubles: list[FakeAnswer | Exception] = []
        self.headers: dict[str, str] = {}
        """Added to the headers of every answer."""
        self.forbidden: set[str] = set()
        """Methods that IAM does not allow."""
        self.sent: list[Any] = []

    def send(self, request: Any) -> FakeAnswer:
        self.sent.append(request)
        if self.troubles:
            trouble = self.troubles.pop(0)
            if isinstance(trouble, Exception):
                raise trouble
            return trouble
        if request.method in self.forbidden:
            return FakeAnswer(403, '{"Message": "User: ada is not authorized to perform: it"}')
        url = urlsplit(request.url)
        path = url.path.removeprefix("/prod")
        query, body = parse_qs(url.query), request.body or b""
        try:
            if request.method == "POST" and query.get("dry_run") == ["true"]:
                status, view = self.queue.dry_run(path, body)
            else:
                status, view = self.queue.handle(request.method, path, query, body)
        except Refused as error:
            status = STATUS.get(error.code, 400)
            view = ErrorView(code=error.code, message=error.message, field=error.field)
        return FakeAnswer(status, view.model_dump_json(), self.headers)

    def last_body(self) -> Any:
        return json.loads(next(sent.body for sent in reversed(self.sent) if sent.body))


class Clock:
    """A clock that moves only in `sleep`. `at` runs functions at their times."""

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


class FakeNetwork:
    """Name resolution and connections, as a test sets them."""

    def __init__(self, *, addresses: tuple[str, ...] = ("10.0.0.7",), closed: bool = False) -> None:
        self.addresses, self.closed = addresses, closed

    def resolve(self, host: str) -> list[str]:
        if not self.addresses:
            raise OSError("Name or service not known")
        return list(self.addresses)

    def connect(self, host: str, port: int) -> None:
        if self.closed:
            raise TimeoutError("timed out")


class FakeAws:
    """A boto3 session with the parts that signing uses."""

    def __init__(self, *, signed: bool = True, region: str | None = "eu-west-1") -> None:
        self.signed = signed
        self.region_name = region
        self.profile_name = "default"

    def get_credentials(self) -> Any:
        from botocore.credentials import Credentials

        return Credentials("testing", "testing") if self.signed else None


class _Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


@contextmanager
def served(queue: FakeQueue) -> Iterator[str]:
    """Serve the queue at a local address and yield its endpoint."""

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


def attempts_page(*attempts: HeldSlotsView) -> AttemptsPageView:
    """A page of GET /attempts."""
    day = {"start": "2026-11-19T12:00:00.000Z", "end": "2026-11-20T12:00:00.000Z"}
    return AttemptsPageView(**day, as_of=day["end"], attempts=[*attempts])


def usage_page(*rows: UsageRowView, **fields: Any) -> UsagePageView:
    described = {
        "start": "2026-11-01T00:00:00.000Z",
        "end": "2026-11-20T12:00:00.000Z",
        "as_of": "2026-11-20T12:00:00.000Z",
        "by": ["project", "submitter", "pool", "class"],
        "rows": [*rows],
    }
    return UsagePageView(**(described | fields))


def usage_row(instance_type: str = "ml.g5.xlarge", **fields: Any) -> UsageRowView:
    described = {
        "group": {"project": "vision"},
        "instance_type": instance_type,
        "slot_seconds": 7200,
        "instance_seconds": 3600,
        "lost_seconds": 360,
        "lost_at_most_seconds": 0,
        "jobs": 1,
        "attempts": 2,
        "evictions_given": 1,
        "evictions_taken": 3,
        "waits": WaitsView(count=2, total_seconds=90, histogram=[(30.72, 1), (59.392, 1)]),
    }
    return UsageRowView(**(described | fields))

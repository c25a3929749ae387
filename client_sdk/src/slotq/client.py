"""QueueClient: the queue's calls, and its refusals as exceptions."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Self, Unpack
from urllib.parse import quote

from slotq.configuration.keywords import takes
from slotq.configuration.settings import Config, load
from slotq.cost.used import Used
from slotq.errors import (
    ExaminedLately,
    GroupUnfinished,
    InvalidRequest,
    NoDryRuns,
    NotAllowed,
    RequestWithheld,
    TooLate,
    TooManySubmissions,
)
from slotq.groups.bodies import body_of, rules_of
from slotq.groups.clones import cloned, members_of, names_of_clones, told_again
from slotq.jobs import resubmit
from slotq.jobs.job import QueuedJob, QueuedJobList
from slotq.jobs.many import Many
from slotq.jobs.rendering import JobList, PoolList
from slotq.jobs.request_check import check
from slotq.jobs.submission import (
    Awaited,
    JobSettings,
    dependencies,
    jsonable,
    settings_tags,
    with_dependencies,
    with_tags,
)
from slotq.sweeps.definition import define
from slotq.sweeps.sweep import Sweep, rounds_of, submitted
from slotq.transport import answers, discovery
from slotq.transport.answers import View
from slotq.transport.patience import patiently, to_stderr
from slotq.transport.scenario_pages import whole_scenario
from slotq.transport.signed_http import Answer, Transport
from slotq_core import names
from slotq_core.model.jobs import JobState
from slotq_core.usage.amounts import Totals, merge
from slotq_core.wire.body import MAX_BODY
from slotq_core.wire.configuration import LimitsView
from slotq_core.wire.document.views import (
    AppliedView,
    ConfigurationView,
    ProjectsView,
    QuotasView,
)
from slotq_core.wire.groups.views import GroupSummaryView, GroupsView, GroupView
from slotq_core.wire.job_changes import OutcomesView, OutcomeView
from slotq_core.wire.record import ChangesView, ChangeView
from slotq_core.wire.resubmission import check_shown
from slotq_core.wire.scenario.views import ScenarioView
from slotq_core.wire.views.about import AboutView, DoctorView, FindingView, MeView
from slotq_core.wire.views.jobs import JobView, QueueView, RequestView
from slotq_core.wire.views.pools import PoolsView, PoolView
from slotq_core.wire.views.usage import AttemptsPageView, HeldSlotsView, UsagePageView, totals_in

# Named here, for `list` within the class is one of its methods.
JobViews = list[JobView]
MOST_AT_ONCE = 1_000
"""Largest number of jobs in one answer of the queue."""
PoolViews = list[PoolView]
ChangeViews = list[ChangeView]
Outcomes = list[OutcomeView]
FindingViews = list[FindingView]
QueuedJobs = list[QueuedJob]
GroupViews = list[GroupSummaryView]
HeldSlots = list[HeldSlotsView]

_NO_NAMES, _IN_NO_NAME = frozenset({"", ".", ".."}), frozenset("/?#")
_MANY = 20
"""Reading so many requests one by one takes noticeable time."""


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
        aws_profile: str | None = None,
        priority: int | str | None = None,
        project: str | None = None,
        config: Config | None = None,
        transport: Transport | None = None,
    ) -> None:
        """What is not given comes from the environment or the config file
        (`slotq.configuration.settings`).

        `profile`: one of that file's; `aws_profile`: one of AWS's own files; `priority` and
        `project`: of jobs that name none. It can be copied and pickled; a pickle carries where
        credentials are found and never credentials, so a client that was handed keys raises
        PicklingError.
        """
        arguments = {
            "endpoint": endpoint,
            "api_id": api_id,
            "region": region,
            "profile": profile,
            "aws_profile": aws_profile,
            "priority": priority,
            "project": project,
        }
        self.config = config or load(arguments)
        if transport is None:
            self.config = discovery.complete(self.config)
        self.transport = transport or Transport(self.config)
        self.say: Callable[[str], None] = to_stderr
        """Hears why a call waits."""
        self.tags: Mapping[str, str] = settings_tags(
            priority=self.config.priority, project=self.config.project
        )
        """The settings of every job that it submits and that names none itself."""
        self._knows_dry_runs: bool | None = None
        """Whether the queue does; None: nobody has asked."""

    @takes(JobSettings)
    def with_settings(self, **settings: Unpack[JobSettings]) -> Self:
        """The same client, whose submissions have these settings where a request names none
        itself."""
        other = copy.copy(self)
        other.tags = {**self.tags, **settings_tags(**settings)}
        return other

    @property
    def aws(self) -> Any:
        """The boto3 session whose credentials sign."""
        return self.transport.aws

    def submit(self, request: Mapping[str, Any], *, dry_run: bool = False) -> JobView:
        """Put a CreateTrainingJob request into the queue and return the job as it then stands.

        The client's own settings (`priority`, `with_settings`) become tags of it where it has none.
        The same request again, while its job lives, gives the same job. Where the caller has
        submitted as much as one may in a minute, it says so and waits for a while. Raises
        InvalidRequest with every fault that this machine's botocore finds in it, and then nothing
        was sent; LimitReached, PriorityTooHigh and what else the queue refuses.

        `dry_run`: store nothing, and return the job as it would be: for what has to be uploaded
        first. Raises the same, and NoDryRuns.
        """
        (request,) = self._set([request])
        return self._put(request, dry_run=dry_run)

    def after(
        self, *awaited: Awaited, after_any: str | Iterable[Awaited] = ()
    ) -> AbstractContextManager[None]:
        """A context whose submissions come after these jobs and groups, which must complete first;
        those in `after_any` must only end. Each is given by its name, or as the client has returned
        it. What a submission comes after anyhow stays. For this client and this thread."""
        return dependencies(self, awaited, after_any)

    def _set(self, requests: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The requests with the client's own settings, and with what they come after here."""
        return [with_dependencies(with_tags(each, self.tags), self) for each in requests]

    def _put(self, request: Mapping[str, Any], *, dry_run: bool = False) -> JobView:
        request = jsonable(request)
        body = json.dumps(request).encode()
        if len(body) > MAX_BODY:
            raise InvalidRequest(
                f"the request has {len(body):,} bytes, and the limit is {MAX_BODY:,}: move "
                "large values (hyperparameters, environment) to S3"
            )
        check(request)
        query = self._query(dry_run=dry_run)

        def submit() -> JobView:
            return self._read(
                JobView, self.transport.call("POST", "/add-job", query=query, body=body)
            )

        return self._patiently(submit)

    def _query(self, *, dry_run: bool) -> Mapping[str, object] | None:
        """The query of a submission. Raises NoDryRuns where the queue would store the job: an
        earlier release ignores what it does not know."""
        if not dry_run:
            return None
        if self._knows_dry_runs is None:
            try:
                self._knows_dry_runs = self.about().dry_runs
            except NotAllowed:
                self._knows_dry_runs = False
        if not self._knows_dry_runs:
            raise NoDryRuns(
                "the queue cannot say what would come of a submission: it is of an earlier "
                "release, or you may not ask for its release (GET /version)"
            )
        return {"dry_run": "true"}

    def _patiently(self, call: Callable[[], JobView]) -> JobView:
        return patiently(call, TooManySubmissions, sleep=self.transport.sleep, say=self.say)

    def submit_group(
        self,
        name: str,
        members: Iterable[Mapping[str, Any]],
        *,
        max_parallel: int,
        sweep: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> GroupView:
        """Put jobs into the queue under one name, all or none. At most `max_parallel` of them hold
        slots at once.

        `members`: CreateTrainingJob requests, to which the client's own settings apply as in
        `submit`; what they share is sent once. `sweep`: what they try and look for, as `sweep` of
        POST /groups. The same group again is the same group. Where one request's time does not do
        for all of them, it says so and goes on. Raises what `submit` raises; the field of a
        member's fault begins with its place: `members.3.RoleArn`. `dry_run` as in `submit`.
        """
        body = body_of(name, self._set(members), {}, max_parallel=max_parallel, sweep=sweep)
        return self._put_group(body, dry_run=dry_run)

    def submit_gang(
        self,
        name: str,
        members: Iterable[Mapping[str, Any]],
        *,
        min_members: int | None = None,
        mandatory: Iterable[str] = (),
        same_pool: bool = False,
        ends_with: str | None = None,
        sites: Mapping[str, str] | None = None,
        heartbeat_seconds: int | None = None,
        dry_run: bool = False,
    ) -> GroupView:
        """Put jobs into the queue that start together or not at all: all of them, or `min_members`
        with all that are `mandatory` (names); with `same_pool` in one pool. The others join while
        the gang runs, as room comes.

        `ends_with`: the member, by name, whose end ends the gang; it also ends when too few of the
        others can still complete. `sites`: what members call themselves towards each other, by job
        name. `heartbeat_seconds`: how long a running member that reports may be silent.

        `members` as for `submit_group`. Raises what that raises, and NeverFits for a gang that
        empty pools could not hold.
        """
        rules = rules_of(
            min_members=min_members,
            mandatory=mandatory,
            same_pool=same_pool,
            ends_with=ends_with,
            sites=sites,
            heartbeat_seconds=heartbeat_seconds,
        )
        body = body_of(name, self._set(members), {}, gang=rules)
        return self._put_group(body, dry_run=dry_run)

    def clone_group(
        self,
        name: str,
        new_name: str,
        *,
        priority: int | str | None = None,
        project: str | None = None,
        resume: bool = False,
    ) -> GroupView:
        """Submit a group once more under another name, with its rules: a clone of each member, as
        `clone` makes it. The member `grid-1` of `grid` becomes `other-1` in `other`. Raises
        NoSuchGroup, and what `clone` raises."""
        found = self.group(name)
        members = [job.name for job in found.jobs]
        if len(members) < found.members:
            raise InvalidRequest(
                f"group {name} has {found.members} members, and {len(members)} are left to see: "
                "the records of ended jobs expire",
                field="name",
            )
        renamed = names_of_clones(name, members, new_name, members_of(found.sweep))
        tags = settings_tags(priority=priority, project=project)
        if len(members) > _MANY:
            self.say(f"slotq: reading the requests of {len(members)} jobs")
        requests = [
            with_tags(
                cloned(self._whole_request(each, resume=resume), renamed), tags, override=True
            )
            for each in members
        ]
        if found.gang is None:
            most, sweep = found.max_parallel or len(members), told_again(found.sweep)
            return self._put_group(body_of(new_name, requests, {}, max_parallel=most, sweep=sweep))
        rules = rules_of(
            min_members=found.gang.min_members,
            mandatory=[renamed[each] for each in found.gang.mandatory],
            same_pool=found.gang.same_pool,
            ends_with=renamed.get(found.gang.ends_with or ""),
            sites={renamed[each]: site for each, site in found.gang.sites.items()},
            heartbeat_seconds=found.gang.heartbeat_seconds,
        )
        return self._put_group(body_of(new_name, requests, {}, gang=rules))

    def _put_group(self, body: bytes, *, dry_run: bool = False) -> GroupView:
        query = self._query(dry_run=dry_run)

        def submit() -> GroupView:
            found = self._read(
                GroupView, self.transport.call("POST", "/groups", query=query, body=body)
            )
            return found if dry_run else self._with_further_members(found, {})

        waits = (TooManySubmissions, GroupUnfinished)
        return patiently(submit, *waits, sleep=self.transport.sleep, say=self.say)

    def sweep(
        self,
        name: str,
        request: Mapping[str, Any],
        space: Any,
        *,
        max_parallel: int,
        trials: int | None = None,
        seed: int = 0,
        first: int = 1,
        objective: str | Mapping[str, Any] | None = None,
        halving: Mapping[str, Any] | None = None,
    ) -> Sweep:
        """Try many values of a training's parameters: one job for each point of `space`, all under
        one name, at most `max_parallel` at once.

        `request`: the CreateTrainingJob request that they share. `space`: a grid (lists by
        parameter), a list of dicts, samplers by parameter (`slotq.uniform` …; then `trials` from
        number `first` on, by `seed`), or a function that is given the trials so far and returns
        those of the next round. A parameter is a hyperparameter, or with a dot another field
        (`Environment.SEED`). `objective`: a metric to minimise, or `{"metric": …, "maximize": True,
        "goal": …}`. `halving`: `{"parameter": …, "rungs": [1, 3, 9], "keep": 3}`.

        The same sweep again is the same sweep; `wait` goes on with its rounds. Raises
        InvalidRequest, and what `submit_group` raises.
        """
        definition = define(
            name=name,
            template={key: it for key, it in request.items() if key != "TrainingJobName"},
            space=space,
            max_parallel=max_parallel,
            trials=trials,
            seed=seed,
            first=first,
            objective=objective,
            halving=halving,
        )
        return submitted(self, definition)

    def get_sweep(self, name: str) -> Sweep:
        """A sweep that was submitted earlier, by whomever. Raises NoSuchGroup, and InvalidRequest
        if the group is no sweep."""
        return Sweep(self, rounds_of(self, name))

    def group(self, name: str, *, attempts: bool = False) -> GroupView:
        """A group with its members, and why a gang waits; with `attempts`, the attempts of each
        member too. Raises NoSuchGroup."""
        path, query = _below("/groups", name), {"attempts": "true"} if attempts else {}
        found = self._read(GroupView, self.transport.call("GET", path, query=query or None))
        return self._with_further_members(found, query)

    def _with_further_members(self, first: GroupView, query: Mapping[str, str]) -> GroupView:
        """The group whole: the members that its first page has no room for, too."""
        path, jobs, following = _below("/groups", first.name), [*first.jobs], first.next
        while following is not None:
            asked = {**query, "next": following}
            page = self._read(GroupView, self.transport.call("GET", path, query=asked))
            jobs += page.jobs
            following = page.next
        return first.model_copy(update={"jobs": jobs, "next": None})

    def groups(self, *, ended: bool = False) -> GroupViews:
        """The groups by name; with `ended`, also those whose members have all ended."""
        query = {"ended": "true"} if ended else None
        return self._read(GroupsView, self.transport.call("GET", "/groups", query=query)).groups

    def job(self, name: str) -> JobView:
        """One job with its attempts, place and reason. Raises NoSuchJob."""
        return self._read(JobView, self.transport.call("GET", _path(name)))

    def jobs(
        self,
        states: str | Iterable[str] | None = None,
        *,
        limit: int | None = None,
        project: str | Iterable[str] | None = None,
        submitter: str | None = None,
        pool: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> JobList:
        """Jobs in the order of the queue: running, then waiting by place, then ended. At most
        `limit` (default: 1,000); `more` of the list says whether there are others.

        Where the queue has more than 1,000, or more than `limit`, waiting jobs come by entry time,
        without their places. A limit above 1,000 takes several requests.

        `states` keeps only those, one or several (None: all). `project`: one or several.
        `submitter`: an ARN (one's own: `me().person`), or a name that stands in it between its
        slashes; `pool`: where it runs or, while it does not, may run; `since`, `until`: when it
        entered. Raises InvalidRequest where there is no such state, and NoSuchProject.
        """
        query: dict[str, object] = {
            key: moment.astimezone(UTC).isoformat()
            for key, moment in (("since", since), ("until", until))
            if moment is not None
        }
        named = project if project is None or isinstance(project, str) else ",".join(project)
        wanted = {"project": named, "submitter": submitter, "pool": pool}
        query |= {key: text for key, text in wanted.items() if text is not None}
        if states is not None:
            query["state"] = _states(states)
            if not query["state"]:
                return JobList()
        if limit is not None:
            query["limit"] = min(limit, MOST_AT_ONCE)
        most = MOST_AT_ONCE if limit is None else limit
        found: dict[str, JobView] = {}
        while True:
            page = self._read(QueueView, self.transport.call("GET", "/jobs", query=query))
            for job in page.jobs:
                found.pop(job.name, None)  # It has changed its state since the page before.
                found[job.name] = job
            if page.next is None or len(found) >= most:
                break
            query |= {"next": page.next, "limit": min(most - len(found), MOST_AT_ONCE)}
        jobs = JobList(found.values())
        jobs.more = page.more
        return jobs

    def cancel(self, name: str) -> JobView:
        """Cancel a job, whether it waits or runs. Raises NoSuchJob, TooLate (it has ended).

        Cancelling a cancelled job is no error: the first answer may have been lost.
        """
        try:
            return self._read(JobView, self.transport.call("DELETE", _path(name)))
        except TooLate:
            job = self.job(name)
            if job.state == "cancelled":
                return job
            raise

    def request(self, name: str) -> dict[str, Any]:
        """The job's CreateTrainingJob request, with the tags of today. Raises NoSuchJob.

        Where another person submitted the job, without what may hold secrets
        (`HyperParameters`, `Environment` and more).
        """
        return self._request(name).request

    def _request(self, name: str) -> RequestView:
        return self._read(RequestView, self.transport.call("GET", f"{_path(name)}/request"))

    def hold(self, name: str) -> JobView:
        """The job shall not start until it is released. Raises NoSuchJob; TooLate where it holds
        slots or has ended. Holding a held job is no error."""
        return self._amend(name, held=True)

    def release(self, name: str) -> JobView:
        """A held job waits again, at its old entry time. Raises NoSuchJob, TooLate (it has ended).
        Releasing a job that is not held is no error."""
        return self._amend(name, held=False)

    def requeue(self, name: str) -> JobView:
        """Stop the running attempt; the job goes back into the line, at its old entry time and with
        its checkpoints. No error where it waits: then there is nothing to give up. Raises
        NoSuchJob; TooLate where it is being cancelled or has ended."""
        # The attempt's number goes with the wish: repeated, it does not cost the next attempt too.
        return self._amend(name, give_up=self.job(name).attempts_begun)

    def set_priority(self, name: str, priority: int | str) -> JobView:
        """High first. A running job's counts too: it says whom it is evicted for. Raises NoSuchJob,
        TooLate (it has ended), InvalidRequest."""
        return self._amend(name, tags=settings_tags(priority=priority))

    def move(self, name: str, pools: str | Iterable[str]) -> JobView:
        """It accepts these pools from now on, the most welcome first; a running attempt stays where
        it is. Raises NoSuchJob, TooLate (it has ended), InvalidRequest, NeverFits."""
        return self._amend(name, tags=settings_tags(pools=pools))

    def transfer(self, name: str, project: str) -> JobView:
        """It belongs to this project from now on, with the project's pools where it names none. For
        jobs that hold no slots. Raises NoSuchJob, NotPermitted, ProjectNotAllowed; TooLate (it
        holds slots, or has ended); and what a submission to the project raises."""
        return self._amend(name, tags=settings_tags(project=project))

    def add_tags(self, name: str, tags: Mapping[str, str]) -> dict[str, str]:
        """Add tags to the job and to every attempt that it will begin; returns all that it has.
        Queue settings are tags too. Raises NoSuchJob, TooLate (it has ended), InvalidRequest."""
        self._amend(name, tags=tags)
        return {tag["Key"]: tag["Value"] for tag in self.request(name).get("Tags") or ()}

    def clone(
        self,
        name: str,
        new_name: str,
        *,
        priority: int | str | None = None,
        project: str | None = None,
        resume: bool = False,
    ) -> JobView:
        """Submit a job's request once more under another name, as its caller's, in its project
        unless another is given.
        Raises NoSuchJob, what `submit` raises, and NotAllowed where the request is not shown whole
        to this caller.

        What the first writes its checkpoints to, the second finds there. A place that the queue
        provided is the first one's alone, unless the second is to `resume` its work.
        """
        again = self._whole_request(name, resume=resume)
        request = {**again, "TrainingJobName": new_name}
        tags = settings_tags(priority=priority, project=project)
        return self._put(with_tags(request, tags, override=True))

    def _whole_request(self, name: str, *, resume: bool) -> Mapping[str, Any]:
        """The request to submit again. Raises NotAllowed where it is not shown whole."""
        kept = self._request(name)
        try:
            check_shown(name, kept.withheld)
        except RequestWithheld as refused:
            raise NotAllowed(refused.message) from None
        return kept.request if resume else names.without_provided_checkpoints(kept.request)

    def retry(
        self,
        name: str,
        new_name: str | None = None,
        *,
        priority: int | str | None = None,
        project: str | None = None,
    ) -> JobView:
        """Submit the request of a job that has ended without completing once more. Raises
        NoSuchJob, InvalidRequest (it has not ended, or has completed), and what `submit` raises.

        A name is used once, so it is another job: `new_name`, else the first free one of
        `<name>-r2`, `<name>-r3` … . It goes on from the first one's checkpoints. Without a
        `new_name` the retry of a member of your sweep takes its place in the sweep.
        """
        return resubmit.retry(
            self, name, new_name, priority=priority, project=project, patiently=self._patiently
        )

    def pools(self) -> PoolViews:
        """The pools in their order, with what is used of them and what was learned of them."""
        return PoolList(self.configuration().pools)

    def about(self) -> AboutView:
        """The queue's release, and whom it takes the caller for."""
        return self._read(AboutView, self.transport.call("GET", "/version"))

    def me(self) -> MeView:
        """The person behind the caller, and how the queue decided it."""
        return self._read(MeView, self.transport.call("GET", "/me"))

    def configuration(self) -> PoolsView:
        """The pools, with the revision of the configuration that they are of."""
        return self._read(PoolsView, self.transport.call("GET", "/pools"))

    def set_pool(
        self, name: str, settings: Mapping[str, Any], *, revision: int | None = None
    ) -> PoolsView:
        """Change a pool's settings, or make a pool of `slots` and `instance_type`; what is not
        named stays. Durations are seconds, None is none (`PoolSettingsView` has all there is).
        `forget_limit: True` among them, or `slots`, makes the queue forget what SageMaker's
        refusals have shown of the pool.

        `revision`: what this was decided on. Raises InvalidRequest, NoSuchPool, Outdated (there is
        another revision by now). The same settings again are no error.
        """
        stated = {} if revision is None else {"revision": revision}
        body = json.dumps({**settings, **stated}).encode()
        answer = self.transport.call("PATCH", _below("/pools", name), body=body)
        return self._read(PoolsView, answer)

    def remove_pool(self, name: str, *, revision: int | None = None) -> PoolsView:
        """Raises NoSuchPool, Outdated, PoolInUse (jobs run there, or wait for it alone) and
        InvalidRequest for the last pool."""
        query = None if revision is None else {"revision": revision}
        answer = self.transport.call("DELETE", _below("/pools", name), query=query)
        return self._read(PoolsView, answer)

    def limits(self) -> LimitsView:
        """What callers may ask of the queue, and what this one has used of it."""
        return self._read(LimitsView, self.transport.call("GET", "/limits"))

    def set_limits(self, settings: Mapping[str, Any], *, revision: int | None = None) -> LimitsView:
        """Change the limits (`LimitSettingsView` has all there is); what is not named stays, and 0
        is no limit. `revision`: what this was decided on. Raises InvalidRequest, Outdated."""
        stated = {} if revision is None else {"revision": revision}
        body = json.dumps({**settings, **stated}).encode()
        return self._read(LimitsView, self.transport.call("PATCH", "/limits", body=body))

    def document(self) -> ConfigurationView:
        """The whole configuration as one document, with its revision."""
        return self._read(ConfigurationView, self.transport.call("GET", "/configuration"))

    def apply(
        self,
        document: Mapping[str, Any],
        *,
        revision: int | None = None,
        dry_run: bool = False,
    ) -> AppliedView:
        """Replace the whole configuration by a document; return what has changed. What it leaves
        out gets its default, and the same document again changes nothing.

        `revision`: what this was decided on; None replaces whatever there is. `dry_run`: only say
        what would change. Raises InvalidRequest and Oversubscribed, with every fault in `faults`;
        PoolInUse, ProjectInUse, Outdated.
        """
        stated = {} if revision is None else {"revision": revision}
        body = json.dumps({"configuration": document, **stated}).encode()
        query = {"dry_run": "true"} if dry_run else None
        answer = self.transport.call("PUT", "/configuration", body=body, query=query)
        return self._read(AppliedView, answer)

    def projects(self) -> ProjectsView:
        """The projects, the oldest first, with what their jobs hold."""
        return self._read(ProjectsView, self.transport.call("GET", "/projects"))

    def set_project(
        self, name: str, keys: Mapping[str, Any], *, revision: int | None = None
    ) -> AppliedView:
        """Change keys of a project's entry in the document, or add a project. None is a key's
        default; keys that are not named stay. `revision`: what this was decided on. Raises
        InvalidRequest, Oversubscribed, Outdated."""
        stated = {} if revision is None else {"revision": revision}
        body = json.dumps({**keys, **stated}).encode()
        answer = self.transport.call("PATCH", _below("/projects", name), body=body)
        return self._read(AppliedView, answer)

    def remove_project(
        self, name: str, *, move_to: str | None = None, revision: int | None = None
    ) -> AppliedView:
        """Remove a project. `move_to`: the project that its jobs shall have. Raises NoSuchProject,
        ProjectInUse (it has jobs, and `move_to` is not given), Oversubscribed, Outdated."""
        given: dict[str, object] = {"move_to": move_to, "revision": revision}
        query = {key: value for key, value in given.items() if value is not None}
        answer = self.transport.call("DELETE", _below("/projects", name), query=query or None)
        return self._read(AppliedView, answer)

    def quotas(self, user: str | None = None) -> QuotasView:
        """What a user holds of the slots that the user may hold, by pool and class. `user`: a
        person as in `me().person`, or `everyone`; None: the caller. Raises NotPermitted for others
        unless the caller is an operator."""
        query = None if user is None else {"user": user}
        return self._read(QuotasView, self.transport.call("GET", "/quota", query=query))

    def scenario(self) -> ScenarioView:
        """The whole queue as the next pass decides on it, for simulations (`slotq whatif`). Jobs
        that the caller may not see bear stand-in names.

        A long queue has several pages, all of one moment. Where the queue changes too fast for
        that, the first page alone is returned; its `left_out` says how many jobs are missing.
        """
        return whole_scenario(self._scenario_page)

    def _scenario_page(self, following: str | None) -> ScenarioView:
        query = None if following is None else {"next": following}
        return self._read(ScenarioView, self.transport.call("GET", "/scenario", query=query))

    def changes(self, *, limit: int | None = None) -> ChangeViews:
        """The changes of the configuration, the latest first: who, when, before, after."""
        query = None if limit is None else {"limit": limit}
        return self._read(ChangesView, self.transport.call("GET", "/changes", query=query)).changes

    def usage(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        by: Sequence[str] = (),
        said: Callable[[UsagePageView], None] = lambda _: None,
    ) -> Used:
        """What jobs have used from `start` to before `end` (default: this month so far), by any of
        `project`, `submitter`, `pool` and `class`. Each attempt counts once, to the millisecond.

        `said` hears each page. Raises InvalidRequest if the window is empty, or begins or ends
        within a day of which the queue no longer keeps single attempts.
        """
        query: dict[str, object] = {"by": ",".join(by)} if by else {}
        for key, moment in (("from", start), ("to", end)):
            if moment is not None:
                query[key] = moment.astimezone(UTC).isoformat()
        totals: Totals = {}
        unreadable = 0
        while True:
            page = self._read(UsagePageView, self.transport.call("GET", "/usage", query=query))
            said(page)
            unreadable += page.unreadable
            merge(totals, totals_in(page.rows))
            if page.next is None:
                break
            query |= {"from": page.start, "to": page.end, "next": page.next}
        return Used(
            start=page.start,
            end=page.end,
            as_of=page.as_of,
            by=tuple(by),
            totals=totals,
            unreadable=unreadable,
        )

    def attempts(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        pool: str = "",
        said: Callable[[AttemptsPageView], None] = lambda _: None,
    ) -> AttemptsPageView:
        """The attempts that held slots from `start` to before `end` (default: the last day), in one
        pool or in all: those that ended, then those that go on. All pages as one.

        `said` hears each page. Raises InvalidRequest if the window is empty.
        """
        query: dict[str, object] = {"pool": pool} if pool else {}
        for key, moment in (("from", start), ("to", end)):
            if moment is not None:
                query[key] = moment.astimezone(UTC).isoformat()
        found: HeldSlots = []
        gone = unreadable = 0
        while True:
            page = self._read(
                AttemptsPageView, self.transport.call("GET", "/attempts", query=query)
            )
            said(page)
            found += page.attempts
            gone, unreadable = gone + page.gone, unreadable + page.unreadable
            if page.next is None:
                break
            query |= {"from": page.start, "to": page.end, "next": page.next}
        sums = {"gone": gone, "unreadable": unreadable, "settled": None}
        return page.model_copy(update={"attempts": found, **sums})

    def doctor(self, *, fix: bool = False) -> FindingViews:
        """Everything that the queue keeps and that disagrees with itself or with SageMaker; mended
        where `fix` says so and where one look suffices. For operators; where somebody has just
        asked, it says so and waits its turn."""
        method = "POST" if fix else "GET"

        def ask() -> FindingViews:
            return self._read(DoctorView, self.transport.call(method, "/doctor")).findings

        return patiently(ask, ExaminedLately, sleep=self.transport.sleep, say=self.say)

    def many(
        self, jobs: Iterable[str | QueuedJob | JobView], *, states: Iterable[str] | None = None
    ) -> Many:
        """Jobs to cancel, hold, retry … together: a request for each hundred, and an outcome for
        each job (`Many`). `states`: only those that are still in one of these; None: whatever they
        are."""
        names = [job if isinstance(job, str) else job.name for job in jobs]
        return Many(self, names, states=states)

    def change(self, changes: Sequence[Mapping[str, Any]]) -> Outcomes:
        """Change up to 100 jobs in one request, each as if alone: `{"name": …, "cancel": True}`,
        `{"name": …, "retry": True}` with `new_name` and `tags` of the new job, or any of `held`,
        `tags` and `give_up`; `states`: only while it is in one of these.

        An outcome for each, in this order; the error `unavailable` says that there was no time for
        that one. Raises InvalidRequest where a change is malformed; then nothing is changed.
        """
        body = json.dumps({"changes": [*changes]}).encode()
        return self._read(OutcomesView, self.transport.call("PATCH", "/jobs", body=body)).outcomes

    def get(self, name: str) -> QueuedJob:
        """One job as an object, to act on and to wait for. Raises NoSuchJob."""
        return QueuedJob(self, self.job(name))

    def list(
        self, states: str | Iterable[str] | None = None, *, limit: int | None = None
    ) -> QueuedJobs:
        """As `jobs`, as objects."""
        return QueuedJobList(QueuedJob(self, view) for view in self.jobs(states, limit=limit))

    def _amend(self, name: str, **changes: Any) -> JobView:
        body = json.dumps(changes).encode()
        return self._read(JobView, self.transport.call("PATCH", _path(name), body=body))

    def _read(self, view: type[View], answer: Answer) -> View:
        return answers.read(view, answer, self.transport, self.config)


def _states(wanted: str | Iterable[str]) -> list[str]:
    """One, several between commas, or several. Raises InvalidRequest where one of them is none."""
    given = wanted.split(",") if isinstance(wanted, str) else [*wanted]
    for state in given:
        if state not in tuple(JobState):
            raise InvalidRequest(
                f"state takes any of {', '.join(JobState)}, not {state!r}", field="state"
            )
    return given


def _below(path: str, name: str) -> str:
    """The path of one of many. Raises InvalidRequest for a name that would lead to another path."""
    if name in _NO_NAMES or not name.isprintable() or not _IN_NO_NAME.isdisjoint(name):
        raise InvalidRequest(f"{name!r} is no name", field="name")
    return f"{path}/{quote(name, safe='')}"


def _path(name: str) -> str:
    if not names.is_legal(name):
        raise InvalidRequest(f"{name!r} cannot be a job's name: use {names.RULE}", field="name")
    return "/jobs/" + quote(name, safe="")

"""QueueClient: the queue's calls, and its refusals as exceptions.

What calls of one noun need is imported with the first of them: `slotq ls` starts without the rest.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self, Unpack

from slotq.configuration.keywords import takes
from slotq.configuration.settings import Config, load
from slotq.earlier_names import EarlierNames
from slotq.groups.batches import BatchCalls
from slotq.jobs.job_calls import JobCalls
from slotq.jobs.submission import Awaited, JobSettings, dependencies, settings_tags
from slotq.transport import discovery
from slotq.transport.connection import to_stderr
from slotq.transport.signed_http import Transport

if TYPE_CHECKING:
    from slotq.groups.group_calls import GroupCalls
    from slotq.jobs.job import QueuedJob
    from slotq.jobs.many import Many
    from slotq.queue_calls import (
        ConfigurationCalls,
        PoolCalls,
        ProjectCalls,
        ServiceCalls,
        UsageCalls,
    )
    from slotq.sweeps.sweep import SweepCalls
    from slotq_core.wire.views.jobs import JobView

    QueuedJobs = list[QueuedJob]
    """Named here, for `list` within the class is one of its methods."""


class QueueClient(BatchCalls, EarlierNames):
    """Calls the queue's API. The daily verbs are methods; all others are grouped by noun:
    `queue.jobs.cancel("job1")`, `queue.pools.set("p5", {"slots": 4})`.

    Every call may raise NotConfigured, NotAllowed, CannotReach, Unavailable and UnexpectedAnswer
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
        """Missing settings come from the environment or the config file
        (`slotq.configuration.settings`).

        `profile`: one of that file's; `aws_profile`: one of AWS's own files; `priority` and
        `project`: of jobs that name none. A client can be copied and pickled. A pickle names the
        source of the credentials and never contains them, so pickling a client with explicit keys
        raises PicklingError.
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
        self.say = to_stderr
        self.tags = settings_tags(priority=self.config.priority, project=self.config.project)
        self.knows_dry_runs = None

    @takes(JobSettings)
    def with_settings(self, **settings: Unpack[JobSettings]) -> Self:
        """The same client with these settings as defaults of its submissions."""
        other = copy.copy(self)
        other.tags = {**self.tags, **settings_tags(**settings)}
        return other

    @property
    def aws(self) -> Any:
        """The boto3 session whose credentials sign."""
        return self.transport.aws

    def submit(self, request: Mapping[str, Any], *, dry_run: bool = False) -> JobView:
        """Put a CreateTrainingJob request into the queue and return the new job.

        The client's own settings (`priority`, `with_settings`) become tags, unless the request has
        them. The same request again, while its job lives, returns the same job. At the limit of
        submissions per minute it reports that and waits. Raises InvalidRequest with every fault
        that this machine's botocore finds, before anything is sent; LimitReached, PriorityTooHigh
        and the queue's other refusals.

        `dry_run`: store nothing, and return the job as it would be, to check a request before its
        upload. Raises the same, and NoDryRuns.
        """
        return self.jobs.submit(request, dry_run=dry_run)

    def after(
        self, *awaited: Awaited, after_any: str | Iterable[Awaited] = ()
    ) -> AbstractContextManager[None]:
        """Add these dependencies to every submission in the block, in addition to its own. The jobs
        and groups must complete first; those in `after_any` must only end. Each is a name, or a job
        or group as the client returns it. For this client and this thread."""
        return dependencies(self, awaited, after_any)

    def get(self, name: str) -> QueuedJob:
        """One job as an object, to act on and to wait for. Raises NoSuchJob."""
        from slotq.jobs.job import QueuedJob

        return QueuedJob(self, self.jobs.view(name))

    def list(
        self, states: str | Iterable[str] | None = None, *, limit: int | None = None
    ) -> QueuedJobs:
        """As `jobs`, as objects."""
        from slotq.jobs.job import QueuedJob, QueuedJobList

        return QueuedJobList(QueuedJob(self, view) for view in self.jobs(states, limit=limit))

    def many(
        self, jobs: Iterable[str | QueuedJob | JobView], *, states: Iterable[str] | None = None
    ) -> Many:
        """Jobs to cancel, hold, retry … together: one request per hundred, one outcome per job
        (`Many`). `states`: change only jobs that are still in one of these states; None: in any
        state."""
        from slotq.jobs.many import Many

        names = [job if isinstance(job, str) else job.name for job in jobs]
        return Many(self.jobs, names, states=states)

    @property
    def jobs(self) -> JobCalls:
        """Jobs by name; `queue.jobs(states, …)` lists them."""
        return JobCalls(self)

    @property
    def groups(self) -> GroupCalls:
        """Jobs submitted together; `queue.groups()` lists the groups."""
        from slotq.groups.group_calls import GroupCalls

        return GroupCalls(self)

    @property
    def sweeps(self) -> SweepCalls:
        """Many jobs from one request."""
        from slotq.sweeps.sweep import SweepCalls

        return SweepCalls(self)

    @property
    def pools(self) -> PoolCalls:
        """Pools by name; `queue.pools()` lists them."""
        from slotq.queue_calls import PoolCalls

        return PoolCalls(self)

    @property
    def projects(self) -> ProjectCalls:
        """Projects by name; `queue.projects()` shows them all."""
        from slotq.queue_calls import ProjectCalls

        return ProjectCalls(self)

    @property
    def configuration(self) -> ConfigurationCalls:
        """The configuration as a whole, its history, and the limits of callers."""
        from slotq.queue_calls import ConfigurationCalls

        return ConfigurationCalls(self)

    @property
    def usage(self) -> UsageCalls:
        """What jobs have used: `queue.usage(…)` adds it up."""
        from slotq.queue_calls import UsageCalls

        return UsageCalls(self)

    @property
    def service(self) -> ServiceCalls:
        """The queue itself: its release, its callers, its health, its snapshot."""
        from slotq.queue_calls import ServiceCalls

        return ServiceCalls(self)

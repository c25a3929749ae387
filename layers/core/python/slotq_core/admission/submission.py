"""A submission from end to end, under one configuration.

Between the two steps the caller looks up the predecessors: only that needs a store.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slotq_core.admission.access import Permissions
from slotq_core.admission.checkpoints import assured, notice, provided
from slotq_core.admission.dependencies import Predecessors, check_dependencies
from slotq_core.admission.instances import capacity_kinds
from slotq_core.admission.instances.warm_keys import with_warm_key
from slotq_core.admission.prescribed import completed, usable_pools, with_approval
from slotq_core.admission.requirements import in_parts
from slotq_core.admission.roles_and_plans import ExecutionRoles, TrainingPlans
from slotq_core.admission.rules import admit
from slotq_core.admission.user_groups import rights_of
from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.groups import end_of
from slotq_core.model.jobs import Job, JobState, Submission
from slotq_core.model.pools import Pool
from slotq_core.model.projects import Project
from slotq_core.privacy.identity import People
from slotq_core.wire.training import field_rules

Request = Mapping[str, Any]

After = tuple[tuple[str, ...], tuple[str, ...]]
"""The dependencies of a submission: `after` and `after_any`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A submission in its project, with the project's values filled in."""

    submission: Submission
    request: Request
    project: Project | None

    @property
    def after(self) -> After:
        return self.submission.after, self.submission.after_any


@dataclass(frozen=True, kw_only=True, slots=True)
class Admitted:
    """The job that a submission makes."""

    job: Job
    request: Request
    notices: tuple[str, ...]
    """Notices to the user, as sentences."""
    after: tuple[Job, ...]
    """The jobs that it has to wait for."""
    watched: tuple[Job, ...]
    """The watch of each group that it has to wait for (`operations.jobs.group_watch`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """Admission of one caller's submissions, under one configuration and at one moment."""

    submitter: str
    now: int
    permissions: Permissions
    people: People
    pools: Sequence[Pool]
    line_by_user: bool
    """Whether each line has one user."""
    roles: ExecutionRoles
    plans: TrainingPlans

    def prepared(self, submission: Submission, request: Request) -> Prepared:
        """The submission as its project completes it. Raises InvalidRequest, ProjectNotAllowed,
        ForbiddenByProject, RoleNotAllowed and PlanNotAllowed."""
        project = self.permissions.project_for(submission.project, self.submitter)
        if project is not None:
            submission = replace(submission, project=project.name)
        if submission.gpus:
            from slotq_core.admission.instances.nodes import (
                filled,  # Few jobs ask for GPUs of a node.
            )

            submission, request = filled(submission, request, self.pools, project)
        submission, request = completed(submission, request, project)
        submission = in_parts(submission, self.pools, project.pools if project else ())
        self.roles.check(submission.role, submitter=self.submitter)
        self.plans.check(submission.plan)
        check_dependencies(submission.name, submission.after, submission.after_any)
        return Prepared(submission=submission, request=request, project=project)

    def admitted(
        self, prepared: Prepared, predecessors: Predecessors, *, ours: Container[str] = ()
    ) -> Admitted:
        """The job that the submission makes after these predecessors. `ours`: jobs that will be
        stored before it. Raises InvalidRequest, NeverFits, CheckpointsRequired, ClassNotAllowed,
        ForbiddenByProject and PriorityTooHigh."""
        project, request = prepared.project, prepared.request
        submission = replace(
            prepared.submission,
            after=predecessors.full(prepared.submission.after),
            after_any=predecessors.full(prepared.submission.after_any),
        )
        pools = usable_pools(submission, self.pools, project)
        job = self._job(submission, pools, project, predecessors, ours)
        if submission.gpus:
            from slotq_core.admission.instances.nodes import with_gpus  # As above.

            job = with_gpus(job, submission, request, pools)
        if any(pool.asks_how_long for pool in self.pools):
            from slotq_core.admission.instances.runtimes import with_longest  # Few pools have any.

            job = with_longest(job, request, self.pools)
        job = assured(replace(job, line_by_user=self.line_by_user), pools)
        trains = job.work is WorkKind.TRAINING
        job = with_warm_key(job, request, pools) if trains else job
        notices = (
            *(field_rules.warnings(request) if trains else ()),
            *capacity_kinds.warnings(submission, job, pools),
        )
        if job.checkpoints and not submission.checkpoints:
            request = provided(request, job)
            notices += (notice(request),)
        self.permissions.check_priority(project, job.priority, caller=self.submitter)
        role = self.permissions.role(self.submitter, job.project)
        job = with_approval(job, project, role, self.now)
        watches = [predecessors.groups[end_of(name)].living for name in job.awaited_groups]
        found = predecessors.jobs
        return Admitted(
            job=job,
            request=request,
            notices=notices,
            after=tuple(found[name] for name in job.awaited_jobs if name in found),
            watched=tuple(watch for watch in watches if watch),
        )

    def _job(
        self,
        submission: Submission,
        pools: Sequence[Pool],
        project: Project | None,
        predecessors: Predecessors,
        ours: Container[str],
    ) -> Job:
        named = (*submission.after, *submission.after_any)
        sharing = self.permissions.sharing
        return admit(
            submission,
            pools,
            submitter=self.submitter,
            now=self.now,
            states={name: JobState.PENDING for name in named if name in ours}
            | {name: job.state for name, job in predecessors.jobs.items()},
            groups=predecessors.groups,
            rights=rights_of(sharing, self.people.person(self.submitter)),
            people=self.people,
            by_default=project.pools if project else (),
        )

"""Permissions: callers' roles in projects, against the table of rights (`model.callers`).

Pure. `api.table` says which action each route is, and `operations.authorize` asks here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from slotq_core.errors import InvalidRequest, NotPermitted, PriorityTooHigh, ProjectNotAllowed
from slotq_core.model.callers import NEEDED, Action, Role
from slotq_core.model.jobs import Job
from slotq_core.model.projects import Project
from slotq_core.model.sharing import NO_SHARING, Sharing
from slotq_core.names import PROJECT_TAG
from slotq_core.privacy.identity import People
from slotq_core.spelling import did_you_mean

ROLE_WITHOUT_PROJECT = Role.MEMBER
"""Every caller's role for jobs without a project, which are older than the projects: every caller
sees them, and their submitters may change them."""

MOST_NAMED = 10
"""The most projects that a refusal lists."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """A caller's role in one project."""

    project: str
    role: Role
    default: bool
    """Whether the caller's jobs belong to this project if they name none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Permissions:
    """The permissions of callers under one configuration. Callers are ARNs, as API Gateway gives
    them."""

    sharing: Sharing = NO_SHARING
    operators: tuple[str, ...] = ()
    """Patterns of operators that no configuration can remove."""

    @property
    def people(self) -> People:
        return People(session_roles=self.sharing.session_roles)

    def is_operator(self, caller: str) -> bool:
        return self._is_any(caller, (*self.operators, *self.sharing.operators))

    def may_operate(self, caller: str) -> bool:
        """Whether the caller may change the configuration. Without operators, IAM alone decides."""
        return not (self.operators or self.sharing.operators) or self.is_operator(caller)

    def role(self, caller: str, project: str) -> Role:
        """The caller's role in a project, by name. In a project that is not configured (any more),
        only operators have one."""
        if self.is_operator(caller):
            return Role.OPERATOR
        if not project:
            return ROLE_WITHOUT_PROJECT
        found = self.sharing.project(project)
        return Role.NOBODY if found is None else self._named_role(found, caller)

    def may(self, action: Action, caller: str, job: Job) -> bool:
        """Whether the caller may do this to the job. Without projects, any caller that IAM allows
        may do anything to any job."""
        return self.may_among(action, caller, project=job.project, submitter=job.submitter)

    def may_among(self, action: Action, caller: str, *, project: str, submitter: str) -> bool:
        """Whether the caller may do this to any job of this project and submitter."""
        if not self.sharing.projects:
            return True
        needed = NEEDED[action]
        least = needed.own if self._is_same_person(submitter, caller) else needed.others
        return least == Role.NOBODY or self.role(caller, project) >= least

    def sight(self, caller: str) -> Callable[[Job], bool]:
        """A test for the jobs that the caller may see. For many jobs: it asks once for each project
        and submitter."""
        known: dict[tuple[str, str], bool] = {}

        def sees(job: Job) -> bool:
            key = job.project, job.submitter
            if key not in known:
                known[key] = self.may(Action.SEE, caller, job)
            return known[key]

        return sees

    def memberships(self, caller: str) -> tuple[Membership, ...]:
        """The projects in which the caller has a role, in their configured order."""
        default, is_operator = self.default(caller), self.is_operator(caller)
        roles = (
            (project, Role.OPERATOR if is_operator else self._named_role(project, caller))
            for project in self.sharing.projects
        )
        return tuple(
            Membership(project=project.name, role=role, default=project == default)
            for project, role in roles
            if role > Role.NOBODY
        )

    def usable(self, caller: str) -> tuple[Project, ...]:
        """The projects that the caller may submit to, in their configured order."""
        if self.is_operator(caller):
            return self.sharing.projects
        return tuple(self._with_role(caller, NEEDED[Action.SUBMIT].own))

    def default(self, caller: str) -> Project | None:
        """The project of the caller's jobs that name none: the first that is the caller's default,
        else the only one. An operator who is named in projects chooses among these."""
        usable = [*self._with_role(caller, NEEDED[Action.SUBMIT].own)] or [*self.usable(caller)]
        chosen = [project for project in usable if self._is_any(caller, project.access.default_for)]
        if chosen:
            return chosen[0]
        return usable[0] if len(usable) == 1 else None

    def project_for(self, wanted: str, caller: str) -> Project | None:
        """The project of a submission that names `wanted` (empty: none). None if the queue has no
        projects.

        Raises ProjectNotAllowed, with the projects that the caller may use. An unknown project and
        one of others are refused alike.
        """
        if not wanted and not self.sharing.projects:
            return None
        if not wanted:
            found = self.default(caller)
        else:
            known = self.sharing.project(wanted)
            is_usable = known is not None and self.role(caller, wanted) >= NEEDED[Action.SUBMIT].own
            found = known if is_usable else None
        if found is None:
            raise ProjectNotAllowed(self._choice(wanted, caller), field="Tags")
        return found

    def check_change(self, caller: str, job: Job) -> None:
        """Raises NotPermitted unless the caller, who may see the job, may also change it."""
        if self.may(Action.CHANGE, caller, job):
            return
        person = self.people.person(job.submitter)
        if not job.project:
            raise NotPermitted(
                f"job {job.name} belongs to no project: only its submitter ({person}) and "
                "operators may change it",
                field="name",
            )
        role = self.role(caller, job.project).name.lower()
        raise NotPermitted(
            f"you are {_A[role]} in project {job.project}: job {job.name} may be changed by its "
            f"submitter ({person}) as a member, by the project's admins, and by operators",
            field="name",
        )

    def check_priority(
        self, project: Project | None, priority: int, *, caller: str, before: int | None = None
    ) -> None:
        """Raises PriorityTooHigh if the priority is above the project's largest, unless the caller
        may exceed it. A job may keep or lower its priority (`before`)."""
        largest = None if project is None else project.requests.max_priority
        if project is None or largest is None or priority <= largest:
            return
        if before is not None and priority <= before:
            return
        if self.role(caller, project.name) >= NEEDED[Action.EXCEED_PRIORITY].own:
            return
        raise PriorityTooHigh(
            f"priority {priority:,} is above {largest:,}, the largest that a member of project "
            f"{project.name} may give; use {largest:,} or less, or ask one of its admins",
            field="Tags",
        )

    def check_operates(self, caller: str) -> None:
        """Raises NotPermitted unless the caller may operate the queue."""
        if not self.may_operate(caller):
            raise NotPermitted(f"only operators may do this, and {caller} is not an operator")

    def check_keeps_operating(self, after: Sharing, caller: str) -> None:
        """Raises InvalidRequest if this change would take the caller's own right to change the
        configuration: a slip must not lock the operators out."""
        changed = Permissions(sharing=after, operators=self.operators)
        if self.may_operate(caller) and not changed.may_operate(caller):
            raise InvalidRequest(
                f"after this change you ({caller}) would no longer be an operator: add a pattern "
                "that matches you, or let one of the new operators make the change",
                field="operators",
            )

    def _with_role(self, caller: str, least: Role) -> Iterator[Project]:
        """Yield the projects that name the caller with at least this role."""
        return (
            project
            for project in self.sharing.projects
            if self._named_role(project, caller, least) >= least
        )

    def _named_role(self, project: Project, caller: str, least: Role = Role.VIEWER) -> Role:
        """The largest role that the project gives the caller; NOBODY if it is less than `least`."""
        access = project.access
        for role, patterns in (
            (Role.ADMIN, access.admins),
            (Role.MEMBER, access.members),
            (Role.VIEWER, access.viewers),
        ):
            if role >= least and self._is_any(caller, patterns):
                return role
        return Role.NOBODY

    def _is_any(self, caller: str, patterns: Iterable[str]) -> bool:
        people = self.people
        return any(people.fit(pattern, caller) for pattern in patterns)

    def _is_same_person(self, submitter: str, caller: str) -> bool:
        people = self.people
        return bool(caller) and people.person(submitter) == people.person(caller)

    def _choice(self, wanted: str, caller: str) -> str:
        """Why a submission's project was refused, and which projects the caller may use."""
        if not self.sharing.projects:
            return f"this queue has no projects: leave out the tag '{PROJECT_TAG}'"
        names = [project.name for project in self.usable(caller)]
        if wanted:
            lead = f"'{wanted[:100]}' is no project that you may use"
        else:
            lead = "the job names no project, and you have no default project"
        if not names:
            return f"{lead}; you are a member of none: ask {self._whom()} to add {caller}"
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        choice = ", ".join(names[:MOST_NAMED]) + more
        near = did_you_mean(wanted, names)
        return f"{lead}; name one in the tag '{PROJECT_TAG}': you may use {choice}{near}"

    def _whom(self) -> str:
        patterns = (*self.operators, *self.sharing.operators)[:3]
        if not patterns:
            return "the person who configures the queue"
        return f"an operator ({', '.join(patterns)})"


_A = {"nobody": "nobody", "viewer": "a viewer", "member": "a member", "admin": "an admin"}

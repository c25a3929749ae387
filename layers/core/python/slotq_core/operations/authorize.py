"""Check the rights of callers, under the current configuration.

The configuration is read only if the answer depends on it: submitters see their own jobs in any
configuration, and everybody sees a job without a project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slotq_core.admission.access import Permissions
from slotq_core.errors import ConfigurationLost, NoSuchProject
from slotq_core.model.callers import Action
from slotq_core.model.jobs import Job
from slotq_core.model.sharing import NO_SHARING, Sharing
from slotq_core.ports.configuration import StoredConfiguration
from slotq_core.spelling import unknown


class Authorizer:
    """The rights of callers, by the configuration."""

    def __init__(self, configuration: StoredConfiguration, operators: tuple[str, ...] = ()) -> None:
        """`operators`: patterns of the operators whom no configuration can remove."""
        self._configuration, self._operators = configuration, operators

    def under(self, sharing: Sharing) -> Permissions:
        return Permissions(sharing=sharing, operators=self._operators)

    def now(self) -> Permissions:
        return self.under(self._configuration.read().sharing)

    def check_operates(self, *, by: str) -> None:
        """Raises NotPermitted unless the caller may change the configuration and examine the queue.
        If the departments and projects are lost, the operators named by the stack may still do so
        and restore them (without any, IAM alone decides)."""
        try:
            permissions = self.now()
        except ConfigurationLost:
            permissions = self.under(NO_SHARING)
        permissions.check_operates(by)

    def sees(self, job: Job, *, by: str | None) -> bool:
        """Whether the caller may see the job. None: the queue itself, which sees everything."""
        if by is None or not job.project or job.submitter == by:
            return True
        return self.now().may(Action.SEE, by, job)

    def check_change(self, job: Job, *, by: str) -> bool:
        """Return whether the caller may see the job. Raises NotPermitted if the caller may see it
        and not change it."""
        if not job.project and job.submitter == by:
            return True
        permissions = self.now()
        if not permissions.may(Action.SEE, by, job):
            return False
        permissions.check_change(by, job)
        return True

    def check_known(self, projects: Iterable[str], *, to: str | None) -> None:
        """Raises NoSuchProject, with the caller's projects, if one of these is not among them: a
        project in which the caller has no role counts as unknown. Without projects nothing is
        raised."""
        permissions = self.now()
        known = [project.name for project in permissions.sharing.projects]
        if not known:
            return
        if to is not None and not permissions.is_operator(to):
            known = [membership.project for membership in permissions.memberships(to)]
        if missing := min(set(projects).difference(known), default=None):
            raise NoSuchProject(unknown("project", missing, known, whose="your"), field="project")

    def sight(self, jobs: Iterable[Job], *, by: str | None) -> Callable[[Job], bool] | None:
        """A test for the jobs that the caller may see; None: the caller sees them all."""
        if by is None or not any(job.project for job in jobs):
            return None
        permissions = self.now()
        if not permissions.sharing.projects or permissions.is_operator(by):
            return None
        return permissions.sight(by)

"""The projects of a queue: who is in them, what they deserve, which lines are theirs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from slotq_core.model.callers import Access
from slotq_core.model.demand import Demand
from slotq_core.model.projects import EVERYWHERE, Department, Project
from slotq_core.model.sharing import Sharing

ROLE = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Research_0a1b2c3d"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """How many projects, departments and people share a queue. Every project has waiting jobs."""

    projects: int
    departments: int
    people: int = 400

    def __str__(self) -> str:
        text = f"{self.projects:,} projects in {self.departments} departments, "
        return f"{text}{self.people} people"

    def project(self, number: int) -> str:
        """The project of the line or active job with this number."""
        return f"project-{number % self.projects:04d}"

    def member(self, number: int) -> str:
        """The person who submits this line or active job: the project's members take turns."""
        turn, project = divmod(number, self.projects)
        members = self._members(project)
        return members[turn % len(members)]

    def configuration(self, active: int) -> Sharing:
        """Each project deserves what it holds when so many jobs of one slot are active, so nobody
        reclaims anything."""
        held = Counter(self.project(number) for number in range(active))
        return Sharing(
            departments=tuple(
                Department(name=_department(number)) for number in range(self.departments)
            ),
            projects=tuple(
                Project(
                    name=self.project(number),
                    department=_department(number % self.departments),
                    quota={EVERYWHERE: Demand(slots=held[self.project(number)])},
                    access=Access(members=self._members(number)),
                )
                for number in range(self.projects)
            ),
        )

    def _members(self, project: int) -> tuple[str, ...]:
        """Everybody is in one project, or in more where there are more projects than people."""
        numbers = range(project % self.people, self.people, self.projects)
        return tuple(f"{ROLE}/person-{number:03d}" for number in numbers)


def _department(number: int) -> str:
    return f"department-{number:02d}"

"""How a run begins: the jobs that there are already, and how they go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slotq.simulate.scenario.fields import Failure
from slotq.simulate.scenario.sections import ChangeSpec, JobSpec
from slotq_core.errors import Refused
from slotq_core.model.jobs import Job, Submission
from slotq_core.model.projects import NOTHING_SPENT, Spending
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import Yielded
from slotq_core.policy.state.user_limits import Rights


class Given(Protocol):
    """The world of a run: a scenario, or a queue as it stands."""

    @property
    def jobs(self) -> Sequence[JobSpec]:
        """The jobs that are submitted in the run, and those of a scenario that run at its start."""

    @property
    def until(self) -> int | None: ...

    @property
    def rights(self) -> Rights: ...

    def configuration(self) -> Snapshot:
        """The world without jobs."""

    def stop_times(self) -> Mapping[str, int]:
        """How long a stop takes (ms), by pool."""

    def changes(self) -> Iterable[tuple[int, str, ChangeSpec]]: ...

    def asks(self) -> Mapping[int | str, set[str]]: ...

    def submission(self, job: JobSpec) -> Submission: ...


class Course(Protocol):
    """How a job goes on, as a `JobSpec` says it too."""

    @property
    def runtime(self) -> int | None: ...
    @property
    def checkpoint(self) -> bool: ...
    @property
    def fails(self) -> tuple[Failure, ...]: ...
    @property
    def silent_from(self) -> int | None: ...
    @property
    def release_seconds(self) -> int | None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class AssumedCourse:
    """The course of a job of which nothing more is known: it works, and completes."""

    runtime: int | None
    """All of its work (ms), done from the beginning if an attempt loses it; None: it never ends."""
    checkpoint: bool = True
    fails: tuple[Failure, ...] = ()
    silent_from: int | None = None
    release_seconds: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Opening:
    """The queue at the first moment of a run."""

    at: int = 0
    """That moment (ms). No pass decides before it."""
    soonest: int = 0
    """The first moment (ms) at which a stop that has begun may be over."""
    jobs: tuple[Job, ...] = ()
    """Every job that has not ended."""
    courses: Mapping[str, Course] = field(default_factory=dict)
    """Of each of these jobs."""
    left: Mapping[str, int | None] = field(default_factory=dict)
    """The work that each has left (ms), counted from the start of the live attempt, if it has one;
    None: it never ends."""
    refused: Mapping[str, Refused] = field(default_factory=dict)
    """The gangs whose jobs are all refused at their submission."""
    yields: tuple[Yielded, ...] = ()
    spent: Spending = NOTHING_SPENT

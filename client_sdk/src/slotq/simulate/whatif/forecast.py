"""The queue on its way through the next hours, by the policy itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slotq.simulate.run.engine import go_on
from slotq.simulate.run.opening import Opening
from slotq.simulate.run.record import Record
from slotq.simulate.scenario.sections import ChangeSpec, JobSpec
from slotq.simulate.whatif.runtimes import SOON, STOP, Runtimes
from slotq.simulate.whatif.told import Told
from slotq_core.model.jobs import Submission
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Plan
from slotq_core.policy.state.user_limits import Rights


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """The queue, what the next pass decides, and what follows."""

    told: Told
    first: Plan
    """What the next pass decides first."""
    record: Record
    reasons: Mapping[str, str]
    """Why jobs wait once everything due now has been decided, by job, as sentences."""
    runtimes: Runtimes
    until: int
    """The moment up to which the forecast goes (ms)."""


def forecast(told: Told, *, hours: float, runtimes: Runtimes) -> Forecast:
    """Reckon the queue on for so many hours."""
    snapshot, until = told.snapshot(), told.at + round(hours * 3_600_000)
    opening = Opening(
        at=told.at,
        soonest=told.at + SOON,
        jobs=told.jobs,
        courses=runtimes.courses(told),
        left=runtimes.left(told),
        yields=snapshot.yields,
        spent=told.spent,
    )
    last: list[Plan] = []
    world = _World(told=told, snapshot=snapshot, until=told.at)
    go_on(world, opening, lambda _, planned, __: last.append(planned))
    return Forecast(
        told=told,
        first=plan(snapshot, told.at),
        record=go_on(replace(world, until=until), opening),
        reasons={name: reason.text() for name, reason in last[-1].reasons.items()},
        runtimes=runtimes,
        until=until,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _World:
    """The queue's world, as a run needs it. Nothing is submitted in it: jobs that the user adds are
    there at its beginning."""

    told: Told
    snapshot: Snapshot
    until: int | None
    jobs: Sequence[JobSpec] = field(default=())

    @property
    def rights(self) -> Rights:
        shared = self.told.settings.sharing
        return Rights(
            shared.classes, self.snapshot.users, shared.user_groups, contact=shared.contact
        )

    def configuration(self) -> Snapshot:
        return replace(self.snapshot, active=(), waiting=(), due=())

    def stop_times(self) -> Mapping[str, int]:
        return {pool.name: STOP for pool in self.snapshot.pools}

    def changes(self) -> Iterable[tuple[int, str, ChangeSpec]]:
        return ()

    def asks(self) -> Mapping[int | str, set[str]]:
        return {}

    def submission(self, job: JobSpec) -> Submission:
        raise LookupError(job.name)

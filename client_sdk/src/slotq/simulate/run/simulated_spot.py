"""Spot instances on a virtual clock: when an attempt gets them, loses them, or has waited for too
long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slotq.simulate.run.agenda import Agenda, Due
from slotq.simulate.run.opening import Course, runtime_limit
from slotq.simulate.scenario.sections import InterruptionSpec
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job
from slotq_core.model.pools import CapacityKind
from slotq_core.ports.training import spot_terms


class SpotTurn(NamedTuple):
    """How an attempt gets instances once: at its start, or after an interruption."""

    late: int | None
    """How long (ms) it looks for them; None: they never come."""
    keeps: int | None
    """How long (ms) it keeps them; None: SageMaker does not take them back."""


def turn_of(interruptions: Sequence[InterruptionSpec], attempt: int, turn: int) -> SpotTurn:
    """The turn of that number, from 0, of an attempt."""
    own = [spec for spec in interruptions if spec.attempt == attempt]
    waits = [own.pop(0).lasts] if own and not own[0].after else [0]
    waits += [spec.lasts for spec in own]
    late = waits[turn] if turn < len(waits) else 0
    return SpotTurn(late=late, keeps=own[turn].after if turn < len(own) else None)


@dataclass(kw_only=True, slots=True)
class _Search:
    """What an attempt has found of spot instances so far."""

    attempt: int
    until: int
    """When (ms) it has waited for too long."""
    turn: int = 0
    """How often it has got instances."""
    waits: bool = False
    lost_at: int = 0
    """When (ms) the script has stopped on the instances that were taken back."""


class SimulatedSpot:
    """The attempts of a run that are in spot pools."""

    def __init__(self, courses: Mapping[str, Course], agenda: Agenda) -> None:
        self._courses, self._agenda = courses, agenda
        self._searches: dict[str, _Search] = {}

    def waits(self, job: Job) -> bool:
        """Whether the job's attempt waits for instances."""
        search = self._search(job)
        return search is not None and search.waits

    def lost_at(self, job: Job) -> int:
        """When (ms) the interrupted script of the job has stopped."""
        search = self._search(job)
        return search.lost_at if search else 0

    def start(self, job: Job, now: int) -> bool:
        """Let an accepted attempt look for instances. Returns whether it has to wait for them."""
        attempt = _spot_attempt(job)
        if attempt is None or self._search(job) is not None:
            return False
        terms = spot_terms(runtime_limit(self._courses[job.name].max_runtime), job, attempt)
        longest = terms["StoppingCondition"]["MaxWaitTimeInSeconds"]
        search = _Search(attempt=attempt.number, until=now + 1000 * longest)
        self._searches[job.name] = search
        return self._look(job, search, now)

    def come(self, job: Job, now: int) -> None:
        """Give the job its instances, and plan when they are taken back."""
        attempt = _spot_attempt(job)
        if attempt is None:
            return
        if self._search(job) is None:  # It ran before the run began.
            self.start(job, attempt.admitted_at)
        search = self._searches[job.name]
        keeps = self._turn(job, search).keeps
        search.turn, search.waits = search.turn + 1, False
        if keeps is not None:
            self._agenda.put(now + keeps, Due.TAKEN, job.name, attempt.number)

    def lose(self, job: Job, at: int) -> None:
        """Let the interrupted attempt, whose script stops at that moment, look for others."""
        search = self._searches[job.name]
        search.lost_at = at
        if not self._look(job, search, at):
            search.waits = True
            self._agenda.put(at, Due.INSTANCES, job.name, search.attempt)

    def _look(self, job: Job, search: _Search, now: int) -> bool:
        late = self._turn(job, search).late
        come = None if late is None else now + late
        search.waits = come is None or come > now or come >= search.until
        if search.waits:
            is_over = come is None or come >= search.until
            at = max(now, search.until) if is_over else come
            self._agenda.put(at, Due.WAITED if is_over else Due.INSTANCES, job.name, search.attempt)
        return search.waits

    def _turn(self, job: Job, search: _Search) -> SpotTurn:
        return turn_of(self._courses[job.name].interruptions, search.attempt, search.turn)

    def _search(self, job: Job) -> _Search | None:
        search = self._searches.get(job.name)
        attempt = job.attempt
        return search if search and attempt and attempt.number == search.attempt else None


def _spot_attempt(job: Job) -> Attempt | None:
    attempt = job.attempt
    return attempt if attempt and attempt.capacity_kind is CapacityKind.SPOT else None

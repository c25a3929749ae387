"""Move a project's jobs to another project, so that the first can be removed.

A job keeps its entry time, and its slots if it has any. Each commit moves a few jobs. The same call
continues an interrupted move.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slotq_core.errors import Conflict, Unavailable
from slotq_core.model.jobs import Job
from slotq_core.operations.admit import Admitter
from slotq_core.operations.amend import in_project
from slotq_core.operations.configuring.jobs_in_need import living_jobs
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.ports.surroundings import Clock

BUDGET = 15_000
"""How long (ms) new commits begin. API Gateway gives up after 29 s."""

JOBS_PER_COMMIT = 15
"""At most. A transaction has at most 100 actions; a move of most jobs costs up to four, of one that
comes after others one more for each."""

_ROUNDS = 5
"""Maximum number of searches for jobs that have entered meanwhile."""

_TRIES = 20
"""How often one job is moved while others change it."""


class Mover:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._admitter = Admitter(store, clock)

    def move(self, project: str, to: str, *, by: str) -> int:
        """Move all living jobs of the project; return their number. Raises Unavailable if time runs
        out: moved jobs stay moved, and the same call moves the rest."""
        until, total = self._clock.now() + BUDGET, 0
        for _ in range(_ROUNDS):
            world = self._store.worlds.load_all(self._clock.now())
            jobs = [job for job in living_jobs(self._store.jobs, world) if job.project == project]
            moved = 0
            for batch in self._batches(jobs, to, by):
                if self._clock.now() >= until:
                    raise Unavailable(f"{total + moved} jobs are moved, and time has run out")
                moved += self._moved(batch, project, to, by)
            total += moved
            if not moved:
                break
        return total

    def _batches(self, jobs: Sequence[Job], to: str, by: str) -> Iterable[Sequence[Job]]:
        """Split the jobs into batches that one transaction can move."""
        begin = 0
        while begin < len(jobs):
            some = jobs[begin : begin + JOBS_PER_COMMIT]
            count = self._store.decisions.fitting([_move(job, to, by) for job in some])
            yield some[:count]
            begin += count

    def _moved(self, batch: Sequence[Job], project: str, to: str, by: str) -> int:
        try:
            moved = self._store.decisions.commit([_move(job, to, by) for job in batch])
        except Conflict:
            return sum(self._alone(job.name, project, to, by) for job in batch)
        self._admitter.have_moved(moved, to)
        return len(moved)

    def _alone(self, name: str, project: str, to: str, by: str) -> bool:
        """Move one job, despite concurrent changes. Return whether it still had to be moved. Raises
        Unavailable after `_TRIES` conflicts."""
        for _ in range(_TRIES):
            job = self._store.jobs.get(name)
            if job is None or job.project != project or job.terminal:
                return False
            try:
                moved = self._store.decisions.commit([_move(job, to, by)])
            except Conflict:
                continue
            self._admitter.have_moved(moved, to)
            return True
        raise Unavailable(f"{name}: its record keeps changing; try again")


def _move(job: Job, to: str, by: str) -> Change:
    return Change(before=job, after=in_project(job, to, by=by))

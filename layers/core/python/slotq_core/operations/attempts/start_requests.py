"""The request that an attempt starts with: the job's own, as its project prescribes it by now, with
the variables of a gang's member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job
from slotq_core.operations.attempts.observing import Reads
from slotq_core.ports.store import Store
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import Request

if TYPE_CHECKING:
    from slotq_core.operations.attempts.gang_starts import GangStarts


class StartRequests:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._gangs: GangStarts | None = None

    def prescribed(self, job: Job, attempt: Attempt, reads: Reads) -> tuple[Request, str]:
        """Return the request to start with, and the fields that the job's project forbids by
        now."""
        request = reads.request(job.name)
        configuration = reads.configuration(self._clock.now()) if job.project else None
        project = configuration.sharing.project(job.project) if configuration else None
        if configuration is None or project is None:
            return request, ""
        parts = {pool for pool, _ in job.parts}
        types = {
            pool.name: pool.instance_type for pool in configuration.pools if pool.name in parts
        }
        # Most queues have no such rules, and no cold start should pay for them.
        from slotq_core.admission.prescribed import broken_at_start, prescribed

        broken = broken_at_start(
            request,
            project,
            job.workload,
            types={**types, attempt.pool: attempt.instance_type},
        )
        return prescribed(request, project.requests, at_start=True), broken

    def as_member(self, request: Request, job: Job, attempt: Attempt) -> Request:
        """Return the request with the environment variables of a gang's member."""
        if not job.group:
            return request
        if self._gangs is None:
            # Most jobs are in no group, and no cold start should pay for them.
            from slotq_core.operations.attempts.gang_starts import GangStarts

            self._gangs = GangStarts(self._store)
        return self._gangs.as_member(request, job, attempt)

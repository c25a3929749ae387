"""Jobs that keep a pool or a project from being removed, and a pool from being bought in another
way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slotq_core.errors import PoolInUse, ProjectInUse
from slotq_core.model.jobs import QUEUED_STATES, Job
from slotq_core.model.pools import Pool
from slotq_core.ports.jobs import StoredJobs
from slotq_core.ports.store import Store
from slotq_core.ports.stored import World

_NAMED = 3
"""Number of jobs that a refusal lists by name."""

_EVERY = 1_000_000
"""More jobs than a queue keeps."""


def living_jobs(jobs: StoredJobs, world: World) -> list[Job]:
    """Return every job that has not ended. `world` has all waiting jobs. What is held or backs off
    may lag behind."""
    snapshot = world.snapshot
    queued = jobs.in_states(QUEUED_STATES, limit=_EVERY)
    found = {job.name: job for job in (*queued, *snapshot.due, *snapshot.waiting, *snapshot.active)}
    return list(found.values())


def check_removal(store: Store, before: Sequence[Pool], after: Sequence[Pool], now: int) -> None:
    """Raises PoolInUse for a change of the pools that removes one that jobs need, or turns it to
    another kind. Reads all jobs only then."""
    rest = {pool.name for pool in after}
    removed = [pool for pool in before if pool.name not in rest]
    turned = of_another_kind(before, after)
    if removed or turned:
        world = store.worlds.load_all(now)
        jobs = living_jobs(store.jobs, world)
        check_kinds(turned, jobs)
        check_pools(removed, rest, jobs, world)


def of_another_kind(before: Iterable[Pool], after: Iterable[Pool]) -> list[Pool]:
    """Return the pools after a change that turns them from on demand to spot, or back."""
    kinds = {pool.name: pool.capacity_kind for pool in before}
    return [
        pool for pool in after if kinds.get(pool.name, pool.capacity_kind) is not pool.capacity_kind
    ]


def check_kinds(turned: Iterable[Pool], jobs: Iterable[Job]) -> None:
    """Raises PoolInUse if a living job accepts one of these pools: it was admitted under the rules
    of the other kind."""
    living = list(jobs)
    for pool in turned:
        if accepting := [job for job in living if pool.name in job.pools]:
            number = len(accepting)
            verb = "1 job accepts" if number == 1 else f"{number} jobs accept"
            raise PoolInUse(
                f"pool {pool.name} cannot become {pool.capacity_kind}: {verb} it as it is "
                f"({_named(accepting)}); add another pool, or move or cancel them first",
                field="capacity_kind",
            )


def check_pools(removed: Sequence[Pool], rest: set[str], jobs: Iterable[Job], world: World) -> None:
    """Raises PoolInUse if something runs in a removed pool, or if jobs wait for such pools alone:
    without them, these jobs would wait for ever."""
    gone = {pool.name for pool in removed}
    for pool in removed:
        used = world.ledgers[pool.name].used if pool.name in world.ledgers else None
        if used:
            raise PoolInUse(
                f"pool {pool.name} cannot be removed while {used.slots} of its slots are in use "
                "(jobs run in it): drain it, and remove it when it is empty",
                field="name",
            )
    need = [job for job in jobs if not job.active and _needs(job, gone, rest)]
    if need:
        named = ", ".join(sorted(gone))
        which, alone = ("pool", "it") if len(gone) == 1 else ("pools", "them")
        raise PoolInUse(
            f"{which} {named} cannot be removed: {_waiting(need)} for {alone} alone "
            f"({_named(need)}); move or cancel them first",
            field="name",
        )


def check_projects(removed: set[str], jobs: Iterable[Job]) -> None:
    """Raises ProjectInUse if a removed project has jobs."""
    faults = []
    for project in sorted(removed):
        mine = [job for job in jobs if job.project == project]
        if mine:
            running = sum(job.active for job in mine)
            faults.append(
                f"project {project} cannot be removed: it has {len(mine)} jobs, {running} of them "
                f"with slots ({_named(mine)}); move them (`slotq projects remove {project} "
                "--move-to PROJECT`), or cancel them first"
            )
    if faults:
        raise ProjectInUse(
            "\n".join(faults),
            field="projects",
            faults=tuple(("projects", fault) for fault in faults),
        )


def _needs(job: Job, gone: set[str], rest: set[str]) -> bool:
    """Whether the job cannot run without these pools."""
    return not rest.intersection(job.pools) or any(part in gone for part, _ in job.parts)


def _waiting(jobs: Sequence[Job]) -> str:
    return "1 job waits" if len(jobs) == 1 else f"{len(jobs)} jobs wait"


def _named(jobs: Sequence[Job]) -> str:
    names = sorted(job.name for job in jobs)
    return ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")

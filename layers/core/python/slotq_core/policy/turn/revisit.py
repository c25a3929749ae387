"""Which jobs to revisit within a plan: the questions of turn_order.py about the state of the walk.

A job that loses the slots it got in this plan is tried again, and so is any job that may now gain.
A pool stops draining for a job that a quota or limit has come to keep back since its turn.
"""

from __future__ import annotations

from collections.abc import Callable

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.policy.order import Rank, rank
from slotq_core.policy.turn.losses import Losses
from slotq_core.policy.turn.prospects import has_prospects
from slotq_core.policy.turn.walk import Walk


class Revisits:
    """Answers questions about the walk between two turns."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk

    def has_prospects(self, job: Job) -> bool:
        """Whether a turn of the job, or of its gang, may bring it anything now."""
        walk, gang = self._walk, self._walk.gangs.get(job.group)
        jobs = gang.standing() if gang and not gang.runs else [job]
        return any(
            has_prospects(each, walk.rooms_of(each), walk.accounts, walk.entitled) for each in jobs
        )

    def undrain(self) -> set[str]:
        """End all drains. Return the names of the jobs and gangs that pools drained for."""
        drained = [room for room in self._walk.rooms.values() if room.drains_for]
        drainers = {name for room in drained for name in (room.drains_for, room.drains_gang)}
        for room in drained:
            room.drains_for = room.drains_gang = ""
        return drainers - {""}

    def drains_in_vain(self) -> bool:
        """Whether a pool drains for a job that may not start there by now.

        Jobs served since the drain began may have used up its quota, its limit or the number of
        jobs that may run at once.
        """
        walk = self._walk
        drained = [(walk.waiting[r.drains_for], r) for r in walk.rooms.values() if r.drains_for]
        return any(walk.keeps_back(job) or not walk.within_bounds(job, r) for job, r in drained)

    def leaves_surplus(self) -> bool:
        """Whether an eviction freed more slots than its beneficiary needs. Reading clears the
        flag."""
        surplus, self._walk.surplus = self._walk.surplus, False
        return surplus

    def could_take_back(self) -> Callable[[Job], bool]:
        """A test whether a job might evict a job that got its slots in this plan."""
        walk, lowest = self._walk, dict[str, Rank]()
        for started in walk.started():
            its = rank(started)
            lowest[started.project] = min(its, lowest.get(started.project, its))

        def could(job: Job) -> bool:
            if job.project in lowest and lowest[job.project] < rank(job):
                return True
            others = lowest.keys() - {job.project}
            return any(others & walk.entitled.projects(job, pool) for pool in job.pools)

        return could

    def is_called_for(self) -> bool:
        """Whether the last turn took anything from jobs served in this plan."""
        return bool(self._walk.losses)

    def losses(self) -> tuple[list[Job], dict[str, Demand]]:
        """The jobs that lost their slots in the last turn, and free capacity by pool. Reading
        clears both.

        The capacity covers the pools where a job lost slots or where a moved job has started. A
        gang that does not run stands in the list as its representative. An AUTO job that has lost
        its start is below every class again.
        """
        walk, losses, self._walk.losses = self._walk, self._walk.losses, Losses()
        lost = [walk.waiting[job.name] for job, _ in losses.taken_back]
        pools = {pool for _, pool in losses.taken_back} | losses.moved_to
        left = {pool: free for pool in pools if (free := walk.rooms[pool].free_now).slots > 0}
        as_one = {job.group: walk.gangs[job.group] for job in lost if job.group in walk.gangs}
        whole = {name: gang for name, gang in as_one.items() if not gang.runs}
        takers = [job for job in lost if job.group not in whole]
        return takers + [gang.lead() for gang in whole.values()], left

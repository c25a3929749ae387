"""Which blocked jobs to revisit within a plan.

After each decision the plan could try all earlier jobs again. Only these can have gained, and get
another turn at once:

- jobs that outrank the job served in its project, and may evict it now;
- jobs of a project that lost a job, and may be below its share now;
- jobs of a project or department that lost a job and is within its share now, where jobs may move;
- jobs that exceed their share by an eviction; no job may while another project is below its share.

The end of the plan revisits more jobs, because many turns may help them:

- jobs that may reclaim from a project that has come above its share or quota;
- jobs that could add a start of this plan to what evictions freed beyond their beneficiaries' need;
- jobs kept out by a drain whose own job may not start there any more.

Last come the jobs that lost a start of this plan (net.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slotq_core.model.jobs import Job
from slotq_core.policy.actions.action_rules import Rules
from slotq_core.policy.order import rank
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.gate import givers, may_move_others, may_reclaim
from slotq_core.policy.turn.prospects import might_gain
from slotq_core.policy.turn.turn_order import BlockedHeads, Head


class Revisit:
    """Looks at the state between two turns."""

    def __init__(self, state: PlanState, rules: Rules, blocked: BlockedHeads) -> None:
        self._state, self._rules, self._blocked = state, rules, blocked

    def helped(self, job: Job) -> list[Head]:
        """The blocked heads that the turn of this job may have helped."""
        helped: dict[str, Head] = {}
        for heads in self._by_cause(job):
            for head in heads:
                if head.job.name not in helped and self._has_prospects(head.job):
                    helped[head.job.name] = head
        return list(helped.values())

    def at_the_end(self) -> list[Head]:
        """The blocked heads to ask when no turn is left."""
        found = (*self._behind_outdated_drains(), *self._with_surplus(), *self._at_open_gates())
        heads = {head.job.name: head for head in found}
        return [head for head in heads.values() if self._has_prospects(head.job)]

    def _behind_outdated_drains(self) -> list[Head]:
        """End the drains whose jobs may not start there by now. Return the heads of these pools.

        Jobs served since the drain began may have used up a quota, a limit or the number of jobs
        that may run at once.
        """
        is_outdated = self._rules.eligible.drain_is_outdated
        outdated = [room for room in self._state.rooms.values() if is_outdated(room)]
        for room in outdated:
            if room.drain and not room.drain.gang:
                self._state.decided.unsay(self._state.waiting[room.drain.job])
            self._state.journal.set(room, "drain", None)
        return [head for room in outdated for head in self._blocked.in_pool(room.pool.name)]

    def _with_surplus(self) -> list[Head]:
        """Jobs that may evict a job started in this plan, where an eviction has freed more than its
        beneficiary needs. Slots still coming free start no job, so others need not be asked."""
        state = self._state
        pools = [pool for pool in sorted(state.surplus) if state.rooms[pool].both.slots > 0]
        heads = {head.job.name: head for pool in pools for head in self._blocked.in_pool(pool)}
        able = [head for head in heads.values() if self._could_evict_a_start(head.job)]
        if able:
            state.journal.set(state, "surplus", set())
        return able

    def _by_cause(self, job: Job) -> Iterator[Iterable[Head]]:
        state = self._state
        if job.claim or state.shares.has_share(job):
            own, above = rank(job), self._blocked.of_project(job.project)
            yield [head for head in above if rank(head.job) > own]
        for project in dict.fromkeys(victim.project for victim, _ in state.evicted):
            if project != job.project:
                theirs = self._blocked.of_project(project)
                yield [head for head in theirs if self._may_reclaim(head.job)]
        if state.evicted:
            yield self._that_may_move_others()
        claimed = state.rooms.get(job.claim.pool) if job.claim else None
        if claimed and claimed.pool.consolidate:  # The job may move for them.
            yield self._blocked.in_pool(claimed.pool.name)
        if state.accounts.leaves_none_under(job):
            yield [head for head in self._blocked.everyone() if self._may_exceed(head.job)]

    def _at_open_gates(self) -> list[Head]:
        """Jobs of other projects, if a project or department has come above its share or quota."""
        accounts = self._state.accounts
        opened = dict.fromkeys(accounts.opened)
        if opened:
            self._state.journal.set(accounts, "opened", [])
        return [
            head
            for room in (self._state.rooms.values() if opened else ())
            if (giving := self._giving(opened, room))
            for head in self._staying_within_share(room)
            if self._may_take_from(giving, head.job, room)
        ]

    def _staying_within_share(self, room: PoolRoom) -> list[Head]:
        """The blocked heads of the room's pool, without most of those that bring their projects
        beyond their shares: they may not reclaim."""
        projects = self._state.accounts.may_stay_within_share(room.pool.name)
        return [
            head
            for head in self._blocked.in_pool(room.pool.name)
            if head.job.project in projects or head.job.group or "slots" not in head.job.demand
        ]

    def _giving(self, opened: Iterable[tuple[str, str]], room: PoolRoom) -> set[str]:
        """The projects from which others may now reclaim in the room. A department (no project)
        may give in all rooms."""
        scope, there = self._state.accounts.scopes.of(room.pool.name), room.jobs.projects()
        here = (name for name, where in opened if where == scope)
        return {name for name in here if not name or name in there}

    def _may_take_from(self, giving: set[str], job: Job, room: PoolRoom) -> bool:
        """Whether the job may reclaim from these projects in the room. Of a gang, each member may
        reclaim for itself."""
        accounts = self._state.accounts
        if job.group in self._state.gangs:
            return giving != {job.project}
        among = room.jobs.projects() if "" in giving else giving
        return bool(givers(job, room.pool.name, among, accounts))

    def _could_evict_a_start(self, job: Job) -> bool:
        """Whether a job that this plan started may be a victim of the job."""
        lowest = self._state.lowest_started
        if job.project in lowest and lowest[job.project] < rank(job):
            return True
        others, accounts = lowest.keys() - {job.project}, self._state.accounts
        return any(givers(job, pool, others, accounts) for pool in job.pools)

    def _may_exceed(self, job: Job) -> bool:
        """Whether the job exceeds its share in a pool, and no other project is below its own."""
        accounts, shared = self._state.accounts, self._state.accounts.shared
        return any(
            not accounts.others_are_under(job.project, pool)
            and not all(
                account.in_share(job.demand if shared is None else shared.of(job, pool))
                for account in accounts.of(job, pool)
            )
            for pool in job.pools
        )

    def _may_reclaim(self, job: Job) -> bool:
        accounts, shared = self._state.accounts, self._state.accounts.shared
        return any(
            may_reclaim(
                job.demand if shared is None else shared.of(job, pool), accounts.of(job, pool)
            )
            for pool in job.pools
        )

    def _that_may_move_others(self) -> list[Head]:
        """The blocked heads whose project or department has lost a job in this turn, so that they
        may move jobs of other projects now (actions/consolidate.py)."""
        accounts, shared = self._state.accounts, self._state.accounts.shared
        movable = [name for name, room in self._state.rooms.items() if room.pool.consolidate]
        places = self._state.evicted if movable else []
        lost = {account.key for job, pool in places for account in accounts.of(job, pool)}
        return [
            head
            for pool in movable
            for head in self._blocked.in_pool(pool)
            if any(account.key in lost for account in accounts.of(head.job, pool))
            if may_move_others(
                head.job.demand if shared is None else shared.of(head.job, pool),
                accounts.of(head.job, pool),
            )
        ]

    def _has_prospects(self, job: Job) -> bool:
        """Whether a turn of the job, or of its gang, may bring it anything now."""
        state = self._state
        gang = state.gangs.get(job.group)
        jobs = gang.in_service_order if gang and not gang.runs else [job]
        dropped = state.decided.dropped
        if dropped and any(other.name in dropped for other in jobs):
            return False
        return any(might_gain(other, state.rooms_of(other), state) for other in jobs)

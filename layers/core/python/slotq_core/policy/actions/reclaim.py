"""Step 3d, reclaim: take back from projects above their share.

gate.py has who may reclaim from whom. In-quota work is safe (asked before each victim: one big
victim may still take its project below its quota). The order of the checks does not matter: no
project loses a victim that it deserves with all the other victims gone. A reclaimer above its own
quota takes no project below quota if waiting in-quota work of that project would take the slots
back.

Across projects the most over-served project gives first, one victim at a time; the order of
candidates holds within it. Where that order, in which the last start of this plan comes first,
lets the gate close too early, the order of the next plan counts: that would else evict a job which
this plan has started. Who the users are does not matter between projects.

See docs/policy-decisions.md#shares-and-reclaim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import attrgetter, methodcaller
from typing import Protocol

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.model.projects import HOUR
from slotq_core.policy.actions.victim_search import better
from slotq_core.policy.actions.victims import Eviction, Shortfall, Shortfalls, least_harm, spared
from slotq_core.policy.order import Rank
from slotq_core.policy.state.candidates import Candidate, ran_at
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.account import Chain
from slotq_core.policy.state.quotas.gate import Taking, givers, may_reclaim


@dataclass(frozen=True, kw_only=True, slots=True)
class Reclaims:
    """The search for victims of other projects."""

    state: PlanState

    def find(
        self,
        job: Job,
        rooms: Sequence[PoolRoom],
        spare: AbstractSet[str] = frozenset(),
        *,
        once_started: bool = False,
    ) -> Eviction | None:
        """The least harmful reclaim that lets the job start in one of these rooms, or None. It
        stops none of the candidates named in `spare`. `once_started`: as the next plan would find
        it, for which all that this plan has started runs."""
        of, shared = self.state.accounts.of, self.state.accounts.shared
        able = [
            room
            for room in rooms
            if may_reclaim(
                job.demand if shared is None else shared.of(job, room.pool.name),
                of(job, room.pool.name),
            )
        ]
        searches = [
            (room, Search(job, room, self.state, set(spare), once_started=once_started))
            for room in able
        ]
        found = [
            (room, search, victims) for room, search in searches if (victims := search.victims())
        ]
        if not found:
            return None
        base = min(search.lowest_rank() for _, search, _ in found)
        return least_harm(
            [
                Eviction(room=room, victims=search.better(victims, base))
                for room, search, victims in found
            ],
            base,
        )


def past_use_waits(state: PlanState, job: Job, other: Job, taking: Taking, theirs: Chain) -> bool:
    """Whether past use alone lets the job reclaim from the other job's project, and not yet."""
    giver = taking.giver(theirs)
    if not taking.is_fair(theirs):
        return not giver.over_share() and giver.used.exceeds(giver.share, giver.resources, NOTHING)
    since = state.snapshot.past_use.at - HOUR
    late = job.entry_time > since or not ran_at(other, since)
    return late and taking.gives_by_past_use(theirs)


class Holders(Protocol):
    """The candidates in one place by project, as `PoolJobs` has them."""

    def projects(self) -> AbstractSet[str]: ...
    def candidates(self, project: str) -> Sequence[Candidate]: ...
    def candidates_once_started(self, project: str) -> Sequence[Candidate]: ...


class Place(Protocol):
    """A pool, or a node there, where a job may reclaim."""

    @property
    def pool(self) -> Pool: ...
    @property
    def jobs(self) -> Holders: ...
    def missing(self, job: Job) -> Demand: ...
    def left(self, job: Job) -> Demand: ...


class Search:
    """The search for what one job may reclaim in one pool or on one node, within its project's
    share."""

    def __init__(
        self, job: Job, room: Place, state: PlanState, spare: set[str], *, once_started: bool
    ) -> None:
        self.job, self.room, self._state = job, room, state
        self._accounts = state.accounts
        self._spare = spare
        """Names of candidates that must not be stopped; the search adds to them."""
        self._once_started = once_started
        self._name = room.pool.name
        self._mine = self._accounts.of(job, self._name)
        shared = self._accounts.shared
        self._asked = job.demand if shared is None else shared.of(job, self._name)
        """What the job counts in its accounts."""
        self._missing = NOTHING
        self._givers: dict[str, Chain] = {}
        """The accounts of the projects that hold more than they deserve here."""

    def victims(self) -> tuple[Candidate, ...] | None:
        """Victims, one at a time, from the most over-served project first; None if the gate closes
        before they free enough."""
        giving = givers(self.job, self._name, self.room.jobs.projects(), self._accounts)
        book = self._accounts.book(self._name)
        self._givers = {name: book[name] for name in sorted(giving)}
        if not self._givers:
            return None  # Earlier steps have served what fits without an eviction.
        self._missing = self.room.missing(self.job)
        if self._once_started:
            self._spare |= self._state.running.protected_after_start()
        victims = self._fair_to_all()
        safe = self._state.running.protected_after_start() if victims is None else set()
        if not self._spare.issuperset(safe):
            # The next plan at this moment would find them protected, and might choose others.
            self._spare |= safe
            victims = self._fair_to_all()
        return victims

    def lowest_rank(self) -> Rank:
        """The lowest rank among the candidates."""
        firsts = (next(self._candidates(project), None) for project in self._givers)
        return min(first.rank for first in firsts if first)

    def _candidates(self, project: str) -> Iterator[Candidate]:
        jobs = self.room.jobs
        in_order = jobs.candidates_once_started if self._once_started else jobs.candidates
        for candidate in in_order(project):
            if candidate.name in self._spare:
                continue
            if candidate.extras and any(extra.name in self._spare for extra in candidate.extras):
                continue
            yield candidate

    def _fair_to_all(self) -> tuple[Candidate, ...] | None:
        """Enough victims, each of them fair with all the others gone; None if there are none."""
        shortfalls = self._shortfalls(self._missing)
        while (taken := self._take(self._candidates, self._givers, shortfalls.met_by)) is not None:
            victims = spared(taken, shortfalls)
            if not self._taking(victims).keeps_within_share():
                return None
            deserved = self._deserved(victims) or self._brought_back(victims)
            if deserved is None:
                return victims
            self._spare.add(deserved.name)
        return None

    def better(self, victims: tuple[Candidate, ...], base: Rank) -> tuple[Candidate, ...]:
        """Replace victims by less harmful ones of the same project that hold no more and pass the
        gate in order."""
        for giver in sorted({victim.project for victim in victims}):
            candidates = list(self._candidates(giver))
            if len(candidates) == 1:  # A victim itself: nothing can replace it.
                continue
            mine = [victim for victim in victims if victim.project == giver]
            others = [victim for victim in victims if victim.project != giver]
            freed = self._freed(others)
            rest = {name: max(0, most - freed[name]) for name, most in self._missing.items()}
            shortfalls = self._shortfalls(Demand(rest))
            found = better(mine, candidates, shortfalls, base)
            if found != tuple(mine) and self._counted(found).within(self._counted(mine)):
                victims = self._takable([*others, *found]) or victims
        return victims

    def _takable(self, victims: Sequence[Candidate]) -> tuple[Candidate, ...] | None:
        """These victims in the order in which they are taken; None if the gate stops any."""
        by_project: dict[str, list[Candidate]] = {}
        for victim in sorted(victims, key=attrgetter("order")):
            by_project.setdefault(victim.project, []).append(victim)
        chains = {name: self._givers[name] for name in by_project}
        found = self._take(by_project.__getitem__, chains, lambda taken: len(taken) == len(victims))
        if found is None or self._deserved(found) or self._brought_back(found):
            return None
        return found

    def _brought_back(self, victims: Sequence[Candidate]) -> Candidate | None:
        """A victim whose project would take the slots back at once, or None: the reclaimer is above
        its own quota, and waiting jobs of that project are within theirs without the victims."""
        if not self._state.may_evict(self.job) or self._mine[0].in_quota(self._asked):
            return None
        left = self.room.left(self.job) + self._freed(victims) - self.job.demand
        for victim in reversed(victims):
            theirs = self._givers[victim.project]
            gone = self._counted(other for other in victims if other.project == victim.project)
            if theirs[0].over_quota(gone):
                continue
            back, shared = self._state.waits(victim.project), self._accounts.shared
            in_quota = (
                job
                for job in back
                if theirs[0].in_quota(
                    (job.demand if shared is None else shared.of(job, self._name)) - gone
                )
            )
            if any(self._takes_back(job, theirs, left) for job in in_quota):
                return victim
        return None

    def _takes_back(self, job: Job, theirs: Chain, left: Demand) -> bool:
        """Whether the job would have to reclaim slots to start: it does not fit into `left` here,
        or not into another pool of the same quota where the reclaimer's project has candidates that
        this plan leaves unprotected."""
        for room in self._state.rooms_of(job):
            if room is self.room:
                if not job.demand.within(left):
                    return True
            elif self._accounts.of(job, room.pool.name) is theirs:
                names = {candidate.name for candidate in room.jobs.candidates(self.job.project)}
                stays = names - self._state.running.protected_after_start()
                if stays and not room.fits_soon(job):
                    return True
        return False

    def _deserved(self, victims: Sequence[Candidate]) -> Candidate | None:
        """The first victim that its project deserves with all the others gone, or None."""
        if len(victims) == 1:
            return None
        taking = self._taking(victims)
        for victim in victims:
            counted = self._accounts.scopes.counted(victim, self._name)
            if not taking.is_fair(self._givers[victim.project], back=counted):
                return victim
        return None

    def _taking(self, victims: Iterable[Candidate]) -> Taking:
        """The reclaim with these victims gone."""
        taking = Taking(self._asked, self._mine)
        for victim in victims:
            counted = self._accounts.scopes.counted(victim, self._name)
            taking.lose(counted, self._givers[victim.project])
        return taking

    def _take(
        self,
        candidates: Callable[[str], Iterable[Candidate]],
        chains: Mapping[str, Chain],
        enough: Callable[[Sequence[Candidate]], bool],
    ) -> tuple[Candidate, ...] | None:
        """ "The most over-served project gives first, one victim at a time." """
        taking, taken = Taking(self._asked, self._mine), list[Candidate]()
        left = dict(chains)
        coming: dict[str, Iterator[Candidate]] = {}
        rights = self._state.reservations
        while not enough(taken):
            if not left:
                return None
            # The most over-served project comes first, so few candidates are looked at.
            giver = max(left, key=lambda name: taking.over_served(left[name]))
            if giver not in coming:
                coming[giver] = iter(candidates(giver))
            theirs = left[giver]
            fair = taking.is_fair(theirs) and (rights is None or self._may_give(giver, taken))
            victim = self._next(coming[giver], taking, theirs) if fair else None
            if victim is None:  # A project that may not give any more never may again.
                del left[giver]
            else:
                taken.append(victim)
                taking.lose(self._accounts.scopes.counted(victim, self._name), left[giver])
        return tuple(taken)

    def _may_give(self, project: str, taken: Sequence[Candidate]) -> bool:
        """Whether the project has more than is reserved for it, without the victims."""
        rights = self._state.reservations
        gone = self._freed(victim for victim in taken if victim.project == project)
        return rights is None or rights.may_give(project, self._name, gone.slots)

    def _next(
        self, candidates: Iterator[Candidate], taking: Taking, theirs: Chain
    ) -> Candidate | None:
        """The next victim of a project that gives; None if there is none. What is passed over here
        stays: a project that only gives by past use does so until the end of the search."""
        if not taking.gives_by_past_use(theirs):
            return next(candidates, None)
        since = self._state.snapshot.past_use.at - HOUR
        if self.job.entry_time > since:
            return None
        return next((candidate for candidate in candidates if candidate.ran_at(since)), None)

    def _shortfalls(self, missing: Demand) -> Shortfalls:
        return Shortfalls(Shortfall(missing=missing, gives=methodcaller("frees", self._name)))

    def _freed(self, victims: Iterable[Candidate]) -> Demand:
        return sum((victim.frees(self._name) for victim in victims), NOTHING)

    def _counted(self, victims: Iterable[Candidate]) -> Demand:
        return sum(
            (self._accounts.scopes.counted(victim, self._name) for victim in victims), NOTHING
        )

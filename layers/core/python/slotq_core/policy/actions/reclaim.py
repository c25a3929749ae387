"""Step 3d, reclaim: take back from projects above their share (DESIGN 5.2).

"The reclaimer must stay within its fair share; the victim's project must be above its share, or
above its quota while the reclaimer stays within its own. Both are asked where the two branches
part: between departments where these differ, else between projects. The reclaimer's fair share, the
non-preemptible quota and the anti-flap rule are asked at each level, counting victims as gone.
In-quota work is safe (asked before each victim: one big victim may still take its project below its
quota)." A reclaimer that stays within its share at each level never flaps, so the anti-flap rule of
Run:ai needs no code. `_Taking.is_fair` asks the gate.
The order of the checks does not matter: no project loses a victim that it deserves with all the
other victims gone. A reclaimer above its own quota takes no project below quota if waiting in-quota
work of that project would take the slots back.
"Across projects the most over-served project gives first, one victim at a time; the order of
candidates holds within it." "Never interrupt a user's running job for another job of the same user
and rank", in whichever project it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from operator import attrgetter

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.projects import Department, Fairness
from slotq_core.policy.actions.victim_search import better
from slotq_core.policy.actions.victims import Eviction, Shortfall, Shortfalls, least_harm, spared
from slotq_core.policy.order import Rank, same_user_and_rank
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.claims import Entitled
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.account import Account, Chain, Deprivation

NOTHING = Demand()

Taken = tuple[Job, str, Candidate]
"""A reclaimer, the pool and the victim."""


class Givers:
    """The projects that hold more than they deserve in a pool, and have candidates there.

    Kept until the accounts or the candidates change, because most reclaims fail for want of them.
    """

    def __init__(self, state: PlanState) -> None:
        self._accounts = state.accounts
        self._known: dict[tuple[object, ...], tuple[tuple[int, int], frozenset[str]]] = {}
        """By pool and all of the reclaimer that the gate asks about."""

    def of(self, job: Job, room: PoolRoom) -> AbstractSet[str]:
        """The projects from which the job may reclaim in the room, before any eviction."""
        mine = self._accounts.of(job, room.pool.name)
        top = mine[-1]
        in_quota = (mine[0].in_quota(job.demand), top.in_quota(job.demand))
        key = (room.pool.name, top.key, *in_quota, top.in_share(job.demand))
        versions = (self._accounts.version, room.jobs.version)
        known = self._known.get(key)
        if known is None or known[0] != versions:
            known = self._known[key] = (versions, frozenset(self._find(job, mine, room)))
        return known[1] - {job.project}

    def _find(self, job: Job, mine: Chain, room: PoolRoom) -> Iterator[str]:
        taking = _Taking(job, mine)
        for project in room.jobs.may_give():
            theirs = self._accounts.of_project(project, room.pool.name)
            if theirs and taking.is_fair(theirs):
                yield project


@dataclass(frozen=True, kw_only=True, slots=True)
class Books:
    """The inputs of a reclaim."""

    state: PlanState
    entitled: Entitled
    givers: Givers


def reclaim(
    job: Job, rooms: Sequence[PoolRoom], books: Books, spare: AbstractSet[str] = frozenset()
) -> Eviction | None:
    """The least harmful reclaim that lets the job start in one of these rooms, or None.

    `spare`: names of candidates that must not be stopped.
    """
    reclaims = [_Reclaim(job, room, books, set(spare)) for room in rooms]
    found = [(each, victims) for each in reclaims if (victims := each.most_over_served_first())]
    if not found:
        return None
    base = min(rank for each, _ in found if (rank := each.lowest_rank()) is not None)
    return least_harm(
        [Eviction(room=each.room, victims=each.better(victims, base)) for each, victims in found],
        base,
    )


def may_reclaim(job: Job, mine: Chain) -> bool:
    """Whether the project stays within its fair share with this job, as every reclaimer must."""
    return bool(mine) and mine[0].in_share(job.demand)


def may_take(job: Job, mine: Chain, victim: Job, theirs: Chain) -> bool:
    """Whether the job may reclaim from this victim, before any other eviction."""
    if same_user_and_rank(job, victim) or not may_reclaim(job, mine):
        return False
    taking = _Taking(job, mine)
    if not theirs or not taking.is_fair(theirs):
        return False
    taking.lose(victim.demand, theirs)
    return taking.keeps_within_share()


def deserved_of(taken: Iterable[Taken], state: PlanState) -> Candidate | None:
    """The first victim of a gang's reclaims that its project deserves after all, or None.

    The accounts must already count the gang's members in and all the victims out.
    """
    for job, pool, victim in taken:
        theirs = state.accounts.of_project(victim.project, pool)
        taking = _Taking(replace(job, demand=NOTHING), state.accounts.of(job, pool))
        if not taking.is_fair(theirs, back=state.accounts.counted(victim, pool)):
            return victim
    return None


def is_fair(job: Job, mine: Chain, theirs: Chain) -> bool:
    """The victim's side of the gate: whether it holds more than it deserves, before any
    eviction."""
    return _Taking(job, mine).is_fair(theirs)


class _Reclaim:
    """The search for what one job may reclaim in one pool."""

    def __init__(self, job: Job, room: PoolRoom, books: Books, spare: set[str]) -> None:
        self.job, self.room, self._state = job, room, books.state
        self._accounts, self._entitled = books.state.accounts, books.entitled
        self._givers = books.givers
        self._spare = spare
        """Names of candidates that must not be stopped; the search adds to them."""
        self._name = room.pool.name
        self._mine = self._accounts.of(job, self._name)
        self._missing = NOTHING

    def givers(self) -> dict[str, Chain]:
        """The accounts of the projects that hold more than they deserve here."""
        projects = sorted(self._givers.of(self.job, self.room))
        return {name: self._accounts.of_project(name, self._name) for name in projects}

    def lowest_rank(self) -> Rank | None:
        """The lowest rank among the candidates."""
        return min(
            (each.rank for project in self.givers() for each in self._candidates(project)[:1]),
            default=None,
        )

    def _candidates(self, project: str) -> Sequence[Candidate]:
        candidates = self.room.jobs.candidates(project)
        if self._spare:
            candidates = [each for each in candidates if each.name not in self._spare]
        if not self.job.submitter:
            return candidates
        return [each for each in candidates if not any(map(self._is_never_interrupted, each.jobs))]

    def _is_never_interrupted(self, other: Job) -> bool:
        """Whether the other job has an attempt and the same user and rank.

        A start decided in this plan has no attempt yet and may be taken back.
        """
        return other.attempt is not None and same_user_and_rank(self.job, other)

    def most_over_served_first(self) -> tuple[Candidate, ...] | None:
        """Victims, one at a time, from the most over-served project first.

        None if the gate closes before the victims free enough.
        """
        if not may_reclaim(self.job, self._mine):
            return None
        self._missing = self.room.missing(self.job, self._entitled)
        if not self.givers():
            return None  # Earlier steps have served what fits without an eviction.
        victims = self._fair_to_all()
        if victims is None and not self._spare.issuperset(safe := self._safe_once_started()):
            # The next plan at this moment would find them protected, and might choose others.
            self._spare |= safe
            victims = self._fair_to_all()
        return victims

    def _safe_once_started(self) -> set[str]:
        """Names of candidates that are none once this plan is carried out.

        A `min_runtime` then protects them, or they hold a job of the same user and rank.
        """
        candidates = (
            candidate for project in self.givers() for candidate in self._candidates(project)
        )
        same_user = (
            each for each in candidates if any(same_user_and_rank(self.job, j) for j in each.jobs)
        )
        return self._state.running.protected_after_start().union(each.name for each in same_user)

    def _fair_to_all(self) -> tuple[Candidate, ...] | None:
        """Enough victims, each of them fair with all the others gone; None if there are none."""
        shortfalls = self._shortfalls(self._missing)
        while (taken := self._take(self._candidates, self.givers(), shortfalls.met_by)) is not None:
            victims = spared(taken, shortfalls)
            if not self._stays_within_share(victims):
                return None
            deserved = self._deserved(victims) or self._brought_back(victims)
            if deserved is None:
                return victims
            self._spare.add(deserved.name)
        return None

    def _stays_within_share(self, victims: Sequence[Candidate]) -> bool:
        taking = _Taking(self.job, self._mine)
        for victim in victims:
            theirs = self._accounts.of_project(victim.project, self._name)
            taking.take(victim, self._accounts.counted(victim, self._name), theirs)
        return taking.keeps_within_share()

    def better(self, victims: tuple[Candidate, ...], base: Rank) -> tuple[Candidate, ...]:
        """Replace victims by less harmful ones of the same project.

        The replacements hold no more than the victims they replace and pass the gate in order.
        """
        for giver in sorted({victim.project for victim in victims}):
            mine = [each for each in victims if each.project == giver]
            others = [each for each in victims if each.project != giver]
            shortfalls = self._shortfalls(_rest(self._missing, self._freed(others)))
            found = better(mine, self._candidates(giver), shortfalls, base)
            if found != tuple(mine) and self._counted(found).within(self._counted(mine)):
                victims = self._takable([*others, *found]) or victims
        return victims

    def _takable(self, victims: Sequence[Candidate]) -> tuple[Candidate, ...] | None:
        """These victims in the order in which they are taken; None if the gate stops any."""
        by_project: dict[str, list[Candidate]] = {}
        for victim in sorted(victims, key=attrgetter("order")):
            by_project.setdefault(victim.project, []).append(victim)
        chains = {name: self._accounts.of_project(name, self._name) for name in by_project}
        found = self._take(by_project.__getitem__, chains, lambda taken: len(taken) == len(victims))
        if found is None or self._deserved(found) or self._brought_back(found):
            return None
        return found

    def _brought_back(self, victims: Sequence[Candidate]) -> Candidate | None:
        """A victim whose project would take the slots back at once, or None.

        This needs a reclaimer above its own quota, and waiting jobs of the victim's project that
        are within quota without the victims.
        """
        if not self.job.evictable or self._mine[0].in_quota(self.job.demand):
            return None
        left = self.room.left(self.job, self._entitled) + self._freed(victims) - self.job.demand
        for victim in reversed(victims):
            theirs = self._accounts.of_project(victim.project, self._name)
            gone = self._counted(each for each in victims if each.project == victim.project)
            back = self._state.waits(victim.project)
            in_quota = (job for job in back if theirs[0].in_quota(job.demand - gone))
            if any(self._takes_back(job, theirs, left) for job in in_quota):
                return victim
        return None

    def _takes_back(self, job: Job, theirs: Chain, left: Demand) -> bool:
        """Whether the job would have to reclaim slots to start.

        That holds if it does not fit into `left` in this pool. It also holds if it does not fit in
        another pool of the same quota where the reclaimer's project has candidates that this plan
        leaves unprotected.
        """
        for room in self._state.rooms_of(job):
            if room is self.room:
                if not job.demand.within(left):
                    return True
            elif self._accounts.of(job, room.pool.name) is theirs:
                names = {each.name for each in room.jobs.candidates(self.job.project)}
                stays = names - self._state.running.protected_after_start()
                if stays and not room.fits_soon(job, self._entitled):
                    return True
        return False

    def _deserved(self, victims: Sequence[Candidate]) -> Candidate | None:
        """The first victim that its project deserves with all the others gone, or None."""
        if len(victims) == 1:
            return None
        taking = _Taking(self.job, self._mine)
        chains = [self._accounts.of_project(victim.project, self._name) for victim in victims]
        held = [self._accounts.counted(victim, self._name) for victim in victims]
        for victim, counted, theirs in zip(victims, held, chains, strict=True):
            taking.take(victim, counted, theirs)
        for victim, counted, theirs in zip(victims, held, chains, strict=True):
            if not taking.is_fair(theirs, back=counted):
                return victim
        return None

    def _take(
        self,
        candidates: Callable[[str], Sequence[Candidate]],
        chains: Mapping[str, Chain],
        enough: Callable[[Sequence[Candidate]], bool],
    ) -> tuple[Candidate, ...] | None:
        """ "The most over-served project gives first, one victim at a time." """
        taking = _Taking(self.job, self._mine)
        left = dict(chains)
        coming: dict[str, Iterator[Candidate]] = {}
        while not enough(taking.victims):
            fair = [name for name, chain in left.items() if taking.is_fair(chain)]
            if not fair:
                return None
            # The most over-served project comes first, so few candidates are looked at.
            giver = max(fair, key=lambda name: taking.over_served(left[name]))
            victim = next(coming.setdefault(giver, iter(candidates(giver))), None)
            if victim is None:
                del left[giver]
            else:
                counted = self._accounts.counted(victim, self._name)
                taking.take(victim, counted, left[giver])
        return tuple(taking.victims)

    def _shortfalls(self, missing: Demand) -> Shortfalls:
        return Shortfalls(
            Shortfall(missing=missing, gives=lambda candidate: candidate.frees(self._name))
        )

    def _freed(self, victims: Iterable[Candidate]) -> Demand:
        return sum((victim.frees(self._name) for victim in victims), NOTHING)

    def _counted(self, victims: Iterable[Candidate]) -> Demand:
        return sum((self._accounts.counted(victim, self._name) for victim in victims), NOTHING)


@dataclass(slots=True)
class _Taking:
    """A reclaim in progress: victims taken so far count as gone."""

    job: Job
    mine: Chain
    victims: list[Candidate] = field(default_factory=list)
    gone: dict[str, Demand] = field(default_factory=dict)
    in_quota: dict[str, bool] = field(default_factory=dict)
    """Of the reclaimer's accounts, once needed."""

    def take(self, victim: Candidate, counted: Demand, theirs: Chain) -> None:
        """Add a victim. `counted`: what it holds in the accounts of `theirs`."""
        self.victims.append(victim)
        self.lose(counted, theirs)

    def lose(self, counted: Demand, theirs: Chain) -> None:
        """Count an amount that the accounts hold as gone."""
        for account in theirs:
            self.gone[account.key] = self.gone.get(account.key, NOTHING) + counted

    def keeps_within_share(self) -> bool:
        """Whether the department, too, stays within its fair share with the victims gone.

        A department above its share already may not hold more than before.
        """
        within = (self._holds_no_more(account) for account in self.mine[1:])
        return all(within)

    def _holds_no_more(self, account: Account) -> bool:
        gone = self.gone.get(account.key, NOTHING)
        return not account.beyond_share(self.job.demand - gone)

    def over_served(self, theirs: Chain) -> tuple[Deprivation, Deprivation]:
        """The deprivation of the department, then of the project: larger is more over-served."""
        return self._deprivation(theirs[-1]), self._deprivation(theirs[0])

    def is_fair(self, theirs: Chain, back: Demand = NOTHING) -> bool:
        """Whether the victim's project holds more than it deserves, without what is gone.

        `back`: the part of the gone amount that counts as still held.
        """
        mine, other = _siblings(self.mine, theirs)
        above, above_quota = self._over(other, back)
        if not above and not (above_quota and self._is_in_quota(mine)):
            return False
        if other is theirs[0] or self._over(theirs[0], back)[1]:
            return True
        return above and self._is_full() and isinstance(other.owner, Department)

    def _over(self, account: Account, back: Demand) -> tuple[bool, bool]:
        """Whether the account is over its share, and over its quota, without what is gone."""
        if not back and account.key not in self.gone:
            return account.gives()
        gone = self._gone(account) - back
        return account.over_share(gone), account.over_quota(gone)

    def _is_in_quota(self, mine: Account) -> bool:
        if mine.key not in self.in_quota:
            self.in_quota[mine.key] = mine.in_quota(self.job.demand)
        return self.in_quota[mine.key]

    def _is_full(self) -> bool:
        """ "`full` lets a department below its share take in-quota work of a project whose
        department is above its own."
        """
        mine = self.mine[-1]
        full = isinstance(mine.owner, Department) and mine.owner.fairness is Fairness.FULL
        return full and mine.in_share(self.job.demand)

    def _deprivation(self, account: Account) -> Deprivation:
        if account.key not in self.gone:
            return account.giving()
        return account.deprivation(gone=self._gone(account))

    def _gone(self, account: Account) -> Demand:
        """What the account can no longer give: victims taken so far and slots only promised."""
        return self.gone.get(account.key, NOTHING) + account.promised


def _siblings(mine: Chain, theirs: Chain) -> tuple[Account, Account]:
    """The accounts where the branches part: projects of one department, else the chains' tops."""
    return (mine[0], theirs[0]) if mine[-1] is theirs[-1] else (mine[-1], theirs[-1])


def _rest(missing: Demand, given: Demand) -> Demand:
    """What is still missing after `given`, at least 0 of each resource."""
    return Demand({name: max(0, amount - given[name]) for name, amount in missing.items()})

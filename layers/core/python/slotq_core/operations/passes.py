"""A pass: load -> plan -> commit -> effect -> confirm; then the intents that dead handlers left,
and the stops whose grace is over.

Correctness depends on the conditions of the commits alone, so any number of passes may run at once.
After a conflict, a pass loads and plans again. It excludes what is refused permanently
(`setbacks`). The lease only saves work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from slotq_core.errors import Conflict, Malformed, SlotQError
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.model.pools import CapacityKind, Pool, WarmSlot
from slotq_core.model.projects import BudgetStatus
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.attempts.rights_report import descriptions
from slotq_core.operations.decisions_in_parts import DecisionsInParts, Unfinished
from slotq_core.operations.effects import Effects
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import pools_touched, steps, warm_steps
from slotq_core.policy.plan import Decision, Plan, Release, StartGang, StartNode, jobs_in, nodes_in
from slotq_core.policy.setbacks import Setbacks, without
from slotq_core.policy.state.quotas.budgets import budgets_of
from slotq_core.ports.store import Repair, Store
from slotq_core.ports.stored import Change, Finding, NodeChange, Poison, WarmChange, World
from slotq_core.ports.surroundings import Clock, DeadLetters, Notifier
from slotq_core.usage.calendar_days import month_of

if TYPE_CHECKING:
    from slotq_core.operations.nodes.node_steps import NodeSteps

PASS_BUDGET = 30_000
"""How long (ms) a pass may decide. An unfinished pass asks for another pass."""

LEASE_MARGIN = 10_000
"""How long (ms) beyond the pass the lease lasts if its holder dies."""

AHEAD = (16, 100)
"""How many jobs a pass changes before the first of their calls to SageMaker: at first, and at most.
The number doubles after each success within `AHEAD_FOR`, and falls to one job after a failed call.
"""

AHEAD_FOR = 5_000
"""How long (ms) the calls of jobs changed together may take; the number halves after longer."""

_MOST_TOGETHER = 20
"""Most decisions that are considered for one transaction. Few: each may depend on another ledger,
which takes one of the transaction's actions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassResult:
    """The decisions of a pass, in the order of the commits, and the time of the next pass."""

    decisions: tuple[Decision, ...] = ()
    wake_at: int | None = None
    troubles: tuple[str, ...] = ()
    """Failures of single jobs; their intents stay."""
    unfinished: bool = False
    """The budget was used up, and another pass has been asked for."""
    busy: bool = False
    """Another handler is doing, or has done, the work of this pass."""
    missing_rights: tuple[str, ...] = ()
    """Pools and roles in back-off for a missing right, and which right to add."""
    budget_warnings: tuple[BudgetStatus, ...] = ()
    """Projects that have come near their budget."""
    warm_unused: int = 0
    """How long (slots × ms) instances had stayed warm that this pass found gone, without a job on
    them."""
    findings: tuple[Finding, ...] = ()
    """Findings of the reconciliation, if this was its tick."""


class Poisons:
    """Sends unreadable items and events to the dead letters, each once per process, and sets the
    items aside. They stop nothing else."""

    def __init__(self, repair: Repair, dead_letters: DeadLetters) -> None:
        self._repair = repair
        self._dead_letters = dead_letters
        self._reported: set[tuple[str, str]] = set()

    def report(self, kind: str, subject: str, reason: str) -> bool:
        """Send one letter to the dead letters. Return False if this process has sent the same
        before."""
        if (subject, reason) in self._reported:
            return False
        self._reported.add((subject, reason))
        self._dead_letters.put(kind, subject, reason)
        return True

    def quarantine(self, found: Iterable[Poison]) -> Iterator[str]:
        """Repair or set aside each item. Yield the messages to report."""
        for poison in found:
            if self.report("item", poison.key, poison.reason):
                yield f"{poison.key}: {poison.reason}"
            try:
                self._repair.quarantine(poison)
            except SlotQError as error:
                yield f"{poison.key}: could not be set aside: {error}"


class Passes:
    """Runs passes over the ports."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        notifier: Notifier,
        effects: Effects,
        poisons: Poisons,
        new_token: Callable[[], str] | None = None,
    ) -> None:
        """`new_token` makes the secret token of a node; None: by chance."""
        self._new_token = new_token
        self._store = store
        self._clock = clock
        self._notifier = notifier
        self._effects = effects
        self._poisons = poisons
        self._parts = DecisionsInParts(store.decisions, store.jobs)

    def announce(self) -> None:
        """Make this handler's changes seen by those who ask what has changed: its last call."""
        self._store.scheduler.announce()

    def run(
        self,
        *,
        holder: str = "here",
        budget: int = PASS_BUDGET,
        only_news: bool = False,
        bump: bool = False,
        looks: bool = False,
    ) -> PassResult:
        """Decide and act until nothing is left to decide, or the budget (ms) is used up.

        Only the holder of the lease works. Others return at once: the holder sees their request in
        the wake's generation. `holder` names this handler's invocation. With `only_news`, a pass
        also returns at once if every request was already handled; most passes of a burst arrive
        that late. Work that only the time calls for is left to the tick. With `bump`, this handler
        itself asks for the pass, by the call that takes the lease. With `looks`, as by the tick, it
        first looks at all training plans and warm instances.
        """
        until = self._clock.now() + min(budget, PASS_BUDGET)
        result = PassResult()
        while (
            generation := self._take_lease(holder, until, only_news=only_news, bump=bump)
        ) is not None:
            try:
                result = self._decide(result, until, looks=looks)
                looks = False
            except SlotQError:
                with suppress(SlotQError):
                    self._store.scheduler.end_lease(holder, generation=None)
                raise
            bump, finished = False, None if result.unfinished else generation
            if self._store.scheduler.end_lease(holder, generation=finished):
                if result.unfinished:
                    self._notifier.wake()
                return result
        return replace(result, busy=True)

    def _take_lease(self, holder: str, until: int, *, only_news: bool, bump: bool) -> int | None:
        now = self._clock.now()
        lease = max(until, now) + LEASE_MARGIN
        return self._store.scheduler.take_lease(
            holder, now=now, until=lease, only_news=only_news, bump=bump
        )

    def _decide(self, before: PassResult, until: int, *, looks: bool = False) -> PassResult:
        """Decide first, then carry out slow effects and the intents that are left, each at most
        once. No job's effect delays decisions about other jobs.

        Loads and plans again until a plan is the last one: it was committed whole, its effects went
        as planned, and no further plan could follow from it.
        """
        done, troubles = list(before.decisions), list(before.troubles)
        warned = list(before.budget_warnings)
        slow: list[Job] = []
        tried: set[str] = set()
        tried_nodes: set[Node] = set()
        notified, setbacks, ahead = set[str](), Setbacks(), _Ahead()
        followed = _Followed(looks=looks, unused=before.warm_unused)
        while self._clock.now() < until:
            world = self._load(troubles, warned)
            if self._follow_capacity(world.snapshot, troubles, until, followed):
                continue
            first = self._finish_begun(world, notified, setbacks, until)
            if first is not None:
                troubles += first
                continue
            planned = self._planned(world, setbacks)
            applied = self._apply(planned.decisions, world, setbacks, ahead, until)
            done += [step.decision for step in applied.steps]
            troubles += applied.troubles
            slow += applied.slow
            if not (applied.as_planned and planned.is_last) or applied.dependents_to_notify:
                continue
            # No effect of a decision comes before the decision is finished.
            undecided = world.in_parts.jobs if world.in_parts else frozenset()
            left = self._effects.due(world.snapshot.active)
            left = [job for job in left if job.name not in tried | undecided]
            carried = self._effects.carry_out_all([*slow, *left], until=until)
            troubles += carried.troubles
            tried |= {job.name for job in left}
            slow.clear()
            left_nodes = self._carry_out_nodes(world.snapshot, tried_nodes, troubles, until)
            if carried.as_planned and not (left or left_nodes):
                with suppress(SlotQError):
                    world.keep_bounds()
                return PassResult(
                    decisions=tuple(done),
                    troubles=tuple(troubles),
                    wake_at=planned.wake_at,
                    missing_rights=tuple(descriptions(world.snapshot.pools)),
                    budget_warnings=tuple(warned),
                    warm_unused=followed.unused,
                )
        troubles += self._effects.carry_out_all(slow, until=until).troubles
        return PassResult(
            decisions=tuple(done),
            troubles=tuple(troubles),
            wake_at=self._clock.now(),
            unfinished=True,
            budget_warnings=tuple(warned),
            warm_unused=followed.unused,
        )

    def _follow_capacity(
        self, snapshot: Snapshot, troubles: list[str], until: int, followed: _Followed
    ) -> bool:
        """Look at training plans and warm instances, each once in a pass. Returns whether anything
        has changed."""
        if self._look_at_plans(snapshot, troubles, until, followed):
            return True
        return bool(snapshot.warm) and self._follow_warm(snapshot, troubles, until, followed)

    def _look_at_plans(
        self, snapshot: Snapshot, troubles: list[str], until: int, followed: _Followed
    ) -> bool:
        if followed.plans or not followed.looks:
            return False
        followed.plans = True
        if all(pool.capacity_kind is not CapacityKind.PLAN for pool in snapshot.pools):
            return False
        found = self._effects.look_at_plans(snapshot, until=until)
        troubles += found.troubles
        return found.changed

    def _follow_warm(
        self, snapshot: Snapshot, troubles: list[str], until: int, followed: _Followed
    ) -> bool:
        """Finish the releases that other handlers have begun, and look at all warm instances."""
        if followed.warm:
            return False
        found = self._effects.warm.look(snapshot, until=until) if followed.looks else None
        followed.warm = True
        followed.unused += found.unused if found is not None else 0
        left = () if found is not None and found.changed else snapshot.warm
        sent = self._effects.warm.release(left, until=until)
        troubles += [*(found.troubles if found else ()), *sent.troubles]
        return sent.changed or (found is not None and found.changed)

    def _carry_out_nodes(
        self, snapshot: Snapshot, tried: set[Node], troubles: list[str], until: int
    ) -> bool:
        """Carry out what is due for nodes, each at most once. Returns whether anything was."""
        if not snapshot.nodes:
            return False
        due = [task for task in self._effects.nodes.due(snapshot) if task.node not in tried]
        tried |= {task.node for task in due}
        troubles += self._effects.nodes.carry_out_all(due, until=until).troubles
        return bool(due)

    def _load(self, troubles: list[str], warned: list[BudgetStatus]) -> World:
        """Load; note unreadable items, and projects that have come near their budget."""
        world = self._store.worlds.load(self._clock.now())
        troubles += self._poisons.quarantine(world.poison)
        if world.undecidable and world.undecidable not in troubles:
            troubles.append(world.undecidable)
        try:
            warned += self._warn(world.snapshot)
        except SlotQError as error:
            troubles.append(f"budgets: {error}")
        return world

    def _planned(self, world: World, setbacks: Setbacks) -> Plan:
        """What to decide, as far as anything can be decided."""
        if world.undecidable:
            return Plan()
        snapshot, more = without(world.snapshot, setbacks.away, world.more)
        planned = plan(snapshot, self._clock.now(), more=more)
        return setbacks.away.left_of(planned)

    def _finish_begun(
        self, world: World, notified: set[str], setbacks: Setbacks, until: int
    ) -> tuple[str, ...] | None:
        """Finish another pass's work before planning: a decision in parts, then the notification of
        dependents, each end once. Returns the errors; None: nothing was left.

        A decision in parts that cannot be finished keeps all groups waiting, and no other job."""
        if world.in_parts is not None and not setbacks.away.every_group:
            try:
                finished = self._parts.finish(world.in_parts)
            except (Unfinished, Malformed) as error:
                setbacks.put_groups_away(world.in_parts.jobs)
                return (f"nothing is decided about groups: {error}",)
            return self._effects.carry_out_all(finished, until=until).troubles
        ended = [job for job in world.ended if job.name not in notified]
        notified |= {job.name for job in ended}
        return self._notify_dependents(ended, until) if ended else None

    def _notify_dependents(self, ended: Sequence[Job], until: int) -> tuple[str, ...]:
        # Most queues have no such jobs, and no cold start should pay for them.
        from slotq_core.operations.jobs.followers import notify_dependents

        stopping, troubles = notify_dependents(ended, self._store, self._clock, until=until)
        return troubles + self._effects.carry_out_all(stopping, until=until).troubles

    def _warn(self, snapshot: Snapshot) -> Iterator[BudgetStatus]:
        """Yield the projects that have come near their budget, each once a month; again if the
        project comes near a raised budget."""
        now, book = self._clock.now(), self._store.usage
        for name, status in budgets_of(snapshot, now).items():
            if status.is_near and not status.warned and book.warn(name, month_of(now)):
                yield status
            elif status.warned and not status.is_near:
                book.take_back_warning(name, month_of(now))

    def _apply(
        self,
        decisions: Sequence[Decision],
        world: World,
        setbacks: Setbacks,
        ahead: _Ahead,
        until: int,
    ) -> _Applied:
        """Commit the decisions in their order, as many together as one transaction holds, then call
        SageMaker, except for jobs with slow effects.

        Ends at the first conflict or failed call. The plan no longer fits the state then, and the
        next round plans again.
        """
        pools = {pool.name: pool for pool in world.snapshot.pools}
        versions = {name: ledger.version for name, ledger in world.ledgers.items()}
        conditions = _Conditions(
            versions=versions,
            group_decisions=world.group_decisions,
            snapshot=world.snapshot,
            new_token=self._new_token,
        )
        applied = _Applied()
        left = deque(decisions)
        while left and (began := self._clock.now()) < until:
            committed = _Committed()
            goes_on, failure = True, None
            try:
                with self._store.decisions.in_a_row():
                    while left and goes_on and (most := ahead.most - committed.calls) > 0:
                        following = self._steps(left, pools, conditions)
                        together = self._together(following, conditions, most)
                        goes_on = self._commit(together, conditions, setbacks, applied, committed)
                        goes_on = goes_on and conditions.known
                        for _ in together:
                            left.popleft()
            except SlotQError as error:
                failure = error  # What has been committed takes effect all the same.
            went = self._take_effect(committed, applied, until)
            if failure is not None:
                raise failure
            ahead.tried(went=went, took=self._clock.now() - began)
            if not (went and goes_on):
                return applied.cut_short()
        return applied if not left else applied.cut_short()

    def _steps(
        self, left: Iterable[Decision], pools: Mapping[str, Pool], conditions: _Conditions
    ) -> Iterator[_Step]:
        """The next decisions, made now."""
        now = self._clock.now()
        for decision in islice(left, _MOST_TOGETHER):
            touched = tuple(name for name in pools_touched(decision) if name in conditions.versions)
            changes = tuple(
                Change(before=before, after=after) for before, after in steps(decision, pools, now)
            )
            warm = tuple(
                WarmChange(before=before, after=after)
                for before, after in warm_steps(decision, now)
            )
            yield _Step(decision=decision, changes=changes, pools=touched, warm=warm)

    def _together(
        self, following: Iterable[_Step], conditions: _Conditions, most: int
    ) -> list[_Step]:
        """The first of these decisions, at least one, that one transaction holds. They change
        different jobs, because every change is conditioned on its job's version."""
        found: list[_Step] = []
        names: set[str] = set()
        for step in following:
            ends = nodes_in(step.decision)
            own = {change.before.name for change in step.changes} | {*map("/".join, ends)}
            most -= _calls(change.after for change in step.changes) + len(ends) + len(step.warm)
            if found and (names & own or most < 0):
                break
            names |= own
            found.append(step)
        while len(found) > 1:
            changes, seen = _changes(found), conditions.seen(_pools(found))
            nodes = self._node_changes(found, conditions)
            count = self._store.decisions.fitting(
                changes, seen=seen, nodes=nodes, warm=_warm(found)
            )
            if count == len(changes):
                break
            sizes = accumulate(len(step.changes) for step in found)
            found = found[: max(1, sum(1 for size in sizes if size <= count))]
        return found

    def _commit(
        self,
        together: Sequence[_Step],
        conditions: _Conditions,
        setbacks: Setbacks,
        applied: _Applied,
        committed: _Committed,
    ) -> bool:
        """Commit these decisions together. Where the transaction is refused, commit each half, up
        to the first decision that is refused by itself. Returns whether all were committed."""
        try:
            for jobs, nodes, warm in self._committed(together, conditions):
                committed.jobs += jobs
                committed.nodes += nodes
                committed.warm += warm
        except Unfinished as error:
            setbacks.put_groups_away(frozenset(job.name for job in jobs_in(together[0].decision)))
            applied.troubles.append(f"nothing is decided about groups: {error}")
            return False
        except (Conflict, Malformed) as error:
            if len(together) > 1:
                middle = len(together) // 2
                return all(
                    self._commit(half, conditions, setbacks, applied, committed)
                    for half in (together[:middle], together[middle:])
                )
            seen, number = conditions.seen(together[0].pools), conditions.group_decisions
            if trouble := setbacks.refused(together[0].decision, error, seen=seen, number=number):
                self._poisons.report("decision", *trouble)
                applied.troubles.append(": ".join(trouble))
            return False
        applied.steps += together
        return True

    def _committed(
        self, together: Sequence[_Step], conditions: _Conditions
    ) -> Iterator[tuple[tuple[Job, ...], tuple[Node, ...], tuple[WarmSlot, ...]]]:
        """Commit decisions that one transaction holds, or one decision that needs several. Yields
        the jobs, the nodes and the warm slots after each transaction. Raises Conflict.

        A decision about a group is committed as a whole, if need be in parts (`DecisionsInParts`).
        Nodes whose jobs it evicts then end by a later plan. Another decision that takes several
        transactions is an eviction, or the start of a node for a large gang. The first carries the
        claim, so the remaining slots stay owed if the handler dies in between, and the nodes, so no
        job comes to one that ends. Members without a claim get one by the next plan.
        """
        changes, touched = _changes(together), _pools(together)
        about_group = any(change.after.group for change in changes)
        nodes, warm = self._node_changes(together, conditions), _warm(together)
        fitting, seen = self._store.decisions.fitting, conditions.seen(touched)
        fits = len(together) > 1 or fitting(changes, seen=seen, nodes=nodes, warm=warm) == len(
            changes
        )
        if about_group and not (fits or isinstance(together[0].decision, StartNode)):
            jobs = self._parts.commit(
                changes,
                seen=seen,
                group_decisions=conditions.group_decisions,
                starts=isinstance(together[0].decision, StartGang),
            )
            conditions.known = False
            yield jobs, (), ()
            if isinstance(together[0].decision, Release):  # What starts shows at the next look.
                self._store.decisions.commit([], warm=warm)
                yield (), (), tuple(slot for change in warm if (slot := change.committed))
            return
        while changes or nodes or warm:
            seen = conditions.seen(touched)
            count = len(changes) if fits else fitting(changes, seen=seen, nodes=nodes, warm=warm)
            number = conditions.group_decisions if about_group else None
            jobs = self._store.decisions.commit(
                changes[:count], seen=seen, nodes=nodes, warm=warm, group_decisions=number
            )
            conditions.versions |= {name: version + 1 for name, version in seen.items()}
            conditions.group_decisions += about_group
            changes = changes[count:]
            changed = tuple(slot for change in warm if (slot := change.committed))
            yield jobs, tuple(node for change in nodes if (node := change.committed)), changed
            nodes, warm = [], []

    def _node_changes(self, steps: Iterable[_Step], conditions: _Conditions) -> list[NodeChange]:
        """What these decisions change about nodes, on the present conditions: a new node's
        generation follows from the version of its pool's ledger."""
        decisions = [step.decision for step in steps if nodes_in(step.decision)]
        if not decisions:
            return []
        now = self._clock.now()
        node_steps = conditions.node_steps
        return [
            change
            for decision in decisions
            for change in node_steps.changes(decision, conditions.versions, now)
        ]

    def _take_effect(self, committed: _Committed, applied: _Applied, until: int) -> bool:
        """Carry out the effects of committed changes, except for slow jobs. Starts that are left
        untried get their places back. Returns whether nothing went wrong."""
        jobs = committed.jobs
        applied.dependents_to_notify |= any(job.terminal and job.followed for job in jobs)
        applied.slow += filter(self._effects.is_slow, jobs)
        quick = [job for job in jobs if not self._effects.is_slow(job)]
        carried = self._effects.carry_out_all(quick, until=until, ahead=True)
        applied.as_planned = applied.as_planned and carried.as_planned
        applied.troubles += carried.troubles
        if carried.untried:
            left = {job.name: job for job in carried.untried}
            undone = [step for step in applied.steps if _first(step) in left]
            self._effects.take_back(
                [(change.before, left[change.before.name]) for change in _changes(undone)]
            )
            applied.steps = [step for step in applied.steps if _first(step) not in left]
        went = not (carried.troubles or carried.untried)
        if any(slot.releasing for slot in committed.warm):
            gone = self._effects.warm.release(committed.warm, until=until)
            applied.as_planned = False
            applied.troubles += gone.troubles
            went = went and not gone.troubles
        return self._take_effect_on_nodes(committed.nodes, applied, until) and went

    def _take_effect_on_nodes(self, nodes: Sequence[Node], applied: _Applied, until: int) -> bool:
        """Carry out the effects of committed changes of nodes. Returns whether nothing went
        wrong."""
        if not nodes:
            return True
        carried = self._effects.nodes.take_effect(nodes, until=until)
        applied.as_planned = applied.as_planned and carried.as_planned
        applied.troubles += carried.troubles
        return not carried.troubles


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """A decision to be committed."""

    decision: Decision
    changes: tuple[Change, ...]
    pools: tuple[str, ...]
    """The pools on whose ledgers the commit is conditioned."""
    warm: tuple[WarmChange, ...] = ()


@dataclass(kw_only=True, slots=True)
class _Committed:
    """What has been committed, and has effects to carry out."""

    jobs: list[Job] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    warm: list[WarmSlot] = field(default_factory=list)

    @property
    def calls(self) -> int:
        """How many calls to SageMaker may be needed."""
        return _calls(self.jobs) + len(self.nodes) + len(self.warm)


def _first(step: _Step) -> str:
    """The first job that the step changes; empty: it changes none."""
    return step.changes[0].before.name if step.changes else ""


def _changes(steps: Iterable[_Step]) -> list[Change]:
    return [change for step in steps for change in step.changes]


def _warm(steps: Iterable[_Step]) -> list[WarmChange]:
    return [change for step in steps for change in step.warm]


def _calls(jobs: Iterable[Job]) -> int:
    """How many of these changed jobs may need a call to SageMaker."""
    return sum(job.attempt is not None for job in jobs)


def _pools(steps: Iterable[_Step]) -> list[str]:
    return [*dict.fromkeys(name for step in steps for name in step.pools)]


@dataclass(kw_only=True, slots=True)
class _Conditions:
    """What the next commit is conditioned on: the state as loaded, and this pass's own commits."""

    versions: dict[str, int]
    """Of each pool's ledger."""
    group_decisions: int
    snapshot: Snapshot
    """As loaded."""
    new_token: Callable[[], str] | None
    """Makes the token of a node; None: by chance."""
    known: bool = True
    """False after a decision in parts: others may have changed its ledgers in between."""
    _node_steps: NodeSteps | None = None

    @property
    def node_steps(self) -> NodeSteps:
        """What the decisions change about nodes."""
        if self._node_steps is None:
            # Most queues have no nodes, and no cold start should pay for them.
            from slotq_core.operations.nodes.node_steps import NodeSteps, busy_nodes, by_chance

            self._node_steps = NodeSteps(
                pools={pool.name: pool for pool in self.snapshot.pools},
                busy=busy_nodes(self.snapshot.active),
                new_token=self.new_token or by_chance,
            )
        return self._node_steps

    def seen(self, pools: Sequence[str]) -> dict[str, int]:
        return {name: self.versions[name] for name in pools}


@dataclass(kw_only=True, slots=True)
class _Followed:
    """What a pass has followed of capacity that SageMaker keeps for the queue."""

    looks: bool
    """Whether it looks at all plans and warm instances."""
    plans: bool = False
    warm: bool = False
    unused: int = 0
    """As in the pass's result."""


@dataclass(kw_only=True, slots=True)
class _Ahead:
    """How many jobs a pass changes before the first of their calls."""

    most: int = AHEAD[0]

    def tried(self, *, went: bool, took: int) -> None:
        """Learn from the last ones: whether their calls went well, and how long they took (ms)."""
        if not went:
            self.most = 1
        elif took < AHEAD_FOR:
            self.most = min(2 * self.most, AHEAD[1])
        else:
            self.most = max(1, self.most // 2)


@dataclass(kw_only=True, slots=True)
class _Applied:
    """The outcome of a plan's decisions."""

    steps: list[_Step] = field(default_factory=list)
    """The committed decisions."""
    slow: list[Job] = field(default_factory=list)
    """Jobs whose effects are carried out later."""
    troubles: list[str] = field(default_factory=list)
    dependents_to_notify: bool = False
    """Whether a job with dependents has ended."""
    as_planned: bool = True
    """Whether every decision was committed, and nothing has happened that the plan does not
    expect."""

    def cut_short(self) -> _Applied:
        self.as_planned = False
        return self

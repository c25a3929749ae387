"""Repair drift between the queue's records and what SageMaker runs.

Events report nearly every change. Reconciliation finds the rest, at a low rate, because the listing
is expensive (2 calls a second for the whole account):

- stale intents of dead handlers: carried out
- attempts whose end or start was missed: described and recorded, many at once
- attempts whose training job no longer exists: ended as stopped
- the same of nodes: their jobs wait again (`nodes.node_drift`)
- training jobs with this queue's tag that no job expects: stopped once, at the second sighting
- training jobs without the tag: counted, if a pool counts them, and never touched

The listing costs a call for each hundred training jobs of the account, ended ones too, so a busy
account's oldest are out of its reach. What is not listed is described singly.

An attempt whose create may be in progress is never declared dead, and its training job is no
orphan: names and intents are durable before the call.

See docs/protocol.md#what-no-event-reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from zlib import crc32

from slotq_core.errors import NotListed, SlotQError, Unavailable
from slotq_core.model.capacity.work import WorkKind, work_of
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import node_of_owner
from slotq_core.model.pools import CapacityKind, Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.effects import HANDLER_LIFETIME, Effects
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Finding
from slotq_core.ports.surroundings import Clock, InParallel, one_by_one
from slotq_core.ports.training import (
    LiveTrainingJobs,
    Observation,
    Phase,
    Sighting,
    TrainingService,
    Verdict,
)

RECONCILE_EVERY = 300_000
"""Usual interval (ms) between two reconciliations."""

LONGEST_INTERVAL = 2_400_000
"""Longest interval (ms), used while SageMaker throttles the listing."""

TASK = "reconcile"

_PART = 100
"""How many attempts are described before what they show is recorded."""


class Reconciler:
    """Finds drift and, on request, repairs it. Any number may work at once."""

    def __init__(
        self,
        store: Store,
        training: TrainingService,
        clock: Clock,
        effects: Effects,
        *,
        at_once: InParallel = one_by_one,
    ) -> None:
        """`at_once` describes several training jobs at once."""
        self._at_once = at_once
        self._store = store
        self._training = training
        self._clock = clock
        self._effects = effects
        self._interval = RECONCILE_EVERY
        """Kept by this process only: a new process starts with the usual interval."""

    def run_if_due(self, now: int, *, until: int | None = None) -> list[Finding]:
        """Reconcile if a reconciliation is due and no other handler runs one.

        The interval doubles after each failed listing, up to `LONGEST_INTERVAL`. Failures of the
        store do not change the interval. Where the time was too short for all ends, the next tick
        goes on. Raises Unavailable.
        """
        if not self._store.scheduler.take_turn(TASK, now=now, next_at=now + RECONCILE_EVERY):
            return []
        try:
            found = self.reconcile(until=until)
        except NotListed:
            self._interval = min(2 * self._interval, LONGEST_INTERVAL)
            self._store.scheduler.postpone(TASK, next_at=now + self._interval)
            raise
        self._interval = RECONCILE_EVERY
        late = until is not None and self._clock.now() >= until
        if late and any(finding.kind in _UNSEEN and finding.mended for finding in found):
            self._store.scheduler.postpone(TASK, next_at=now)
        return found

    def reconcile(
        self, *, mend: bool = True, starts: bool = True, until: int | None = None
    ) -> list[Finding]:
        """Find everything that disagrees with SageMaker, and repair it if `mend` is set. Without
        `starts`, this starts no training job: the next pass does.

        A failure with one thing is a finding and stops no other. Things not examined by `until`
        wait for the next reconciliation. Raises NotListed if SageMaker does not list, or
        Unavailable; nothing has changed then.
        """
        # Load first: each training job created by then is in the later listing if it still runs.
        began = self._clock.now()
        world = self._store.worlds.load(began)
        snapshot = world.snapshot
        listing = self._listed(snapshot.pools)
        run = _Run(
            store=self._store,
            training=self._training,
            clock=self._clock,
            effects=self._effects,
            at_once=self._at_once,
            began=began,
            until=until,
            mend=mend,
            starts=starts,
        )
        expected = {job.attempt.training_job for job in snapshot.active if job.attempt}
        expected |= {node.training_job for node in snapshot.nodes}
        # The next pass finishes a decision in parts, or undoes it; no effect of it comes before.
        undecided = world.in_parts.jobs if world.in_parts else frozenset()
        intended = [job for job in snapshot.active if job.name not in undecided]
        found = [*run.intents(intended), *run.attempts(snapshot.active, listing)]
        found += run.nodes(snapshot, listing.names)
        foreign: list[Sighting] = []
        found += run.unexpected(listing, expected, foreign)
        return [*found, *run.foreign(snapshot.pools, foreign)]

    def _listed(self, pools: Iterable[Pool]) -> LiveTrainingJobs:
        """What runs of the kinds of work that the pools hold. Training is always listed."""
        works = dict.fromkeys((WorkKind.TRAINING, *(pool.work for pool in pools)))
        try:
            return self._training.live(tuple(works))
        except Unavailable as error:
            raise NotListed(str(error)) from error


class _NotAsked:
    """In place of an answer: the time was over."""


_NOT_ASKED = _NotAsked()

_UNSEEN = frozenset({"vanished", "ended_unseen"})
"""The findings that free slots."""


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One reconciliation. Each step yields its findings."""

    store: Store
    training: TrainingService
    clock: Clock
    effects: Effects
    at_once: InParallel
    began: int
    until: int | None
    mend: bool
    starts: bool

    def intents(self, active: Iterable[Job]) -> Iterator[Finding]:
        for job in self.effects.stale(active):
            yield from self._look(job.name, self._intent, job)

    def attempts(self, active: Iterable[Job], listed: LiveTrainingJobs) -> Iterator[Finding]:
        asked = [job for job in active if self._to_be_asked_for(job, listed)]
        asked.sort(key=self._turn)
        at_once = self.at_once
        for start in range(0, len(asked), _PART):
            part = asked[start : start + _PART]
            seen = [*zip(part, at_once(self._described, part), strict=True)]
            yield from self._recorded(seen)
            if any(isinstance(answer, Unavailable) for _, answer in seen):
                at_once = one_by_one  # SageMaker may throttle.

    def nodes(self, snapshot: Snapshot, listed: AbstractSet[str]) -> Iterator[Finding]:
        """Look after the nodes: stale intents, starts and ends that no event has reported."""
        if not snapshot.nodes:
            return
        from slotq_core.operations.nodes.node_drift import NodeDrift

        drift = NodeDrift(self.store, self.training, self.effects.nodes)
        for node in drift.stale(snapshot):
            yield from self._look(node.name, drift.intent, node, self.mend, self.starts)
        for node in drift.to_be_asked_for(snapshot, listed, self.began):
            yield from self._look(node.name, drift.missed, node, self.mend)

    def _described(self, job: Job) -> Observation | SlotQError | _NotAsked | None:
        """What SageMaker says of the live attempt; None: there is no such training job."""
        if self._is_late():
            return _NOT_ASKED
        assert job.attempt is not None
        try:
            return self.training.describe(job.attempt.training_job)
        except SlotQError as error:
            return error

    def _recorded(
        self, seen: Iterable[tuple[Job, Observation | SlotQError | _NotAsked | None]]
    ) -> Iterator[Finding]:
        """Record the answers, if they are to be. Yields what was missed."""
        answers: list[tuple[Job, Observation | None]] = []
        for job, answer in seen:
            if isinstance(answer, SlotQError):
                yield _not_examined(job.name, answer)
            elif not isinstance(answer, _NotAsked):
                answers.append((job, answer))
        if not self.mend:
            for job, answer in answers:
                missed = _missed(job, answer)
                if missed and job.attempt and self._expects(job.name, job.attempt.training_job):
                    yield missed
            return
        outcomes = self.effects.observing.take_in(answers)
        for (job, answer), outcome in zip(answers, outcomes, strict=True):
            missed = _missed(job, answer)
            if isinstance(outcome, SlotQError):
                yield _not_examined(job.name, outcome)
            elif missed and outcome and outcome.written:  # Else it was observed meanwhile.
                yield replace(missed, mended=True)

    def _turn(self, job: Job) -> int:
        """Order the jobs differently each time: without time for all, each has its turn soon."""
        return crc32(f"{self.began // RECONCILE_EVERY} {job.name}".encode())

    def unexpected(
        self, listing: LiveTrainingJobs, expected: AbstractSet[str], foreign: list[Sighting]
    ) -> Iterator[Finding]:
        """Yield findings about training jobs that no job expects. Put those of other owners into
        `foreign`."""
        names = listing.names - expected
        known = {sighting.training_job: sighting for sighting in self.store.health.sightings()}
        for name in sorted(known.keys() - names):
            if listing.complete or name in expected:
                yield from self._look(name, self.store.health.forget, name)
            else:
                foreign += [known[name]] if not known[name].ours else []
                yield from self._look(name, self._unlisted, known[name], foreign)
        for name in sorted(names):
            yield from self._look(name, self._stranger, name, known.get(name), foreign)

    def foreign(self, pools: Iterable[Pool], foreign: Iterable[Sighting]) -> Iterator[Finding]:
        for pool, amount in foreign_use(pools, foreign):
            if amount != pool.foreign:
                yield from self._look(pool.name, self._count, pool, amount)

    def _look(
        self, subject: str, look: Callable[..., Finding | None], *what: object
    ) -> Iterator[Finding]:
        if self._is_late():
            return
        try:
            found = look(*what)
        except SlotQError as error:
            found = _not_examined(subject, error)
        if found is not None:
            yield found

    def _is_late(self) -> bool:
        return self.until is not None and self.clock.now() >= self.until

    def _intent(self, job: Job) -> Finding:
        stops = job.attempt is not None and job.attempt.stop is not None
        here = stops or self.starts
        text = (
            f"{'stopping' if stops else 'starting'} it was decided but never confirmed; "
            f"{'it is repeated' if here else 'the next pass repeats it'}"
        )
        if self.mend and here:
            self.effects.carry_out(job)
        now = self.store.jobs.get(job.name)
        left = now is not None and now.active and bool(self.effects.stale([now]))
        return Finding(kind="stale_intent", subject=job.name, text=text, mended=not left)

    def _to_be_asked_for(self, job: Job, listed: LiveTrainingJobs) -> bool:
        """Whether to describe the attempt. The listing shows that a training job is alive, and
        whether it is interrupted, but not whether it has begun to run. What runs on nodes is in
        their reports, which each tick reads."""
        attempt = job.attempt
        if attempt is None or not attempt.created or attempt.node:
            return False
        if self.began - attempt.admitted_at < HANDLER_LIFETIME:
            return False
        if attempt.training_job not in listed.names or job.state is JobState.STARTING:
            return True
        interrupted = attempt.training_job in listed.interrupted
        return job.state is JobState.RUNNING and interrupted != (
            attempt.interrupted_since is not None
        )

    def _unlisted(self, sighting: Sighting, foreign: list[Sighting]) -> None:
        """Forget a training job that is too old to be listed, once it has ended."""
        if self.training.look_into(sighting.training_job, now=self.began) is None:
            self.store.health.forget(sighting.training_job)
            if sighting in foreign:
                foreign.remove(sighting)

    def _stranger(
        self, name: str, sighting: Sighting | None, foreign: list[Sighting]
    ) -> Finding | None:
        if sighting is None or sighting.ours:
            owner = self.store.jobs.owner_of(name)
            if owner is not None and self._expects(owner, name):
                return None  # Started after the load.
        if sighting is None:
            sighting = self.training.look_into(name, now=self.began)
            if sighting is None:
                return None
            self.store.health.remember(sighting)
        if sighting.ours:
            return None if sighting.stopped else self._orphan(sighting)
        foreign.append(sighting)
        return None

    def _orphan(self, sighting: Sighting) -> Finding:
        name, text = sighting.training_job, "has this queue's tag, but no job expects it: "
        if self.began - sighting.first_seen < HANDLER_LIFETIME or not self.mend:
            text += "it is stopped when a later reconciliation sees it again"
            return Finding(kind="orphan", subject=name, text=text)
        answer = self.training.stop(name)
        if answer.verdict is Verdict.FAIL:
            return Finding(kind="orphan", subject=name, text=text + "it is gone", mended=True)
        if answer.verdict not in {Verdict.OK, Verdict.ALREADY_DONE}:
            return Finding(kind="orphan", subject=name, text=text + answer.message)
        self.store.health.remember(replace(sighting, stopped=True))
        return Finding(kind="orphan", subject=name, text=text + "it is stopped", mended=True)

    def _count(self, pool: Pool, amount: Demand) -> Finding:
        if self.mend:
            self.store.health.set_foreign(pool.name, amount)
        text = (
            f"training jobs outside the queue use {amount.slots} of its slots; the queue "
            f"counted {pool.foreign.slots}"
        )
        return Finding(kind="foreign", subject=pool.name, text=text, mended=self.mend)

    def _expects(self, job: str, training_job: str) -> bool:
        """Whether this training job is the job's live attempt now.

        True also for a missing job. Such a job could not be read and was put aside: its training
        job is left to people. The owner may be a node, too.
        """
        if (node := node_of_owner(job)) is not None:
            stored = self.store.nodes.get(*node)
            return stored is None or stored.training_job == training_job
        kept = self.store.jobs.get(job)
        if kept is None:
            return True
        return kept.attempt is not None and kept.attempt.training_job == training_job


def _missed(job: Job, seen: Observation | None) -> Finding | None:
    """What no event has reported of the job's live attempt, if anything."""
    assert job.attempt is not None
    if seen is None:
        kind, said = "vanished", "is no longer in SageMaker: the job ends as stopped"
    elif seen.phase.ended:
        kind = "ended_unseen"
        said = f"has ended ({seen.phase}) without an event: its end is recorded"
    elif seen.phase is Phase.RUNNING and job.state is JobState.STARTING:
        kind = "running_unseen"
        said = "has begun to run without an event: its start is recorded"
    elif seen.phase is Phase.RUNNING and seen.interrupted != bool(job.attempt.interrupted_since):
        kind = "interruption_unseen"
        what = "is interrupted" if seen.interrupted else "runs again"
        said = f"{what} without an event: that is recorded"
    else:
        return None
    text = f"training job {job.attempt.training_job} {said}"
    return Finding(kind=kind, subject=job.name, text=text)


def _not_examined(subject: str, error: SlotQError) -> Finding:
    return Finding(kind="trouble", subject=subject, text=f"could not be examined: {error}")


def foreign_use(
    pools: Iterable[Pool], foreign: Iterable[Sighting]
) -> Iterator[tuple[Pool, Demand]]:
    """Yield what each pool has to count: training jobs of its instance type, bought as it is. If
    several such pools count foreign training jobs, the first pool counts them all: their pool is
    unknown. What others use of a training plan, the plan itself says (`training_plans.looks`)."""
    amounts: Counter[tuple[WorkKind, str, CapacityKind]] = Counter()
    for sighting in foreign:
        work = work_of(sighting.training_job)
        amounts[work, sighting.instance_type, sighting.capacity_kind] += sighting.instances
    for pool in pools:
        if pool.capacity_kind is CapacityKind.PLAN:
            continue
        own = (pool.work, pool.instance_type, pool.capacity_kind)
        counted = amounts.pop(own, 0) if pool.count_foreign else 0
        yield pool, Demand(slots=counted)

"""Release warm instances, and follow them until SageMaker has let them go or another training job
runs on them.

A release is an intent like a stop: durable before its call, and sent again until it is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from slotq_core.errors import Conflict, RightMissing, SlotQError, Unavailable
from slotq_core.lifecycle import copied
from slotq_core.model.pools import WarmSlot
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lifecycle.warm_slots import SETTLES_WITHIN
from slotq_core.ports.store import Store
from slotq_core.ports.stored import WarmChange
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import Observation, SageMakerService, Verdict, Warmth


@dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """The outcome of calls about several warm slots."""

    changed: bool = False
    """Whether a plan may now decide differently."""
    troubles: tuple[str, ...] = ()
    unused: int = 0
    """How long (slots × ms) the instances had stayed warm that are gone, without a job on them."""


class WarmSlots:
    """The calls about warm instances."""

    def __init__(
        self,
        store: Store,
        training: SageMakerService,
        clock: Clock,
        *,
        note_no_quota: Callable[[str], object],
    ) -> None:
        """`note_no_quota` records that SageMaker keeps nothing warm for a pool."""
        self._store, self._training, self._clock = store, training, clock
        self._note_no_quota = note_no_quota

    def release(self, slots: Iterable[WarmSlot], *, until: int) -> Followed:
        """Make the calls that ordered releases still need."""
        left = [slot for slot in slots if slot.releasing and not slot.sent]
        return self._each(left, self._release, until)

    def look(self, snapshot: Snapshot, *, until: int) -> Followed:
        """Look at each warm slot: one call each."""
        counting = {pool.name for pool in snapshot.pools if pool.count_foreign}
        taken = {slot.taken_by: slot for slot in snapshot.warm if slot.taken_by}
        return self._each(
            snapshot.warm,
            lambda slot: self._look(slot, taken, counted=slot.pool in counting),
            until,
        )

    def _each(
        self, slots: Iterable[WarmSlot], call: Callable[[WarmSlot], Followed], until: int
    ) -> Followed:
        changed, unused, troubles = False, 0, list[str]()
        for slot in slots:
            if self._clock.now() >= until:
                troubles.append("no time left to follow all warm instances")
                break
            try:
                found = call(slot)
                changed, unused = changed or found.changed, unused + found.unused
            except Conflict:  # Another handler was faster.
                changed = True
            except SlotQError as error:
                troubles.append(f"warm instances of {slot.training_job}: {error}")
        return Followed(changed=changed, troubles=tuple(troubles), unused=unused)

    def _release(self, slot: WarmSlot) -> Followed:
        answer = self._training.release(slot.training_job)
        if answer.verdict is Verdict.NO_RIGHTS:
            raise RightMissing(answer.message)
        if answer.verdict is Verdict.RETRY:  # The intent stays.
            raise Unavailable(answer.message)
        self._commit(WarmChange(before=slot, after=copied(slot, sent=True)))
        return Followed(changed=True)

    def _look(self, slot: WarmSlot, taken: Mapping[str, WarmSlot], *, counted: bool) -> Followed:
        """`taken`: by the queue's own training job, the slot that was to be its."""
        seen = self._training.describe(slot.reused_by or slot.training_job)
        change = self._change(slot, seen, counted=counted)
        if change is None:
            return Followed()
        other = taken.get(seen.reused_by) if seen is not None else None
        is_another = other is not None and other.training_job != slot.training_job
        self._commit(change, *(_instead(slot, other) if other and is_another else ()))
        gone = seen is None or seen.warmth is Warmth.GONE
        lasted = change.ended_at - slot.since if gone and change.ended_at else 0
        return Followed(changed=True, unused=slot.demand.slots * max(0, lasted))

    def _change(
        self, slot: WarmSlot, seen: Observation | None, *, counted: bool
    ) -> WarmChange | None:
        """What a look shows. `counted`: the pool counts training jobs outside the queue itself."""
        now = self._clock.now()
        if slot.reused_by:
            over = seen is None or seen.phase.ended
            return WarmChange(before=slot, after=None) if over else None
        warmth = seen.warmth if seen is not None else Warmth.GONE
        billed = seen.kept_warm if seen is not None else None
        ended_at = min(now, slot.until if billed is None else slot.since + billed)
        match warmth:
            case Warmth.GONE:
                return WarmChange(before=slot, after=None, ended_at=ended_at, recorded_at=now)
            case Warmth.NOTHING_KEPT if slot.sent or now - slot.since >= SETTLES_WITHIN:
                if slot.released_at is None:
                    self._note_no_quota(slot.pool)
                return WarmChange(before=slot, after=None)
            case Warmth.REUSED:
                by = seen.reused_by if seen is not None else ""
                after = None
                if not (counted or by == slot.taken_by or self._is_ours(by)):
                    after = copied(slot, reused_by=by)
                return WarmChange(before=slot, after=after, ended_at=ended_at, recorded_at=now)
            case Warmth.AVAILABLE:
                again = _not_settled(slot, now)
                return WarmChange(before=slot, after=again) if again else None
        return None

    def _is_ours(self, training_job: str) -> bool:
        return not training_job or self._store.jobs.owner_of(training_job) is not None

    def _commit(self, *changes: WarmChange) -> None:
        self._store.decisions.commit([], warm=changes)


def _instead(slot: WarmSlot, other: WarmSlot) -> tuple[WarmChange, ...]:
    """SageMaker started a job on these instances that should have started on the other ones. Those
    take their place: in their pool, and in their release if one was ordered."""
    stays = copied(
        other,
        pool=slot.pool,
        demand=slot.demand,
        taken_by="",
        taken_at=None,
        released_at=slot.released_at,
        released_for=slot.released_for,
        sent=False,
    )
    if other.pool == slot.pool:
        return (WarmChange(before=other, after=stays),)
    return (
        WarmChange(before=other, after=None),
        WarmChange(before=None, after=copied(stays, version=0)),
    )


def _not_settled(slot: WarmSlot, now: int) -> WarmSlot | None:
    """The slot whose instances are idle although a start should have taken them, or a release let
    them go, some time ago: they are as they were, or are to be released again. None: neither."""
    if slot.taken_at is not None and now - slot.taken_at >= SETTLES_WITHIN:
        return copied(slot, taken_by="", taken_at=None)
    if slot.sent and slot.released_at is not None and now - slot.released_at >= SETTLES_WITHIN:
        return copied(slot, sent=False, released_at=now)
    return None

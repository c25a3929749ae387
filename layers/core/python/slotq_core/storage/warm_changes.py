"""Changes of warm slots that follow from others, and the record of a warm slot's time, by one rule
for every store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from slotq_core.policy.lifecycle.warm_slots import left_by
from slotq_core.ports.stored import Change, WarmChange
from slotq_core.storage.ends import EndedRecord, ended_record
from slotq_core.usage.attempt_use import WARM, AttemptUse


def warm_changes(changes: Iterable[Change], warm: Sequence[WarmChange]) -> list[WarmChange]:
    """The changes of warm slots by a transaction: those that are given, and the slots that ended
    attempts leave."""
    left = (left_by(change.before, change.ended) for change in changes if change.ended)
    return [*warm, *(WarmChange(before=None, after=slot) for slot in left if slot is not None)]


def records_of(warm: Iterable[WarmChange], history: int) -> Iterator[EndedRecord]:
    """The records of the time that instances were warm, once they are not any more. Its end counts
    for whoever ran there before. `history`: how long ended jobs are kept (ms)."""
    for change in warm:
        slot, at = change.before, change.ended_at
        if slot is None or at is None or at <= slot.since:
            continue
        use = AttemptUse(
            job=slot.job,
            number=slot.number,
            project=slot.project,
            submitter=slot.submitter,
            workload=slot.workload,
            pool=slot.pool,
            instance_type=slot.instance_type,
            slots=slot.demand.slots,
            admitted_at=slot.since,
            running_since=slot.since,
            ended_at=at,
            outcome=WARM,
        )
        yield ended_record(use, change.recorded_at, history, suffix=WARM)

"""Broken variants of what keeps gangs whole, for `mutants`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from slotq_core.adapters.dynamodb import transactions
from slotq_core.adapters.dynamodb.reading.loading import DynamoWorlds
from slotq_core.model.jobs import Job
from slotq_core.operations import decisions_in_parts
from slotq_core.operations.passes import Passes
from slotq_core.policy.plan import EndGroup, LeaveOut
from slotq_core.policy.state.groups import gangs
from slotq_core.ports.stored import Change, InParts, Part, World

Broken = AbstractContextManager[Any]


def met_by_nobody() -> Broken:
    """A load does not look for a decision in parts."""
    right = DynamoWorlds.load

    def wrong(self: DynamoWorlds, now: int) -> World:
        return replace(right(self, now), in_parts=None)

    return patch.object(DynamoWorlds, "load", wrong)


def effects_of_each_part() -> Broken:
    """Members are created as soon as their part of the decision is committed."""
    right = Passes._committed

    def wrong(self: Passes, *what: Any) -> Iterator[Any]:
        commit = self._store.decisions.commit

        def and_effects(changes: Any, **more: Any) -> Any:
            jobs = commit(changes, **more)
            self._effects.carry_out_all(jobs)
            return jobs

        with patch.object(self._store.decisions, "commit", and_effects):
            yield from right(self, *what)

    return patch.object(Passes, "_committed", wrong)


def undone_by_nobody() -> Broken:
    """What is to be undone is forgotten."""
    return patch.object(decisions_in_parts, "_undone", lambda *_: None)


def parts_without_their_record() -> Broken:
    """A further part is committed whether its decision is still to be finished or not."""
    right = transactions._group_actions

    def wrong(name: str, seen: int | None, part: Part | None) -> Iterator[Any]:
        for action in right(name, seen, part):
            if "Delete" in action:
                bare = {key: action["Delete"][key] for key in ("TableName", "Key")}
                yield {"Delete": bare}
            elif "ConditionCheck" not in action:
                yield action

    return patch.object(transactions, "_group_actions", wrong)


def started_without_the_rest() -> Broken:
    """A start in parts goes on without the members that cannot start any more."""

    def wrong(job: Job | None, before: Job, after: Job) -> Change | None:
        if job is None or job.version != before.version:
            return None
        return Change(before=job, after=after)

    return patch.object(decisions_in_parts, "_start", wrong)


def changed_members_are_spared() -> Broken:
    """Who has changed since its gang was to be evicted goes on."""
    return patch.object(decisions_in_parts, "stopped_as", lambda *_: None)


def one_goes_on_without_its_server() -> Broken:
    """The end of a gang stops all members but the last."""
    right = gangs._ended

    def wrong(gang: gangs.LiveGang) -> Iterator[LeaveOut | EndGroup]:
        for decision in right(gang):
            if isinstance(decision, EndGroup):
                yield replace(decision, jobs=decision.jobs[:-1])
            else:
                yield decision

    return patch.object(gangs, "_ended", wrong)


def reconciled_too_early() -> Broken:
    """A reconciliation repeats the creates of a decision that is not finished."""
    return patch.object(InParts, "jobs", property(lambda _: frozenset()))

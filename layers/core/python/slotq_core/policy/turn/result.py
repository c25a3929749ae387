"""The plan of a final state."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from functools import cached_property

from slotq_core.model.jobs import Job
from slotq_core.model.reasons import Reason
from slotq_core.model.snapshot import NO_JOB_KNOWN
from slotq_core.policy.explain.forecast import Question
from slotq_core.policy.lifecycle.start_attempts import failed_attempt
from slotq_core.policy.lines import TRIED_AT_ONCE, Line, by_user
from slotq_core.policy.plan import (
    Found,
    Need,
    Plan,
    Start,
    StartNode,
    TryLater,
    Unexamined,
    jobs_in,
)
from slotq_core.policy.state.groups.concurrency import CONCURRENCY
from slotq_core.policy.state.groups.gangs import starts_together
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.turn.blocked import waiting_reason, with_second
from slotq_core.policy.turn.steps import Steps
from slotq_core.policy.turn.turn_order import Head, TurnOrder


def result(steps: Steps, turns: TurnOrder, question: Question) -> Generator[Need, Found, Plan]:
    """The decisions and reasons. Where claims are given up, the plan decides that alone."""
    state, outlook = steps.state, question.answer()
    if state.decided.dropped:
        dropped = tuple(state.decided.dropped.values())
        return Plan(decisions=dropped, outlook=outlook, wake_at=state.now)
    decided = list(starts_together(state.decided.in_order(), state.gangs))
    if state.nodes:
        from slotq_core.policy.state.nodes.node_ends import with_nodes

        decided = with_nodes(decided, state.nodes, state.rooms, state.now)
    if state.snapshot.warm:
        from slotq_core.policy.turn.warm_starts import with_warm_slots

        going = {job.name for decision in decided for job in jobs_in(decision)}
        behind = state.snapshot.behind
        left = [
            job
            for name, job in state.waiting.items()
            if not (name in going or name in state.held_in) and behind.get(name) != NO_JOB_KNOWN
        ]
        decided = with_warm_slots(decided, state.rooms, left, state.now)
    for head in sorted(turns.blocked.everyone()) if state.snapshot.scheduler else ():
        tried = state.decided.decisions.get(head.job.name)
        if isinstance(tried, TryLater) and len(tried.changed) == 1 and head.job.claim is None:
            yield from turns.know(head.line, head.at + TRIED_AT_ONCE)
            decided += _failed_alike(state, head, tried)
    reasons = Reasons(steps, turns)
    return Plan(
        decisions=tuple(decided),
        reasons=reasons,
        unexamined=LeftInLine(state, turns, reasons),
        closed={name: state.budgets.reason(name) for name in state.budgets.hard},
        outlook=outlook,
        wake_at=state.decided.wake_at,
    )


class Reasons(Mapping[str, Reason]):
    """The reason of each job examined and left waiting, by job name. Where the end of the plan
    decides a reason, it is made when first read: a pass reads none, and thousands may wait."""

    def __init__(self, steps: Steps, turns: TurnOrder) -> None:
        self._steps, self._turns = steps, turns

    @cached_property
    def _turned_away(self) -> dict[str, Job]:
        """By name, the single jobs whose lines are blocked."""
        gangs = self._steps.state.gangs
        heads = (head.job for head in self._turns.blocked.everyone())
        return {job.name: job for job in heads if job.group not in gangs}

    @cached_property
    def _made(self) -> dict[str, Reason | Job]:
        """By job name, the reason, or the job whose reason is made when first read."""
        decided = self._steps.state.decided
        explained = decided.reasons.keys() | self._steps.state.snapshot.unread
        blocked = (head.job for head in self._turns.blocked.everyone())
        made: dict[str, Reason | Job] = {
            job.name: job for job in blocked if job.name not in explained
        }
        made |= decided.reasons
        for name, decision in decided.decisions.items():
            if isinstance(decision, Start | StartNode):
                made.pop(name, None)
        return made

    def __getitem__(self, name: str) -> Reason:
        why = self._made[name]
        if isinstance(why, Job):
            why = self._made[name] = waiting_reason(self._steps, why)
        elif isinstance(why, CONCURRENCY) and name in self._turned_away:
            why = self._made[name] = with_second(why, self._steps, self._turned_away.pop(name))
        return why

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


class LeftInLine(Unexamined):
    """The reasons of jobs that no turn has examined: a limit keeps them back, or the head of their
    line waits."""

    def __init__(self, state: PlanState, turns: TurnOrder, reasons: Reasons) -> None:
        self._state, self._turns, self._reasons = state, turns, reasons

    def kept_back(self, job: Job) -> Reason | None:
        why = self._state.concurrency.keeps_back(job)
        head = self._reasons.get(self.head_of(job)) if why else None
        return head if isinstance(head, CONCURRENCY) else why

    def head_of(self, job: Job) -> str:
        return self._heads.get(Line.of(job, by_user=self._by_user), "")

    @cached_property
    def _by_user(self) -> bool:
        return by_user(self._state.snapshot)

    @cached_property
    def _heads(self) -> dict[Line, str]:
        """By line, the first job that is blocked. A claimant is in no line with others."""
        state = self._state
        heads = (head.job for head in self._turns.blocked.everyone())
        return {
            Line.of(job, by_user=self._by_user): job.name
            for job in heads
            if job.claim is None and job.name not in state.snapshot.unread
        }


def _failed_alike(state: PlanState, head: Head, tried: TryLater) -> Iterator[TryLater]:
    """Failed attempts of the jobs behind a blocked job in its line: they are blocked alike. The
    next plan, at the same time, takes those behind the last."""
    assert state.snapshot.scheduler is not None
    for job in head.line.jobs[head.at + 1 : head.at + 1 + TRIED_AT_ONCE]:
        yield failed_attempt([job], state.snapshot.scheduler, tried.why, state.now)

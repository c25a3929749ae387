"""Snapshots with only the first jobs of each line, and the answers to what a plan then asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slotq_core.model.jobs import Job
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.lines import Line, WaitingLine, by_user, first_read, in_lines
from slotq_core.policy.plan import Found, Need, Plan


def plan_from_first_jobs(everything: Snapshot, now: int) -> Plan:
    """The plan that begins with the first jobs of each line, and asks for more."""
    snapshot, more = first_jobs(everything)
    return plan(snapshot, now, more=more)


def first_jobs(everything: Snapshot) -> tuple[Snapshot, Callable[[Need], Found]]:
    """The snapshot as a store loads it, and what the store answers: one job at a time, so that a
    plan asks as often as it can."""
    apart = by_user(everything)
    lines = in_lines(everything.waiting, by_user=apart)
    groups = {group.name: group for group in everything.groups}
    waiting: list[Job] = []
    behind: dict[str, int] = {}
    for line in lines:
        key = Line.of(line.jobs[0], by_user=apart)
        shares = bool(everything.projects)
        count = first_read(key, everything.pools, groups, shares=shares) or len(line)
        waiting += line.jobs[:count]
        if len(line) > count:
            behind[line.jobs[count - 1].name] = len(line) - count

    def more(need: Need) -> Found:
        jobs = _line_with(need.after, lines).jobs
        begin = 1 + next(i for i, job in enumerate(jobs) if job.name == need.after.name)
        return Found(jobs=tuple(jobs[begin : begin + 1]), behind=max(0, len(jobs) - begin - 1))

    return replace(everything, waiting=tuple(waiting), behind=behind), more


def _line_with(job: Job, lines: list[WaitingLine]) -> WaitingLine:
    return next(line for line in lines if any(each.name == job.name for each in line.jobs))

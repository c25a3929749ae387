"""Find jobs that wait for an end that would not notify them.

Handlers of this version leave no such job. A handler of an earlier version, which does not know
`Job.followed`, may write an awaited job without this mark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import table
from slotq_core.adapters.dynamodb.layout.items import stored_group_of
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE, whole_job
from slotq_core.adapters.dynamodb.transactions import commit_actions
from slotq_core.errors import Conflict
from slotq_core.model.jobs import Job
from slotq_core.ports.stored import Change, Finding


class AwaitedJobs:
    def __init__(self, calls: TableCalls, history: int) -> None:
        """`history`: how long ended jobs stay readable (ms)."""
        self._calls, self._keeps = calls, history

    def check(self, name: str, *, mend: bool) -> Iterator[Finding]:
        """Yield a finding for each job that this one waits for and that is not followed, and for
        each group without a followed member. If that job or member has ended, the next pass
        notifies the dependents. A missing job or group is left to an operator."""
        job = whole_job(self._calls.item(table.job_key(name)))
        for group in job.awaited_groups if job else ():
            yield from self._check_group(name, group, mend=mend)
        for awaited_name in job.awaited_jobs if job else ():
            awaited = whole_job(self._calls.item(table.job_key(awaited_name)))
            if awaited is not None and awaited.followed:
                continue
            what = "its end would not reach it" if awaited else "there is no such job"
            mended = mend and awaited is not None and self._follow(awaited)
            text = f"it waits for {awaited_name}, and {what}"
            yield Finding(kind="after", subject=name, text=text, mended=mended)

    def _check_group(self, name: str, group: str, *, mend: bool) -> Iterator[Finding]:
        found = [
            whole_job(self._calls.item(table.job_key(member))) for member in self._members(group)
        ]
        members = [job for job in found if job is not None and job.group == group]
        if any(job.followed for job in members):
            return
        living = [job for job in members if not job.terminal]
        watch = next(iter(living or members[-1:]), None)
        what = "no member's end would reach it" if watch else "there is no such group"
        mended = mend and watch is not None and self._follow(watch)
        text = f"it waits for group {group}, and {what}"
        yield Finding(kind="after", subject=name, text=text, mended=mended)

    def _members(self, group: str) -> Sequence[str]:
        item = self._calls.item(table.group_key(group))
        with suppress(*UNREADABLE):
            return stored_group_of(item).group.members if item else ()
        return ()

    def _follow(self, awaited: Job) -> bool:
        change = Change(before=awaited, after=replace(awaited, followed=True))
        actions = commit_actions(self._calls.table, [change], None, history=self._keeps)
        with suppress(Conflict):  # It is changing; the next examination looks again.
            self._calls.transact(actions)
            return True
        return False

"""Build a snapshot: the same jobs give the same one in every store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slotq_core.admission.user_groups import users_among
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import Node
from slotq_core.model.pools import Pool, WarmSlot
from slotq_core.model.projects import NO_PAST_USE, NOTHING_SPENT, PastUse, Project, Spending
from slotq_core.model.sharing import Sharing
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import AUTO, AUTO_VALUE, Yielded
from slotq_core.policy.lifecycle.retry import backed_off
from slotq_core.policy.lines import Line, first_read
from slotq_core.policy.order import BELOW_ALL
from slotq_core.ports.stored import Configuration
from slotq_core.ports.usage import MonthSum, UsageBook
from slotq_core.storage.yields import latest_yields
from slotq_core.usage.amounts import Window
from slotq_core.usage.calendar_days import day_of, days, month_of, next_month

FIRST_JOBS = 10
"""Minimum number of jobs of a line that a load reads: they cost one read unit, as one job does."""

MAX_DUE = 100
"""Maximum number of back-offs that one load reads."""

MOST_ENDED = 1_000
"""Maximum number of attempts, ended since the last tick, that one load reads for `spending`. The
next tick counts all."""


def read_at_first(
    line: Line,
    pools: Sequence[Pool],
    groups: Mapping[str, Group],
    *,
    by_user: bool,
    shares: bool,
) -> int | None:
    """Return how many jobs of the line a plan needs to begin; None: all of them. `by_user`: the
    plan distinguishes users, so the first job of a line of several users may hide another user's.
    `shares`: projects share the pools, so the demand of a sweep matters."""
    mixed = mixes_users(line, by_user=by_user)
    return None if mixed else first_read(line, pools, groups, shares=shares)


def mixes_users(line: Line, *, by_user: bool) -> bool:
    """Whether the stored line is coarser than those of the plan."""
    return by_user and not line.by_user


def stand_in(line: Line, number: int, *, entry_time: int, name: str = "") -> Job:
    """Return a stand-in for the first job of a line that has not been read (`Snapshot.unread`).

    `entry_time` (ms) and `name` are a lower bound of the first job's place. `number` distinguishes
    the stand-ins of a snapshot. No job has such a name, and it sorts right after `name`.
    """
    auto = line.priority == BELOW_ALL
    return Job(
        name=f"{name}#{number}",
        state=JobState.PENDING,
        priority=AUTO_VALUE if auto else line.priority,
        priority_class=AUTO if auto else line.limited_as,
        auto=auto,
        entry_time=entry_time,
        demand=line.demand,
        pools=line.pools,
        parts=line.parts,
        preemptible=line.preemptible,
        workload=line.workload,
        project=line.project,
        group=line.group,
        person=line.user,
        line_by_user=line.by_user,
        refused_in=line.refused_in,
        gpus=line.gpus,
        tenant=line.tenant,
        longest_attempt=line.longest_attempt,
        checkpoints=bool(line.gpus) or not line.longest_attempt,
        warm_key=line.warm_key,
        runtime_bound=line.at_least,
    )


def due_and_ended(read: Iterable[Job]) -> tuple[list[Job], tuple[Job, ...]]:
    """Return the jobs in back-off, and the ended jobs whose dependents must still be notified."""
    jobs = list(read)
    return [job for job in jobs if not job.terminal], tuple(job for job in jobs if job.terminal)


def due_part(earliest_first: Iterable[Job], now: int) -> list[Job]:
    """Return the due back-offs and the next one, so that a plan knows when to wake."""
    due: list[Job] = []
    next_one: list[Job] = []
    for job in earliest_first:
        if backed_off(job, now):
            due.append(job)
        elif not next_one:
            next_one.append(job)
    return [*due, *next_one]


def snapshot_of(
    pools: Sequence[Pool],
    sharing: Sharing,
    active: Iterable[Job],
    waiting: Iterable[Job],
    due: Iterable[Job],
    *,
    spent: Spending = NOTHING_SPENT,
    past_use: PastUse = NO_PAST_USE,
    yields: Iterable[Yielded] = (),
    groups: Iterable[Group] = (),
    nodes: Iterable[Node] = (),
    warm: Iterable[WarmSlot] = (),
) -> Snapshot:
    """Build a snapshot with each job once. `yields`: what the store keeps of the pools. `groups`:
    those of all these jobs. `nodes`, `warm`: those of the pools.

    A job that changed between two reads counts as first read, because the ledgers were read then
    too: a commit that depends on the old state is refused.
    """
    seen: set[str] = set()
    shared = sharing.weighed()
    jobs = _once(active, seen), _once(waiting, seen), _once(due, seen)
    return Snapshot(
        pools=tuple(pools),
        active=jobs[0],
        nodes=tuple(sorted(nodes, key=lambda node: (node.pool, node.name))),
        warm=tuple(sorted(warm, key=lambda slot: (slot.pool, slot.training_job))),
        waiting=jobs[1],
        due=jobs[2],
        projects=_projects(shared.projects, jobs),
        departments=shared.departments,
        spent=spent,
        groups=tuple(groups),
        classes=sharing.classes,
        users=users_among(sharing, (job.person for part in jobs for job in part)),
        user_groups=sharing.user_groups,
        yields=latest_yields(pools, yields, jobs[0]),
        scheduler=sharing.scheduler,
        fair_share=sharing.fair_share,
        past_use=past_use,
    )


def _projects(projects: tuple[Project, ...], jobs: Iterable[Iterable[Job]]) -> tuple[Project, ...]:
    """Return the projects, and one more for each name that only jobs have: none for those from
    before there were projects, and a removed one for those submitted while it was removed. These
    deserve nothing and use what is idle."""
    if not projects:
        return ()
    known = {project.name for project in projects} | {""}
    named = {job.project for part in jobs for job in part}
    others = (Project(name=name, weight=0) for name in ["", *sorted(named - known)])
    return (*projects, *others)


def _once(jobs: Iterable[Job], seen: set[str]) -> tuple[Job, ...]:
    kept = {job.name: job for job in reversed(list(jobs)) if job.name not in seen}
    seen.update(kept)
    return tuple(kept[name] for name in sorted(kept))


def spending(configuration: Configuration, book: UsageBook, now: int) -> Spending:
    """Return what the projects with a budget have spent: what the last tick added up, and the
    attempts that have ended since. Makes one read of the store, or one for
    each day since the last tick; none where no project has a budget.

    The end of a job brings a pass at once. Without these attempts, their time would be lost from
    sight until the next tick, and a project beyond its budget would start a job with each one that
    ends.
    """
    budgeted = {
        project.name for project in configuration.sharing.projects if project.budget is not None
    }
    counted = configuration.month_sum
    if not budgeted or not counted.settled:
        return configuration.spent
    month, spent = month_of(now), configuration.spent
    if counted.month != month:  # No tick has come since the month turned.
        names = counted.settled
        counted = MonthSum(month=month, day=day_of(month), settled=dict.fromkeys(names, 0))
        spent = Spending(month=month)
    since, ended = _since(counted, now, book), counted.slot_ms()
    return replace(spent, slot_ms={name: ended[name] + since[name] for name in ended})


def _since(counted: MonthSum, now: int, book: UsageBook) -> Counter[str]:
    """Return the slot time in this month of attempts that ended since the count."""
    window = Window(start=counted.month, end=next_month(counted.month))
    found, left = Counter[str](), MOST_ENDED
    first = max(counted.day, counted.latest[: len(counted.day)])
    for day in days(first, max(first, day_of(now))):
        after = counted.latest if counted.latest.startswith(day) else ""
        read = book.ended(day, after=after, limit=left)
        for use in read.uses:
            assert use.ended_at is not None
            found[use.project] += window.use_of(
                use.slots, use.part_of_slot, use.used_since, use.ended_at
            )
        left -= len(read.uses) + read.unreadable
        if left <= 0:
            break
    return found

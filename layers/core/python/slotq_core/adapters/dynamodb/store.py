"""The Store on DynamoDB. `layout.table` describes the table; `layout.expressions` and
`layout.ledger_expressions` contain every condition.

A commit whose answer is lost may have taken effect. This is harmless: the conditions are versions,
so the repeated commit is refused (Conflict), and the next load finds what was committed.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any

from slotq_core.adapters import stored_request
from slotq_core.adapters.dynamodb.accounting.counters import DynamoCounters
from slotq_core.adapters.dynamodb.accounting.usage_records import UsageRecords
from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.configured_pools import Configuration
from slotq_core.adapters.dynamodb.dynamodb_errors import (
    Contended,
    item_in_the_way,
    refused_keys,
    with_pools,
)
from slotq_core.adapters.dynamodb.groups import DynamoGroups
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import (
    attempt_of,
    copies_of,
    entry_time_of,
    restore_of,
)
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.table import table_definition, time_to_live
from slotq_core.adapters.dynamodb.layout.validation import (
    UNREADABLE,
    Sieve,
    copy_of,
    whole_job,
)
from slotq_core.adapters.dynamodb.line_bounds import LineBounds
from slotq_core.adapters.dynamodb.pool_facts import PoolFacts
from slotq_core.adapters.dynamodb.reading.in_parallel import InParallel, Threads
from slotq_core.adapters.dynamodb.reading.loading import WorldLoader
from slotq_core.adapters.dynamodb.reading.state_listing import jobs_in_state
from slotq_core.adapters.dynamodb.repair.expiry_marks import History
from slotq_core.adapters.dynamodb.repair.inspection import Inspection
from slotq_core.adapters.dynamodb.repair.line_audit import LineAudit
from slotq_core.adapters.dynamodb.repair.quarantine import Quarantine
from slotq_core.adapters.dynamodb.sightings import Sightings
from slotq_core.adapters.dynamodb.touched_lines import TouchedLines
from slotq_core.adapters.dynamodb.transactions import (
    MAX_ACTIONS,
    action_count,
    commit_actions,
    committed,
    fitting,
    submit_actions,
)
from slotq_core.adapters.dynamodb.wake import DynamoScheduler
from slotq_core.adapters.ended_attempts import HISTORY
from slotq_core.errors import (
    Conflict,
    InvalidRequest,
    NoSuchJob,
    NotUnderstood,
    SlotQError,
    Unavailable,
)
from slotq_core.model.attempts import Attempt, Restore
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import WAITING_OR_BACKING_OFF, WAITING_STATES, Job, JobState
from slotq_core.model.limits import Limits
from slotq_core.model.pools import Pool, PoolHealth
from slotq_core.model.sharing import Sharing
from slotq_core.policy.lines import line_of
from slotq_core.ports.stored import (
    AwaitedEnded,
    Change,
    ConfigurationChange,
    Finding,
    InParts,
    Mark,
    NoSuchLine,
    Part,
    PartsKind,
    Poison,
    StoredAlready,
    World,
)
from slotq_core.ports.stored import Configuration as Stand
from slotq_core.ports.training import Request, Sighting

__all__ = ["MAX_ACTIONS", "DynamoStore", "action_count", "table_definition", "time_to_live"]

_SUBMIT_TRIES = 4


class DynamoStore:
    """The store on DynamoDB. Instances keep no state but memories that save calls, and are
    interchangeable."""

    def __init__(
        self,
        client: Any,
        table_name: str,
        *,
        history: int = HISTORY,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        in_parallel: InParallel | None = None,
        most_actions: int = MAX_ACTIONS,
    ) -> None:
        """Set up the store. `client` is boto3's low-level DynamoDB client. `history` is how long
        ended jobs stay readable (ms). `pause` waits for a number of seconds before a second
        read. `clock` gives the time (ms) at which stored jobs enter lines. `in_parallel` makes
        reads that do not depend on each other; default: in threads. `most_actions`: how many
        actions of one transaction a decision takes at most."""
        self._keeps, self._clock = history, clock
        self._most_actions = most_actions
        self._calls = TableCalls(client, table_name)
        self._configuration = Configuration(self._calls)
        self.counters = DynamoCounters(self._calls)
        self.usage = UsageRecords(self._calls, self._configuration)
        self._touched = TouchedLines()
        self._bounds = LineBounds(self._calls, clock)
        self.at_once = in_parallel or Threads()
        self.groups = DynamoGroups(self._calls, self.at_once, history=history)
        self._world = WorldLoader(
            self._calls,
            self._configuration,
            self._bounds,
            pause,
            self.at_once,
            groups=self.groups,
            usage=self.usage,
            commit=self.commit,
        )
        self.scheduler = DynamoScheduler(self._calls)
        self._facts = PoolFacts(self._calls)
        self._sightings = Sightings(self._calls)
        self._line_audit = LineAudit(self._calls, self._bounds)
        self._quarantine = Quarantine(self._calls, self._configuration, self._bounds)
        self._history = History(self._calls, self._quarantine)
        self._inspection = Inspection(
            self._calls,
            self._configuration,
            self._quarantine,
            self._bounds,
            history=history,
            clock=clock,
        )

    def pools(self) -> tuple[Pool, ...]:
        return self._configuration.pools()

    def configuration(self) -> Stand:
        return self._configuration.read()

    def configure(
        self,
        pools: Sequence[Pool] | None = None,
        *,
        limits: Limits | None = None,
        sharing: Sharing | None = None,
        who: str,
        now: int,
        seen: int | None = None,
        dry_run: bool = False,
    ) -> None:
        self._configuration.change(
            pools=pools,
            limits=limits,
            sharing=sharing,
            who=who,
            now=now,
            seen=seen,
            dry_run=dry_run,
        )

    def changes(
        self, *, limit: int, who: str | None = None, sharing: bool = True
    ) -> tuple[ConfigurationChange, ...]:
        return self._configuration.changes(limit=limit, who=who, sharing=sharing)

    def pool(self, name: str) -> Pool | None:
        return self._facts.pool(name)

    def health(self, pool: str) -> PoolHealth:
        return self._facts.health(pool)

    def set_health(self, pool: str, health: PoolHealth) -> None:
        self._facts.set_health(pool, health)

    def set_foreign(self, pool: str, amount: Demand) -> None:
        self._facts.set_foreign(pool, amount)

    def last_restore(self) -> Restore | None:
        """Return what the RESTORED item says. One that cannot be read counts as none."""
        item = self._calls.item(table.restored_key())
        return next(iter(Sieve().read([item] if item else [], restore_of)), None)

    def sightings(self) -> tuple[Sighting, ...]:
        return self._sightings.all()

    def remember(self, sighting: Sighting) -> None:
        self._sightings.remember(sighting)

    def forget(self, training_job: str) -> None:
        self._sightings.forget(training_job)

    def expire(self, *, now: int, limit: int = 25) -> int:
        """Mark ended jobs' records. DynamoDB itself removes marked records, within days of their
        time."""
        return self._history.expire(limit)

    def quarantine(self, poison: Poison) -> None:
        self._quarantine.take(poison)

    def audit(self, *, now: int) -> list[Finding]:
        return self._line_audit.examine_some(now=now)

    def inspect(
        self, *, mend: bool = False, time_left: Callable[[], int] = lambda: 1
    ) -> Iterator[Finding]:
        return self._inspection.run(mend=mend, time_left=time_left)

    def submit(
        self,
        job: Job,
        request: Request,
        *,
        opens_line: bool = True,
        opener: str = "",
        watched: Sequence[str] = (),
    ) -> Job:
        kept = replace(job, version=1)
        packed = stored_request.pack(request)
        actions = submit_actions(self._calls.table, kept, packed, watched)
        line = _checked(line_of(job))
        arriving = 1 if job.project and job.waits else 0
        if arriving or not self._touched.lately(job):
            # Before the transaction: inside, submissions to one line would collide.
            touch = expressions.touch_line(
                job.entry_time, known=not opens_line, arriving=arriving, opener=opener
            )
            try:
                before = self._calls.replaced(table.line_key(line), touch)
            except Conflict:
                raise NoSuchLine(f"there is no line {line}") from None
            if opener and not before:
                self.counters.opened(opener)
            self._touched.note(job)
        for _ in range(_SUBMIT_TRIES):
            try:
                self._calls.transact(actions)
            except Contended:
                continue
            except Conflict as conflict:
                there = item_in_the_way(conflict)
                if there is None and job.awaited:
                    raise AwaitedEnded(job.name) from None
                raise StoredAlready(job.name, whole_job(there)) from None
            return kept
        raise Unavailable(f"{job.name}: another submission is using this name; try again")

    def has_line_of(self, job: Job) -> bool:
        return self._calls.item(table.line_key(_checked(line_of(job)))) is not None

    def followers(self, name: str) -> list[Job]:
        wanted = expressions.partition_from(table.job_partition(name), table.AFTER_PREFIX)
        sieve = Sieve()
        found = sieve.read(self._calls.query(wanted), copy_of)
        if not sieve.poison:
            return found
        for poison in sieve.poison:
            self._quarantine.take(poison)
        return Sieve().read(self._calls.query(wanted), copy_of)

    def load(self, now: int) -> World:
        return self._world.load(now)

    def load_all(self, now: int) -> World:
        return self._world.load_all(now)

    def commit(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int] | None = None,
        group_decisions: int | None = None,
        part: Part | None = None,
        opens_line: bool = True,
        opener: str = "",
    ) -> tuple[Job, ...]:
        """Commit the changes. Also raises SlotQError, a bug of the caller, beyond MAX_ACTIONS."""
        actions = commit_actions(
            self._calls.table,
            changes,
            seen,
            group_decisions=group_decisions,
            part=part,
            history=self._keeps,
        )
        if not actions:
            return ()
        if len(actions) > MAX_ACTIONS:
            raise SlotQError(
                f"{len(changes)} changes take {len(actions)} actions; one transaction has "
                f"{MAX_ACTIONS}"
            )
        entered = [_checked(line_of(c.after)) for c in changes if _enters_line(c)]
        if opens_line and not opener:
            self._bounds.returned(entered)
        else:
            later = [_checked(line_of(c.after)) for c in changes if c.comes_to_other_line]
            self._bounds.returned_by_user([*entered, *later], opener=opener)
        try:
            self._calls.transact(actions)
        except Conflict as conflict:
            self._world.forget()
            refused = refused_keys(conflict, actions)
            self._doubt(changes, refused)
            raise with_pools(conflict, table.pools_of_ledgers(refused)) from conflict
        self._bounds.count(_arrivals(changes))
        return tuple(committed(change) for change in changes)

    def fitting(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int] | None = None,
        part: Part | None = None,
    ) -> int:
        return fitting(changes, seen, part, self._most_actions)

    def in_parts(self) -> InParts | None:
        return self._world.in_parts()

    def turn_back(self, decision: InParts) -> InParts:
        undo = PartsKind.UNDO
        turned = expressions.turn_back(decision.number, decision.kind, undo)
        self._calls.update(table.parts_key(), turned)
        return replace(decision, kind=undo)

    def _doubt(self, changes: Sequence[Change], refused: set[table.Key]) -> None:
        """Check the copies of each refused job. Either somebody else was faster, or the copy that
        was read differs from the job; without a repair, such a copy would be refused for ever."""
        for change in changes:
            if table.job_key(change.before.name) in refused:
                with suppress(SlotQError):
                    keys = copies_of(change.before)
                    self._quarantine.copies.check(change.before.name, keys, mend=True)

    def job(self, name: str) -> Job | None:
        """Return the job. Raises NotUnderstood if neither the job's item nor any copy is
        readable."""
        item = self._calls.item(table.job_key(name))
        if item is None:
            return None
        if (job := whole_job(item)) is None:
            keys = [table.active_key(pool.name, name) for pool in self._configuration.pools()]
            self._quarantine.copies.check(name, keys, mend=True)
            job = whole_job(self._calls.item(table.job_key(name)))
        if job is None:
            raise NotUnderstood(f"the record of job {name} cannot be read")
        return job

    def request(self, name: str) -> Request:
        item = self._calls.item(table.request_key(name))
        if item is None:
            raise NoSuchJob(f"there is no job named {name}")
        try:
            return stored_request.unpack(item["jobDetails"]["B"])
        except (*UNREADABLE, zlib.error):
            raise NotUnderstood(f"the request of job {name} cannot be read") from None

    def job_and_attempts(self, name: str) -> tuple[Job, tuple[Attempt, ...]] | None:
        """Return the job and its attempts by one read: in sort-key order, attempts and job come
        before the (large) request. Raises NotUnderstood as `job` does."""
        wanted = expressions.partition_between(
            table.job_partition(name), table.ATTEMPT_PREFIX, table.JOB
        )
        *records, main = [*self._calls.query(wanted)] or [Item()]
        if not main or main["sk"]["S"] != table.JOB:
            return None
        own = [item for item in records if entry_time_of(item) in {None, entry_time_of(main)}]
        found = {each.number: each for each in Sieve().read(own, attempt_of)}
        if (job := whole_job(main) or self.job(name)) is None:
            return None
        live = job.attempt
        if live and not (live.number in found and found[live.number].ended_at):
            found[live.number] = live
        return job, tuple(found[number] for number in sorted(found))

    def job_of(self, training_job: str) -> str | None:
        item = self._calls.item(table.name_key(training_job))
        try:
            return str(item["jobName"]["S"]) if item else None
        except UNREADABLE:
            raise NotUnderstood(
                f"the record that links training job {training_job} to its job cannot be read"
            ) from None

    def jobs(
        self,
        states: Iterable[JobState],
        *,
        limit: int = 1000,
        projects: frozenset[str] | None = None,
    ) -> tuple[Job, ...]:
        """Return jobs in the order of JobState, so that living jobs come before ended jobs if the
        limit cuts. The index knows no projects; lines do, so that the jobs of a project that wait
        are read without those of others."""
        wanted = set(states)
        found: list[Job] = []
        if projects is not None and wanted & WAITING_STATES:
            waiting = self._world.waiting_of(projects, self._clock(), limit=limit)
            if waiting is not None:
                found += [job for job in waiting if job.state in wanted]
                wanted -= WAITING_STATES
        left = limit
        for state in (each for each in JobState if each in wanted):
            if left > 0:
                read = self._in_state(state, left)
                left -= len(read)
                found += [job for job in read if projects is None or job.project in projects]
        return tuple(found)

    def in_state(
        self, state: JobState, *, after: Mark | None = None, latest_first: bool, at_once: int
    ) -> Iterator[Job]:
        """Yield the readable jobs; a pass reports the others."""
        return jobs_in_state(
            self._calls, state, after=after, latest_first=latest_first, at_once=at_once
        )

    def waiting_in(self, projects: frozenset[str], *, limit: int) -> tuple[Job, ...] | None:
        found = self._world.waiting_of(projects, self._clock(), limit=limit)
        return None if found is None else tuple(found)

    def longest_waiting(self, *, before: int, limit: int) -> tuple[Job, ...]:
        found: list[Job] = []
        for state in WAITING_OR_BACKING_OFF:
            oldest = self._in_state(state, limit, forward=True)
            found += takewhile(lambda job: job.entry_time < before, oldest)
        return tuple(found)

    def waiting_since(self) -> int | None:
        oldest = [job for each in WAITING_STATES for job in self._in_state(each, 1, forward=True)]
        return min((job.entry_time for job in oldest), default=None)

    def _in_state(self, state: JobState, limit: int, *, forward: bool = False) -> list[Job]:
        """Return the readable jobs of a state; a pass reports the others. The latest entry comes
        first, or last with `forward`."""
        wanted = {"IndexName": table.BY_STATE, "ScanIndexForward": forward}
        items = self._calls.query(
            {**expressions.in_state(state), **wanted},
            limit=limit,
            consistent=False,
        )
        return [job for item in items if (job := whole_job(item))]


def _arrivals(changes: Sequence[Change]) -> dict[str, int]:
    """Return by how much the changes raise (below 0: lower) the counts of counted lines."""
    found: Counter[str] = Counter()
    for change in changes:
        for job, by in ((change.before, -1), (change.after, 1)):
            if job.waits and job.project:
                found[line_of(job)] += by
    return {line: by for line, by in found.items() if by}


def _checked(line: str) -> str:
    """Return the line's name. Raises InvalidRequest if the table cannot have it."""
    if len(line.encode()) > table.MAX_SORT_KEY:
        raise InvalidRequest(
            "the names of the job's pools, project and user are together too long for the queue's "
            "table: name fewer pools in the tag 'slotq:pools'",
            field="slotq:pools",
        )
    return line


def _enters_line(change: Change) -> bool:
    """Whether the change puts the job into a line, or to another place there. A waiting job enters
    another line when its priority or its pools change."""
    if not change.after.waits:
        return False
    before = change.before
    return not before.waits or table.waiting_key(change.after) != table.waiting_key(before)

"""The jobs on DynamoDB (`ports.jobs.StoredJobs`)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby, takewhile

from slotq_core.adapters.dynamodb.calls import Contended, TableCalls, item_in_the_way, refused_keys
from slotq_core.adapters.dynamodb.configuration import DynamoConfiguration
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import attempt_of, entry_time_of
from slotq_core.adapters.dynamodb.layout.lines import parsed
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import (
    UNREADABLE,
    Sieve,
    copy_of,
    whole_job,
)
from slotq_core.adapters.dynamodb.line_bounds import TouchedLines, checked_line
from slotq_core.adapters.dynamodb.reading.line_reading import LineReader, lines_in
from slotq_core.adapters.dynamodb.repair.quarantine import Quarantine
from slotq_core.adapters.dynamodb.transactions import (
    Action,
    batch_actions,
    callback_actions,
    submit_actions,
)
from slotq_core.errors import Conflict, NoSuchJob, NotUnderstood, SlotQError, Unavailable
from slotq_core.model.attempts import Attempt
from slotq_core.model.groups import StoredGroup
from slotq_core.model.jobs import WAITING_OR_BACKING_OFF, WAITING_STATES, Job, JobState
from slotq_core.model.notices import Callback
from slotq_core.policy.lines import line_of
from slotq_core.ports.counters import Counters
from slotq_core.ports.stored import (
    AwaitedEnded,
    Mark,
    NewJob,
    NoSuchLine,
    StoredAlready,
    Witness,
)
from slotq_core.ports.training import Request
from slotq_core.storage import stored_request
from slotq_core.timestamps import iso

_SUBMIT_TRIES = 4

_MOST_BYTES = 3_500_000
"""The most that jobs with their requests take in one transaction, reckoned; DynamoDB's limit for
the whole is 4 MB."""


class DynamoJobs:
    """The jobs. An unreadable job's item is repaired from its copies during the read."""

    def __init__(
        self,
        calls: TableCalls,
        configuration: DynamoConfiguration,
        quarantine: Quarantine,
        counters: Counters,
        *,
        lines: LineReader,
        clock: Callable[[], int],
        witness: Witness,
        most_actions: int,
    ) -> None:
        """Set up the jobs. `clock` gives the time (ms). `witness` sees each stored job.
        `most_actions`: in one transaction."""
        self._most_actions = most_actions
        self._calls, self._configuration = calls, configuration
        self._quarantine, self._counters = quarantine, counters
        self._lines, self._clock, self._witness = lines, clock, witness
        self._touched = TouchedLines()

    def submit(
        self,
        job: Job,
        request: Request,
        *,
        opens_line: bool = True,
        opener: str = "",
        watched: Sequence[str] = (),
        callback: Callback | None = None,
    ) -> Job:
        new = [NewJob(job=job, request=request, watched=watched, callback=callback)]
        (kept,) = self.submit_together(new, opens_line=opens_line, opener=opener)
        return kept

    def fitting(self, new: Sequence[NewJob], *, group: StoredGroup | None = None) -> int:
        actions, size = 0 if group is None else 2, 0
        for number, each in enumerate(_packed(new)):
            takes = submit_actions(self._calls.table, *each)
            actions += len(takes)
            size += 2 * len(json.dumps(takes[0])) + len(each[1])
            if number and (actions > self._most_actions or size > _MOST_BYTES):
                return number
        return len(new)

    def submit_together(
        self,
        new: Sequence[NewJob],
        *,
        group: StoredGroup | None = None,
        opens_line: bool = True,
        opener: str = "",
    ) -> list[Job]:
        packed = [*_packed(new)]
        actions = batch_actions(self._calls.table, packed, group)
        actions += callback_actions(self._calls.table, new)
        self._touch([each.job for each in new], opens_line=opens_line, opener=opener)
        for _ in range(_SUBMIT_TRIES):
            try:
                self._calls.transact(actions)
            except Contended:
                continue
            except Conflict as conflict:
                raise _refusal(conflict, actions, [each.job for each in new]) from None
            kept = [job for job, _, _ in packed]
            for job in kept:
                self._witness.submitted(job)
            return kept
        raise Unavailable(f"{new[0].job.name}: another submission is using this name; try again")

    def _touch(self, jobs: Sequence[Job], *, opens_line: bool, opener: str) -> None:
        """Touch the lines of new jobs. Before the transaction: inside, submissions to one line
        would collide. Raises NoSuchLine."""
        lines: dict[str, list[Job]] = {}
        for job in jobs:
            lines.setdefault(checked_line(line_of(job)), []).append(job)
        for line, members in lines.items():
            first = members[0]
            arriving = sum(1 for job in members if job.project and job.waits)
            if not arriving and self._touched.lately(first):
                continue
            touch = expressions.touch_line(
                first.entry_time, known=not opens_line, arriving=arriving, opener=opener
            )
            try:
                before = self._calls.replaced(table.line_key(line), touch)
            except Conflict:
                raise NoSuchLine(f"there is no line {line}") from None
            if opener and not before:
                self._counters.opened(opener)
            self._touched.note(first)

    def get(self, name: str) -> Job | None:
        """Return the job. Raises NotUnderstood if neither the job's item nor any copy is
        readable."""
        item = self._calls.item(table.job_key(name))
        if item is None:
            return None
        return whole_job(item) or self._mended(name)

    def several(self, names: Sequence[str], *, readable_only: bool = False) -> dict[str, Job]:
        items = self._calls.items([table.job_key(name) for name in names])
        left_out = (NotUnderstood,) if readable_only else ()
        found: dict[str, Job] = {}
        for name in names:
            if (item := items.get(table.job_key(name))) is not None:
                with suppress(*left_out):
                    found[name] = whole_job(item) or self._mended(name)
        return found

    def _mended(self, name: str) -> Job:
        """Return the job whose item is unreadable from a copy. Raises NotUnderstood if none is
        readable."""
        pools, kinds = self._configuration.pools(), (table.active_key, table.on_node_key)
        keys = [key(pool.name, name) for pool in pools for key in kinds]
        self._quarantine.copies.check(name, keys, mend=True)
        job = whole_job(self._calls.item(table.job_key(name)))
        if job is None:
            raise NotUnderstood(f"the record of job {name} cannot be read")
        return job

    def request(self, name: str) -> Request:
        item = self._calls.item(table.request_key(name))
        if item is None:
            raise NoSuchJob(f"there is no job named {name}")
        if (request := _request_in(item)) is None:
            raise NotUnderstood(f"the request of job {name} cannot be read")
        return request

    def requests(self, names: Sequence[str]) -> Mapping[str, Request]:
        keys = {table.request_key(name): name for name in names}
        found = self._calls.items([*keys])
        read = {keys[key]: _request_in(item) for key, item in found.items()}
        return {name: request for name, request in read.items() if request is not None}

    def with_attempts(self, name: str) -> tuple[Job, tuple[Attempt, ...]] | None:
        """Return the job and its attempts by one read: in sort-key order, attempts and job come
        before the (large) request. Raises NotUnderstood as `get` does."""
        wanted = expressions.partition_between(
            table.job_partition(name), table.ATTEMPT_PREFIX, table.JOB
        )
        *records, main = [*self._calls.query(wanted)] or [Item()]
        if not main or main["sk"]["S"] != table.JOB:
            return None
        own = [item for item in records if entry_time_of(item) in {None, entry_time_of(main)}]
        found = {attempt.number: attempt for attempt in Sieve().read(own, attempt_of)}
        if (job := whole_job(main) or self.get(name)) is None:
            return None
        live = job.attempt
        if live and not (live.number in found and found[live.number].ended_at):
            found[live.number] = live
        return job, tuple(found[number] for number in sorted(found))

    def owner_of(self, training_job: str) -> str | None:
        item = self._calls.item(table.name_key(training_job))
        try:
            return str(item["jobName"]["S"]) if item else None
        except UNREADABLE:
            raise NotUnderstood(
                f"the record that links training job {training_job} to its job cannot be read"
            ) from None

    def followers(self, name: str) -> list[Job]:
        wanted = expressions.partition_from(table.job_partition(name), table.AFTER_PREFIX)
        sieve = Sieve()
        found = sieve.read(self._calls.query(wanted), copy_of)
        if not sieve.poison:
            return found
        for poison in sieve.poison:
            self._quarantine.take(poison)
        return Sieve().read(self._calls.query(wanted), copy_of)

    def in_states(
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
            waiting = self.waiting_in(projects, limit=limit)
            if waiting is not None:
                found += [job for job in waiting if job.state in wanted]
                wanted -= WAITING_STATES
        left = limit
        for state in (known for known in JobState if known in wanted):
            if left > 0:
                read = self._in_state(state, left)
                left -= len(read)
                found += [job for job in read if projects is None or job.project in projects]
        return tuple(found)

    def by_entry(
        self, state: JobState, *, after: Mark | None = None, latest_first: bool, at_once: int
    ) -> Iterator[Job]:
        """Yield the readable jobs; a pass reports the others.

        The index sorts by entry time alone. So all jobs of one moment are read before the first of
        them is yielded.
        """
        wanted = expressions.in_state(state)
        if after is not None:
            moment = iso(after.entry_time)
            wanted = expressions.in_state_from(
                state, moment, backward=latest_first, inclusive=bool(after.name)
            )
        index = {"IndexName": table.BY_STATE, "ScanIndexForward": not latest_first}
        items = self._calls.query({**wanted, **index}, at_once=at_once, consistent=False)
        jobs = (job for item in items if (job := whole_job(item)))
        for moment, together in groupby(jobs, key=lambda job: job.entry_time):
            for job in sorted(together, key=lambda job: job.name):
                if after is None or moment != after.entry_time or job.name > after.name:
                    yield job

    def waiting_in(self, projects: frozenset[str], *, limit: int) -> tuple[Job, ...] | None:
        """Return the jobs that wait in these projects, in the order of JobState, the latest entry
        first. Reads their lines alone, and those of other versions. None: these hold more jobs than
        `limit`, or are not counted."""
        if "" in projects:
            return None
        sieve = Sieve()
        items = self._calls.query(expressions.partition(table.LINES))
        lines = lines_in(items, sieve, self._clock())
        lines = [line for line in lines if not line.own or parsed(line.name).project in projects]
        if sum(line.waiting or 0 for line in lines) > limit:
            return None
        found = {
            job.name: job for job in self._lines.all_jobs([line.name for line in lines], sieve)
        }
        ranks = {state: rank for rank, state in enumerate(JobState)}
        return tuple(
            sorted(
                (job for job in found.values() if job.project in projects),
                key=lambda job: (ranks[job.state], -job.entry_time),
            )
        )

    def longest_waiting(self, *, before: int, limit: int) -> tuple[Job, ...]:
        found: list[Job] = []
        for state in WAITING_OR_BACKING_OFF:
            oldest = self._in_state(state, limit, forward=True)
            found += takewhile(lambda job: job.entry_time < before, oldest)
        return tuple(found)

    def waiting_since(self) -> int | None:
        oldest = [job for state in WAITING_STATES for job in self._in_state(state, 1, forward=True)]
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


def _request_in(item: Item) -> Request | None:
    """Return the request in the item; None if it cannot be read."""
    try:
        return stored_request.unpack(item["jobDetails"]["B"])
    except (*UNREADABLE, zlib.error):
        return None


def _packed(new: Sequence[NewJob]) -> Iterator[tuple[Job, bytes, Sequence[str]]]:
    """Yield each job in its first version with its packed request and what it watches."""
    for each in new:
        yield replace(each.job, version=1), stored_request.pack(each.request), each.watched


def _refusal(conflict: Conflict, actions: Sequence[Action], jobs: Sequence[Job]) -> SlotQError:
    """Return what a refused submission means: a name is taken, or what a job comes after has ended,
    or the group has been stored or begun by another handler."""
    refused = refused_keys(conflict, actions)
    taken = next((job.name for job in jobs if table.job_key(job.name) in refused), None)
    if taken is not None:
        return StoredAlready(taken, whole_job(item_in_the_way(conflict)))
    if any(pk == table.OPENING or pk.startswith(table.GROUP_PREFIX) for pk, _ in refused):
        return conflict
    awaiting = next((job.name for job in jobs if job.awaited), None)
    return StoredAlready(jobs[0].name) if awaiting is None else AwaitedEnded(awaiting)

"""The jobs, the groups and the callbacks in memory (`ports.jobs`, `ports.callbacks`)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from slotq_core.adapters.memory.state import State, one_at_a_time
from slotq_core.errors import Conflict, NoSuchJob
from slotq_core.model.attempts import Attempt
from slotq_core.model.groups import Opening, StoredGroup
from slotq_core.model.jobs import WAITING_OR_BACKING_OFF, WAITING_STATES, Job, JobState
from slotq_core.model.notices import Callback
from slotq_core.policy.lines import line_of
from slotq_core.ports.callbacks import TOGETHER, KeptCallback
from slotq_core.ports.counters import Counters
from slotq_core.ports.stored import AwaitedEnded, Mark, NewJob, StoredAlready
from slotq_core.ports.training import Request
from slotq_core.storage import stored_request
from slotq_core.storage.callbacks import attached, kept


class MemoryJobs:
    """In-memory jobs, safe for threads."""

    def __init__(self, state: State, counters: Counters, groups: MemoryGroups) -> None:
        self._state, self._counters, self._groups = state, counters, groups

    @one_at_a_time
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
        for each in new:
            stored_request.pack(each.request)
        return len(new)

    @one_at_a_time
    def submit_together(
        self,
        new: Sequence[NewJob],
        *,
        group: StoredGroup | None = None,
        opens_line: bool = True,
        opener: str = "",
    ) -> list[Job]:
        packed = {each.job.name: stored_request.pack(each.request) for each in new}
        lines = {line_of(each.job): each.job for each in new}
        opens = [
            self._state.check_line(job, opens_line=opens_line, opener=opener)
            for job in lines.values()
        ]
        for each in new:
            if (known := self._state.jobs.get(each.job.name)) is not None:
                raise StoredAlready(each.job.name, known)
            outside = {*each.job.awaited_jobs, *each.watched} - packed.keys()
            if not all(_is_awaited(self._state.jobs.get(name)) for name in outside):
                raise AwaitedEnded(each.job.name)
        if group is not None:
            self._groups.keep_whole(group)
        for _ in filter(None, opens):
            self._counters.opened(opener)
        self._state.requests |= packed
        for each in new:
            if each.callback is not None:
                self._state.callbacks[each.job.name, ""] = kept(each.job, each.callback)
        return [self._state.keep(replace(each.job, version=1)) for each in new]

    @one_at_a_time
    def followers(self, name: str) -> tuple[Job, ...]:
        return tuple(self._state.of(self._state.index.followers(name)))

    @one_at_a_time
    def get(self, name: str) -> Job | None:
        return self._state.jobs.get(name)

    @one_at_a_time
    def several(self, names: Sequence[str], *, readable_only: bool = False) -> dict[str, Job]:
        return {name: job for name in names if (job := self._state.jobs.get(name)) is not None}

    @one_at_a_time
    def request(self, name: str) -> Request:
        if name not in self._state.requests:
            raise NoSuchJob(f"there is no job named {name}")
        return stored_request.unpack(self._state.requests[name])

    @one_at_a_time
    def requests(self, names: Sequence[str]) -> Mapping[str, Request]:
        kept = self._state.requests
        return {name: stored_request.unpack(kept[name]) for name in names if name in kept}

    @one_at_a_time
    def with_attempts(self, name: str) -> tuple[Job, tuple[Attempt, ...]] | None:
        if (job := self._state.jobs.get(name)) is None:
            return None
        found, live = dict(self._state.attempts.get(name, {})), job.attempt
        if live and not (live.number in found and found[live.number].ended_at):
            found[live.number] = live
        return job, tuple(found[number] for number in sorted(found))

    @one_at_a_time
    def owner_of(self, training_job: str) -> str | None:
        return self._state.job_of.get(training_job)

    @one_at_a_time
    def in_states(
        self,
        states: Iterable[JobState],
        *,
        limit: int = 1000,
        projects: frozenset[str] | None = None,
    ) -> tuple[Job, ...]:
        wanted, ranks = set(states), {state: rank for rank, state in enumerate(JobState)}
        found = [
            job
            for job in self._state.jobs.values()
            if job.state in wanted and (projects is None or job.project in projects)
        ]
        return tuple(sorted(found, key=lambda job: (ranks[job.state], -job.entry_time))[:limit])

    @one_at_a_time
    def by_entry(
        self, state: JobState, *, after: Mark | None = None, latest_first: bool, at_once: int
    ) -> Iterator[Job]:
        sign = -1 if latest_first else 1

        def key(entry_time: int, name: str) -> tuple[int, bool, str]:
            return sign * entry_time, not name, name

        found = [job for job in self._state.jobs.values() if job.state is state]
        if after is not None:
            last = key(after.entry_time, after.name)
            found = [job for job in found if key(job.entry_time, job.name) > last]
        return iter(sorted(found, key=lambda job: key(job.entry_time, job.name)))

    @one_at_a_time
    def waiting_in(self, projects: frozenset[str], *, limit: int) -> tuple[Job, ...] | None:
        found = [job for job in self._state.jobs.values() if job.waits and job.project in projects]
        return tuple(found) if len(found) <= limit else None

    @one_at_a_time
    def longest_waiting(self, *, before: int, limit: int) -> tuple[Job, ...]:
        found: list[Job] = []
        for state in WAITING_OR_BACKING_OFF:
            jobs = [job for job in self._state.jobs.values() if job.state is state]
            oldest = sorted(jobs, key=lambda job: (job.entry_time, job.name))
            found += [job for job in oldest if job.entry_time < before][:limit]
        return tuple(found)

    def waiting_since(self) -> int | None:
        waiting = (job for job in self._state.jobs.values() if job.state in WAITING_STATES)
        return min((job.entry_time for job in waiting), default=None)


def _is_awaited(job: Job | None) -> bool:
    """Whether a new job may come after this one."""
    return job is not None and job.followed and not job.terminal


class MemoryGroups:
    """In-memory groups, safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, StoredGroup] = {}
        self._open: dict[str, Opening] = {}

    def get(self, name: str) -> StoredGroup | None:
        return self._kept.get(name)

    def open(self, name: str, *, digest: str, now: int, members: Sequence[str] = ()) -> bool:
        with self._lock:
            there = self._open.get(name)
            if there and (there.withdrawn or there.digest != digest):
                raise Conflict(f"another submission of group {name} is open")
            self._open[name] = Opening(name=name, digest=digest, at=now, members=tuple(members))
            return there is not None

    def keep_whole(self, stored: StoredGroup) -> None:
        """Keep the record of a group that nobody has begun to submit. Raises Conflict."""
        name = stored.group.name
        with self._lock:
            if name in self._open or name in self._kept:
                raise Conflict(f"there is a group {name}, or a submission of it")
            self._kept[name] = stored

    def keep(self, stored: StoredGroup) -> None:
        name = stored.group.name
        with self._lock:
            there = self._open.get(name)
            if there is None or there.withdrawn or there.digest != stored.digest:
                raise Conflict(f"the submission of group {name} is not open")
            if name in self._kept:
                raise Conflict(f"there is a group {name}")
            self._kept[name] = stored
            del self._open[name]

    def openings(self) -> tuple[Opening, ...]:
        with self._lock:
            return tuple(self._open.values())

    def withdraw(self, opening: Opening) -> None:
        with self._lock:
            if opening.name in self._kept or self._open.get(opening.name) != opening:
                raise Conflict(f"group {opening.name} has changed since it was read")
            self._open[opening.name] = replace(opening, withdrawn=True)

    def meet(self, name: str, *, job: str) -> None:
        with self._lock:
            self._kept[name] = replace(self._kept[name], met_by=job)

    def close(self, name: str) -> None:
        with self._lock:
            self._open.pop(name, None)


class MemoryCallbacks:
    """In-memory callbacks, by job and, of those that were replaced, by token."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._behind: tuple[str, str] = ("", "")

    @one_at_a_time
    def attach(self, job: Job, callback: Callback) -> bool:
        current = self._state.callbacks.get((job.name, ""))
        stored = attached(current, kept(job, callback))
        self._state.callbacks |= {_place(each): each for each in stored}
        return bool(stored)

    @one_at_a_time
    def some(self, *, limit: int) -> list[KeptCallback]:
        places = sorted(self._state.callbacks)
        if len(places) > limit:
            places = [place for place in places if place > self._behind][:limit]
            self._behind = places[-1] if len(places) == limit else ("", "")
        elif len(places) > TOGETHER:
            places.sort(key=lambda place: place <= self._behind)
        return [self._state.callbacks[place] for place in places]

    @one_at_a_time
    def go_on_behind(self, kept: KeptCallback) -> None:
        self._behind = _place(kept)

    @one_at_a_time
    def all(self) -> list[KeptCallback]:
        return [self._state.callbacks[place] for place in sorted(self._state.callbacks)]

    @one_at_a_time
    def put_off(self, kept: KeptCallback, *, due: int, tries: int, trouble: str) -> bool:
        current = self._current(kept)
        if current is None:
            return False
        later = replace(current, due=due, tries=tries, trouble=trouble)
        self._state.callbacks[_place(kept)] = later
        return True

    @one_at_a_time
    def forget(self, kept: KeptCallback) -> None:
        if self._current(kept) is not None:
            del self._state.callbacks[_place(kept)]

    def _current(self, kept: KeptCallback) -> KeptCallback | None:
        """Return it as it is kept now; None if another token has taken its place."""
        current = self._state.callbacks.get(_place(kept))
        same = current is not None and current.token_id == kept.token_id
        return current if same else None


def _place(kept: KeptCallback) -> tuple[str, str]:
    return kept.job, kept.token_id if kept.superseded else ""

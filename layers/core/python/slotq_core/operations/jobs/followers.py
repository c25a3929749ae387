"""Jobs that come after others: found at their submission, and freed or cancelled at an end.

A job that others may come after is `followed`. Its end stays in the store as a task until the end
is handed on, so any later pass finishes the work of a dead handler. Handing on may be repeated: a
job that no longer waits for the ended one stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from slotq_core.admission.dependencies import after_end_of
from slotq_core.errors import Conflict, SlotQError, Unavailable
from slotq_core.model.jobs import Job
from slotq_core.names import is_legal
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.ports.surroundings import Clock

_TRIES = 20
"""How often a conditional change of one job is tried while others change the same job."""

_MOST_ACTIONS = 90
"""Actions in one transaction, of the store's 100. A job takes three, and one more for each other
job that it waits for."""


class Followers:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def awaited(self, names: Iterable[str], *, sees: Callable[[Job], bool]) -> Mapping[str, Job]:
        """The jobs of these names, by name, without those that do not exist or that `sees`
        excludes."""
        legal = (name for name in dict.fromkeys(names) if is_legal(name))
        found = (self._store.job(name) for name in legal)
        return {job.name: job for job in found if job is not None and sees(job)}

    def follow(self, awaited: Iterable[Job]) -> None:
        """Make sure that the ends of these jobs will be handed on. An ended job stays as it is: its
        end will refuse the submission (`AwaitedEnded`). Raises Unavailable after `_TRIES`
        conflicts."""
        for job in awaited:
            self._follow(job)

    def _follow(self, awaited: Job) -> None:
        job: Job | None = awaited
        for _ in range(_TRIES):
            if job is None or job.followed or job.terminal:
                return
            try:
                self._store.commit([Change(before=job, after=replace(job, followed=True))])
                return
            except Conflict:
                job = self._store.job(job.name)
        raise Unavailable(f"job {awaited.name} keeps changing; try again")

    def hand_on(self, ended: Job, *, until: int) -> None:
        """Free or cancel the jobs that wait for this one. Begins nothing from `until` on; then, and
        after an error, the end stays to be handed on."""
        name, end = ended.name, ended.state
        told = self.change(
            name, lambda job: after_end_of(job, name, end, self._clock.now()), until=until
        )
        if told:
            with suppress(Conflict):  # Another handler has handed the end on.
                self._store.commit([Change(before=ended, after=replace(ended, followed=False))])

    def change(self, awaited: str, after: Callable[[Job], Job], *, until: int) -> bool:
        """Change every job that waits for `awaited`, once, so that it no longer does. Begins
        nothing from `until` on; returns whether all are changed. Raises Unavailable after `_TRIES`
        conflicts over one job."""
        for some in _together(self._store.followers(awaited)):
            if self._clock.now() >= until:
                return False
            try:
                self._store.commit([Change(before=job, after=after(job)) for job in some])
            except Conflict:
                for job in some:
                    self._alone(job, awaited, after)
        return True

    def _alone(self, job: Job | None, awaited: str, after: Callable[[Job], Job]) -> None:
        assert job is not None
        name = job.name
        for _ in range(_TRIES):
            if job is None or awaited not in job.waits_for:
                return
            try:
                self._store.commit([Change(before=job, after=after(job))])
                return
            except Conflict:
                job = self._store.job(name)
        raise Unavailable(f"job {name} keeps changing; a later pass tells it of {awaited}'s end")


def hand_on_all(ended: Sequence[Job], store: Store, clock: Clock, *, until: int) -> tuple[str, ...]:
    """Hand these ends on. Returns what went wrong; an end that fails stops no other."""
    followers, troubles = Followers(store, clock), []
    for job in ended:
        try:
            followers.hand_on(job, until=until)
        except SlotQError as error:
            troubles.append(f"{job.name}: its end is not handed on yet: {error}")
    return tuple(troubles)


def _together(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """Split the jobs into parts that one transaction can change."""
    some: list[Job] = []
    actions = 0
    for job in jobs:
        takes = 3 + len(job.waits_for)
        if some and actions + takes > _MOST_ACTIONS:
            yield some
            some, actions = [], 0
        some.append(job)
        actions += takes
    if some:
        yield some

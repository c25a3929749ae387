"""Take groups of jobs in (`ports.jobs.Groups` says when a group exists).

A group that one transaction holds is stored at once, with its record. A larger one is judged whole;
then its members are stored, where no pass sees them yet; then the record, by which the group
exists. Each step may be repeated, so the same body again goes on where a handler has died. The tick
withdraws what nobody has finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slotq_core.admission.dependencies import Predecessors, after_end_of
from slotq_core.admission.groups import JudgedGroup, NewGroup, judged_group, naming
from slotq_core.admission.submission import Admitted, After
from slotq_core.admission.user_groups import rights_of
from slotq_core.errors import (
    Conflict,
    GroupUnfinished,
    LimitReached,
    NameTaken,
    Refused,
    SlotQError,
    Unavailable,
)
from slotq_core.lifecycle import move
from slotq_core.model.groups import Opening, StoredGroup, entry_of
from slotq_core.model.jobs import Job, JobState, Submission
from slotq_core.operations.jobs.followers import Followers
from slotq_core.operations.jobs.group_lookup import GroupLookup, GroupStatus
from slotq_core.operations.jobs.group_summary import summary_of
from slotq_core.operations.jobs.submissions import Submissions
from slotq_core.operations.status import Status, bounds_of, notices_of_bounds
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Configuration
from slotq_core.ports.surroundings import Clock, InParallel, one_by_one
from slotq_core.ports.training import Request
from slotq_core.wire.groups.member_environment import rendezvous_of

NOT_WHOLE = "group_not_whole"
"""The cause of a member that is cancelled because its group's submission was never finished."""

FINISHED_WITHIN = 3_600_000
"""How long (ms) an unfinished submission may be sent again. Afterwards its members are
cancelled."""

_BUDGET = 20_000
"""How long one request stores members (ms). The same request again goes on."""

_AT_ONCE = 16
"""Parts of a group that are stored between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class _Judged:
    group: JudgedGroup
    outside: Mapping[After, Predecessors]
    """What members come after outside the group."""


class GroupsOfJobs:
    """The users' verb for new groups."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        submissions: Submissions,
        *,
        lookup: GroupLookup,
        wake: Callable[[], None],
        at_once: InParallel = one_by_one,
    ) -> None:
        """`at_once` stores several members in parallel; the store uses another one."""
        self._at_once = at_once
        self._store, self._clock, self._wake = store, clock, wake
        self._submissions, self._lookup = submissions, lookup
        self._followers = Followers(store, clock, at_once)

    def check_room(self, name: str, *, submitter: str) -> None:
        """Check the limits before reading the members of a group, which costs more than a refusal
        should. Raises LimitReached if the caller may submit nothing now.

        A name under which the caller has stored something passes: a repeated submission is never
        refused, and the members of an unfinished one may be what fills the limit.
        """
        try:
            self._submissions.check_room(submitter)
        except LimitReached:
            known = self._store.groups.get(name)
            begun = [
                opening.digest for opening in self._store.groups.openings() if opening.name == name
            ]
            digests = begun if known is None else [known.digest]
            if not any(self._is_of(digest, submitter) for digest in digests):
                raise

    def submit(self, wanted: NewGroup, *, submitter: str) -> GroupStatus:
        """Store the group, with all its members. Once this returns, all of them are in the queue.

        The same body again returns the group as it is, or goes on with an unfinished submission.
        Raises what the submission of a member raises, with the member's name, NameTaken,
        GroupUnfinished and Unavailable. After a refusal no member is in a line.
        """
        until = self._clock.now() + _BUDGET
        known = self._known(wanted, submitter)
        if known is None:
            status = self._stored(wanted, submitter, until)
        else:
            self._enter(wanted.name, until=until)
            status = self._lookup.shown(known, submitter)
        self._wake()
        return status

    def dry_run(self, wanted: NewGroup, *, submitter: str) -> GroupStatus:
        """What `submit` would do with this group now: the members that it would store, or the
        stored group. Stores nothing, counts nothing. Raises what `submit` raises; if the limits
        leave room for some members only, the error names no member."""
        known = self._known(wanted, submitter)
        if known is not None:
            return self._lookup.shown(known, submitter)
        configuration = self._store.configuration.read()
        judged = self._judge(wanted, submitter, configuration, reading=True).group
        missing = [member.job for wave in judged.missing for member in wave]
        self._submissions.check_limits(missing, configuration)
        stored = self._record(wanted, judged, submitter, configuration)
        self._refuse_other_opening(stored)
        return _status(stored, judged.jobs, configuration)

    def finish(self, openings: Sequence[Opening], *, until: int) -> tuple[str, ...]:
        """Continue submissions of dead handlers; cancel the members of submissions that were not
        finished in time. Begins nothing from `until` on. Returns the errors; an error in one group
        does not affect the others."""
        troubles = []
        for opening in openings:
            if self._clock.now() >= until:
                break
            try:
                self._finish(opening, until)
            except SlotQError as error:
                troubles.append(f"group {opening.name}: {error}")
        return tuple(troubles)

    def _finish(self, opening: Opening, until: int) -> None:
        if self._store.groups.get(opening.name) is not None:  # Of a version before 0.3.
            if self._enter(opening.name, until=until):
                self._store.groups.close(opening.name)
        elif opening.withdrawn or self._clock.now() - opening.at >= FINISHED_WITHIN:
            self._withdraw(opening, until)

    def _known(self, wanted: NewGroup, submitter: str) -> StoredGroup | None:
        """The stored group, if it is the same one. Raises NameTaken if it is another."""
        known = self._store.groups.get(wanted.name)
        if known is None:
            return None
        digest = known.digest.partition(" ")[0]
        if digest != wanted.digest or not self._is_of(known.digest, submitter):
            raise NameTaken(f"a group named '{wanted.name}' exists already", field="name")
        return known

    def _is_of(self, digest: str, submitter: str) -> bool:
        """Whether a group with this digest is the caller's."""
        return self._lookup.is_person(submitter, digest.partition(" ")[2])

    def _stored(self, wanted: NewGroup, submitter: str, until: int) -> GroupStatus:
        """Store the group, whole or in parts; or return it, if another handler was faster. Raises
        GroupUnfinished if there is no time for all members before `until` (ms)."""
        configuration = self._store.configuration.read()
        judged = self._judge(wanted, submitter, configuration, reading=False).group
        stored = self._record(wanted, judged, submitter, configuration)
        self._follow(judged)
        whole = self._submissions.stored_together(judged.admitted, configuration, group=stored)
        if whole is not None:
            return _status(stored, whole, configuration)
        again = self._judge(wanted, submitter, configuration, reading=True)
        stored = self._record(wanted, again.group, submitter, configuration)
        try:
            jobs = self._store_members(wanted, again, stored, configuration, until)
            self._store.groups.keep(stored)
        except (Refused, Conflict) as error:
            if (known := self._known(wanted, submitter)) is not None:
                return self._lookup.shown(known, submitter)
            if isinstance(error, Refused):
                raise
            raise Unavailable(f"group {wanted.name} is being submitted; try again") from None
        return _status(stored, jobs, configuration)

    def _follow(self, judged: JudgedGroup) -> None:
        """Follow what members come after, but for other members."""
        awaited = (job for member in judged.admitted for job in (*member.after, *member.watched))
        self._followers.follow({job.name: job for job in awaited}.values())

    def _record(
        self, wanted: NewGroup, judged: JudgedGroup, submitter: str, configuration: Configuration
    ) -> StoredGroup:
        """The group as stored."""
        now, is_gang = self._clock.now(), wanted.max_parallel is None
        return StoredGroup(
            group=wanted.group,
            submitter=submitter,
            project=judged.project,
            sweep=wanted.sweep,
            # Two people never share a group, whatever they send.
            digest=f"{wanted.digest} {configuration.people.person(submitter)}",
            at=now,
            rendezvous=rendezvous_of(judged.request, wanted.name, now) if is_gang else "",
        )

    def _judge(
        self, wanted: NewGroup, submitter: str, configuration: Configuration, *, reading: bool
    ) -> _Judged:
        """Check the group, and store nothing. `reading`: look which members are stored; else none
        is."""
        names = [submission.name for submission, _ in wanted.members]
        known = self._store.jobs.several(names) if reading else {}
        ours, asked = frozenset(names), dict[After, Predecessors]()

        def admit(submission: Submission, request: Request) -> Admitted:
            admitted = self._submissions.judged(
                submission, request, submitter, configuration, ours=ours, asked=asked
            )
            if (other := known.get(submission.name)) is not None:
                self._submissions.refuse_other(other, submission, submitter)
            return admitted

        group = judged_group(
            wanted,
            admit,
            known=known,
            pools=configuration.pools,
            rights=rights_of(configuration.sharing, configuration.people.person(submitter)),
        )
        outside = {
            after: found for after, found in asked.items() if not ours & {*after[0], *after[1]}
        }
        return _Judged(group=group, outside=outside)

    def _store_members(
        self,
        wanted: NewGroup,
        judged: _Judged,
        stored: StoredGroup,
        configuration: Configuration,
        until: int,
    ) -> list[Job]:
        """Store the missing members, each wave behind those before it. Returns all members. Raises
        NameTaken if another submission is open, and GroupUnfinished if the time runs out."""
        self._begin(wanted, judged.group, stored, until)
        asked = self._followers.all_followed(judged.outside)
        jobs = {job.name: job for job in judged.group.jobs}
        numbers = {name: number for number, name in enumerate(jobs)}

        def store(part: Sequence[Admitted]) -> None:
            together = self._submissions.stored_together(part, configuration)
            for job in map(alone, part) if together is None else together:
                jobs[job.name] = job

        def alone(member: Admitted) -> Job:
            number = numbers[member.job.name]
            with naming(number):
                return self._submissions.stored(
                    *wanted.members[number],
                    stored.submitter,
                    followed=member.job.followed,
                    configuration=configuration,
                    asked=asked,
                ).job

        before = done = len(jobs) - sum(map(len, judged.group.missing))
        for parts in self._steps(judged.group.missing):
            if done > before and self._clock.now() >= until:
                raise GroupUnfinished(
                    f"{done:,} of the {len(jobs):,} members of group {wanted.name} are stored; "
                    "send the group again, and the queue goes on",
                    retry_after=1,
                )
            self._at_once(store, parts)
            done += sum(map(len, parts))
        return [*jobs.values()]

    def _steps(self, waves: Iterable[Sequence[Admitted]]) -> Iterator[Sequence[Sequence[Admitted]]]:
        """The parts that are stored at once. Those that come after others are stored one after the
        other: their transactions examine the same jobs, and DynamoDB cancels those that do so at
        once."""
        for wave in waves:
            alone = [member for member in wave if not member.job.waits_for]
            dependent = [member for member in wave if member.job.waits_for]
            parts = [*self._submissions.in_parts(alone)]
            for begin in range(0, len(parts), _AT_ONCE):
                yield parts[begin : begin + _AT_ONCE]
            for part in self._submissions.in_parts(dependent):
                yield [part]

    def _begin(
        self, wanted: NewGroup, judged: JudgedGroup, stored: StoredGroup, until: int
    ) -> None:
        """Open the submission, or go on with it. From here on no handler stores the group whole,
        and none withdraws it. Raises Conflict if one has done so before, or NameTaken."""
        begun = self._open(stored)
        if self._store.groups.get(wanted.name) is not None:
            raise Conflict(f"group {wanted.name} is stored already")
        missing = {member.job.name for wave in judged.missing for member in wave}
        there = [job.name for job in judged.jobs if job.name not in missing]
        found = self._store.jobs.several(there)
        for number, (submission, _) in enumerate(wanted.members):
            if submission.name in found:
                with naming(number):
                    self._submissions.refuse_other(
                        found[submission.name], submission, stored.submitter
                    )
        if begun:
            self._enter(wanted.name, until=until)

    def _open(self, stored: StoredGroup) -> bool:
        """Begin the submission, or begin it again. Returns whether it had begun before. Raises
        NameTaken if another one is open, or this one is being withdrawn, and Conflict."""
        name, members = stored.group.name, stored.group.members
        try:
            return self._store.groups.open(
                name, digest=stored.digest, now=self._clock.now(), members=members
            )
        except Conflict:
            self._refuse_other_opening(stored)
            raise

    def _refuse_other_opening(self, stored: StoredGroup) -> None:
        """Raises NameTaken if another submission of that name is open, or this one is being
        withdrawn."""
        name = stored.group.name
        opening = next(
            (opening for opening in self._store.groups.openings() if opening.name == name), None
        )
        if opening is not None and (opening.digest != stored.digest or opening.withdrawn):
            raise NameTaken(
                f"another submission of group '{name}' has begun and is not finished: send that "
                "one again as it was, or choose other names for the group and its jobs",
                field="name",
            )

    def _enter(self, name: str, *, until: int) -> bool:
        """Put the members of a group into their lines that a version before 0.3 has stored outside
        all lines. Returns whether all are."""
        entry, now = entry_of(name), self._clock.now

        def entered(job: Job) -> Job:
            return after_end_of(job, entry, JobState.COMPLETED, now())

        return self._followers.change(entry, entered, until=until)

    def _withdraw(self, opening: Opening, until: int) -> None:
        if not opening.withdrawn:
            try:
                self._store.groups.withdraw(opening)
            except Conflict:
                return  # It was finished, or begun again.
        message = f"the submission of its group {opening.name} was not finished within an hour"

        def cancelled(job: Job) -> Job:
            if job.terminal:
                return job
            return move(
                job, JobState.CANCELLED, at=self._clock.now(), cause=NOT_WHOLE, message=message
            )

        entry = self._followers.change(entry_of(opening.name), cancelled, until=until)
        members = self._followers.change_all(self._stored_of(opening), cancelled, until=until)
        if entry and members:
            self._store.groups.close(opening.name)

    def _stored_of(self, opening: Opening) -> list[Job]:
        """The members that the unfinished submission has stored and that have not ended."""
        found = self._store.jobs.several(opening.members).values()
        return [job for job in found if job.group == opening.name and not job.terminal]


def _status(stored: StoredGroup, jobs: Sequence[Job], configuration: Configuration) -> GroupStatus:
    """A group that its submitter has stored."""
    notices = _notices(jobs, configuration)
    members = {job.name: Status(job=job, notices=notices.get(job.name, ())) for job in jobs}
    return GroupStatus(stored=stored, members=members, summary=summary_of(stored.group, jobs))


def _notices(jobs: Iterable[Job], configuration: Configuration) -> dict[str, tuple[str, ...]]:
    """Notices for the user, by member; identical members share the first one's."""
    alike: dict[object, Job] = {}
    for job in jobs:
        alike.setdefault(bounds_of(job), job)
    return {job.name: notices_of_bounds(job, configuration) for job in alike.values()}

"""Take groups of jobs in (`ports.jobs.Groups` says when a group exists).

A group that one transaction holds is stored at once, with its record. A larger one is judged whole;
then its members are stored, where no pass sees them yet; then the record, by which the group
exists. Each step may be repeated, so the same body again goes on where a handler has died. The tick
withdraws what nobody has finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from slotq_core.admission.dependencies import Predecessors, after_end_of, check_members
from slotq_core.admission.gangs import check_room
from slotq_core.admission.submission import Admitted, After
from slotq_core.admission.user_groups import rights_of
from slotq_core.errors import (
    Conflict,
    GroupUnfinished,
    InvalidRequest,
    LimitReached,
    NameTaken,
    Refused,
    SlotQError,
    Unavailable,
)
from slotq_core.lifecycle import move
from slotq_core.model.groups import Group, Opening, StoredGroup, Sweep, entry_of
from slotq_core.model.jobs import Job, JobState, Submission
from slotq_core.operations.effects import checkpoints_of
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

_TOGETHER = 128
"""Members that are stored between two looks at the clock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewGroup:
    """A well-formed submission of a group."""

    name: str
    members: tuple[tuple[Submission, Request], ...]
    """Each submission with the group's name."""
    digest: str
    max_parallel: int | None = None
    """For a sweep; None: a gang, with the rules below (`model.groups.Group`)."""
    sweep: Sweep | None = None
    """The parameters and the goal of a sweep."""
    min_members: int | None = None
    mandatory: tuple[str, ...] = ()
    same_pool: bool = False
    ends_with: str = ""
    sites: Mapping[str, str] = field(default_factory=dict)
    heartbeat: int | None = None

    @property
    def group(self) -> Group:
        return Group(
            name=self.name,
            members=tuple(submission.name for submission, _ in self.members),
            min_members=self.min_members,
            mandatory=(*self.mandatory, *({self.ends_with} - {"", *self.mandatory})),
            same_pool=self.same_pool,
            ends_with=self.ends_with,
            sites=self.sites,
            heartbeat=self.heartbeat,
            max_parallel=self.max_parallel,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Judged:
    """A group after admission."""

    project: str
    """Of all members."""
    jobs: Sequence[Job]
    """The members in the order of the submission; a stored member as stored."""
    request: Request
    """The request of the member whose output location is the rendezvous of a gang: the one that
    ends the gang, else the first."""
    missing: Sequence[Sequence[int]]
    """The numbers of the members that an earlier request has not stored, in waves: each comes after
    members of earlier waves only."""
    admitted: Sequence[Admitted]
    """All members, as they are to be stored."""
    asked: Mapping[After, Predecessors]
    """The predecessors of members outside the group."""
    notices: Mapping[str, tuple[str, ...]]
    """Notices for the user, by member; identical members share the first one's."""


def _notices(jobs: Iterable[Job], configuration: Configuration) -> dict[str, tuple[str, ...]]:
    """Notices for the user about the members. Computed once for identical members."""
    alike: dict[object, Job] = {}
    for job in jobs:
        alike.setdefault(bounds_of(job), job)
    return {job.name: notices_of_bounds(job, configuration) for job in alike.values()}


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
        judged = self._judge(wanted, submitter, configuration, reading=True)
        missing = sorted(number for wave in judged.missing for number in wave)
        self._submissions.check_limits([judged.jobs[number] for number in missing], configuration)
        stored = self._record(wanted, judged, submitter, configuration)
        self._refuse_other_opening(stored)
        return _status(stored, judged.jobs, judged.notices)

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
        judged = self._judge(wanted, submitter, configuration, reading=False)
        stored = self._record(wanted, judged, submitter, configuration)
        self._follow(judged)
        whole = self._submissions.stored_together(judged.admitted, configuration, group=stored)
        if whole is not None:
            return _status(stored, whole, judged.notices)
        judged = self._judge(wanted, submitter, configuration, reading=True)
        stored = self._record(wanted, judged, submitter, configuration)
        try:
            jobs = self._store_members(wanted, judged, stored, configuration, until)
            self._store.groups.keep(stored)
        except (Refused, Conflict) as error:
            if (known := self._known(wanted, submitter)) is not None:
                return self._lookup.shown(known, submitter)
            if isinstance(error, Refused):
                raise
            raise Unavailable(f"group {wanted.name} is being submitted; try again") from None
        return _status(stored, jobs, judged.notices)

    def _follow(self, judged: _Judged) -> None:
        """Follow what members come after, but for other members."""
        awaited = (job for member in judged.admitted for job in (*member.after, *member.watched))
        self._followers.follow({job.name: job for job in awaited}.values())

    def _record(
        self, wanted: NewGroup, judged: _Judged, submitter: str, configuration: Configuration
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
        self,
        wanted: NewGroup,
        submitter: str,
        configuration: Configuration,
        *,
        reading: bool,
    ) -> _Judged:
        """Check every member and the whole, and store nothing. `reading`: look which members are
        stored; else none is."""
        waves = _in_waves(wanted)
        names = [submission.name for submission, _ in wanted.members]
        known = self._store.at_once(self._store.jobs.get, names) if reading else [None] * len(names)
        ours, awaited = frozenset(names), _awaited_by_members(wanted)
        goal = wanted.sweep is not None and wanted.sweep.goal is not None
        asked: dict[After, Predecessors] = {}
        jobs, admitted, requests, missing = [], [], {}, set()
        for number, (submission, request) in enumerate(wanted.members):
            with _naming(number):
                judged = self._submissions.judged(
                    submission,
                    request,
                    submitter,
                    configuration,
                    ours=ours,
                    asked=asked,
                )
                if (other := known[number]) is not None:
                    self._submissions.refuse_other(other, submission, submitter)
                else:
                    missing.add(number)
                if wanted.heartbeat is not None:
                    _check_heard(judged.request)
                jobs.append(other or judged.job)
                followed = goal or judged.job.name in awaited
                admitted.append(replace(judged, job=replace(judged.job, followed=followed)))
                requests[judged.job.name] = judged.request
        projects = sorted({job.project for job in jobs})
        if len(projects) > 1:
            raise InvalidRequest(
                f"the members of a group belong to one project, not to {', '.join(projects)}",
                field="members",
            )
        if wanted.max_parallel is None:
            rights = rights_of(configuration.sharing, configuration.people.person(submitter))
            check_room(wanted.group, jobs, configuration.pools, rights)
        return _Judged(
            project=projects[0],
            jobs=jobs,
            request=requests[wanted.ends_with or jobs[0].name],
            notices=_notices(jobs, configuration),
            missing=[[number for number in wave if number in missing] for wave in waves],
            admitted=admitted,
            asked={
                after: ends for after, ends in asked.items() if not ours & {*after[0], *after[1]}
            },
        )

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
        submitter = stored.submitter
        begun = self._open(stored)
        # From here on no handler stores the group whole; one may have done it before.
        if self._store.groups.get(wanted.name) is not None:
            raise Conflict(f"group {wanted.name} is stored already")
        self._look_again(wanted, judged, submitter)
        if begun:
            self._enter(wanted.name, until=until)
        asked = self._followers.all_followed(judged.asked)
        jobs = {job.name: job for job in judged.jobs}
        numbers = {job.name: number for number, job in enumerate(judged.jobs)}

        def store(part: Sequence[Admitted]) -> None:
            together = self._submissions.stored_together(part, configuration)
            if together is None:
                together = [one(numbers[member.job.name]) for member in part]
            jobs.update({job.name: job for job in together})

        def one(number: int) -> Job:
            submission, request = wanted.members[number]
            with _naming(number):
                return self._submissions.stored(
                    submission,
                    request,
                    submitter,
                    followed=judged.admitted[number].job.followed,
                    configuration=configuration,
                    asked=asked,
                ).job

        before = done = len(wanted.members) - sum(map(len, judged.missing))
        for some in _batches(judged.missing):
            if done > before and self._clock.now() >= until:
                raise GroupUnfinished(
                    f"{done:,} of the {len(wanted.members):,} members of group {wanted.name} are "
                    "stored; send the group again, and the queue goes on",
                    retry_after=1,
                )
            # Those that come after others one after the other: their transactions examine the same
            # jobs, and DynamoDB cancels those that do so at once.
            members = [judged.admitted[number] for number in some]
            alone = [member for member in members if not member.job.waits_for]
            self._at_once(store, [*self._submissions.in_parts(alone)])
            dependent = [member for member in members if member.job.waits_for]
            for part in self._submissions.in_parts(dependent):
                store(part)
            done += len(some)
        return [*jobs.values()]

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

    def _look_again(self, wanted: NewGroup, judged: _Judged, submitter: str) -> None:
        """Refuse the group if a member of an earlier request has ended: the submission may have
        been withdrawn between the first look and the opening. After the opening no handler
        withdraws it."""
        missing = {number for wave in judged.missing for number in wave}
        there = [number for number in range(len(wanted.members)) if number not in missing]
        names = [wanted.members[number][0].name for number in there]
        for number, job in zip(
            there, self._store.at_once(self._store.jobs.get, names), strict=True
        ):
            if job is not None:
                with _naming(number):
                    self._submissions.refuse_other(job, wanted.members[number][0], submitter)

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
        found = self._store.at_once(self._store.jobs.get, opening.members)
        return [job for job in found if job and job.group == opening.name and not job.terminal]


def _status(
    stored: StoredGroup, jobs: Sequence[Job], notices: Mapping[str, tuple[str, ...]]
) -> GroupStatus:
    """A group that its submitter has stored."""
    members = {job.name: Status(job=job, notices=notices.get(job.name, ())) for job in jobs}
    return GroupStatus(stored=stored, members=members, summary=summary_of(stored.group, jobs))


def _awaited_by_members(wanted: NewGroup) -> set[str]:
    """The names that members come after."""
    return {
        name
        for submission, _ in wanted.members
        for name in (*submission.after, *submission.after_any)
    }


def _check_heard(request: Request) -> None:
    """Refuse a member without a checkpoint location: its reports, and so its silence, would go
    unnoticed."""
    if not checkpoints_of(request):
        raise InvalidRequest(
            "heartbeat_seconds needs a CheckpointConfig with an S3Uri in every member: scripts "
            "leave their reports there",
            field="CheckpointConfig",
        )


def _in_waves(wanted: NewGroup) -> list[list[int]]:
    """The numbers of the members in waves: each member is in a later wave than its predecessors.
    Raises InvalidRequest."""
    numbers = {submission.name: number for number, (submission, _) in enumerate(wanted.members)}
    after = {member.name: (*member.after, *member.after_any) for member, _ in wanted.members}
    waves = check_members(wanted.name, after, gang=wanted.max_parallel is None)
    return [[numbers[name] for name in wave] for wave in waves]


def _batches(waves: Iterable[Sequence[int]]) -> Iterator[Sequence[int]]:
    """The members that are stored together: of one wave, and at most `_TOGETHER`."""
    for wave in waves:
        for begin in range(0, len(wave), _TOGETHER):
            yield wave[begin : begin + _TOGETHER]


@contextmanager
def _naming(number: int) -> Iterator[None]:
    """Add the member's name to a refusal."""
    try:
        yield
    except Refused as error:
        error.within(f"members.{number}")
        raise

"""`queue.groups`: jobs submitted together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slotq.errors import GroupUnfinished, InvalidRequest, TooManySubmissions
from slotq.groups.bodies import (
    body_of,
    cloned,
    members_of,
    names_of_clones,
    rules_of,
    sweep_body_of,
)
from slotq.jobs.job_calls import SubmissionCalls
from slotq.jobs.submission import settings_tags, with_tags
from slotq.transport.connection import below
from slotq_core.wire.groups.views import GroupSummaryView, GroupsView, GroupView

_MANY = 20
"""Reading so many requests one by one takes noticeable time."""


class GroupCalls(SubmissionCalls):
    """Groups by name. `queue.groups()` lists them."""

    def __call__(self, *, ended: bool = False) -> list[GroupSummaryView]:
        """The groups by name; with `ended`, also those whose members have all ended."""
        query = {"ended": "true"} if ended else None
        return self._read(GroupsView, "GET", "/groups", query=query).groups

    def view(self, name: str, *, attempts: bool = False) -> GroupView:
        """A group with its members, and why a gang waits; with `attempts`, the attempts of each
        member too. Raises NoSuchGroup."""
        path, query = below("/groups", name), {"attempts": "true"} if attempts else {}
        found = self._read(GroupView, "GET", path, query=query or None)
        return self._with_further_members(found, query)

    def submit(
        self,
        name: str,
        members: Iterable[Mapping[str, Any]],
        *,
        max_parallel: int,
        sweep: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> GroupView:
        """Put jobs into the queue under one name, all or none. At most `max_parallel` of them hold
        slots at once.

        `members`: CreateTrainingJob requests, to which the client's own settings apply as in
        `QueueClient.submit`; what they share is sent once. `sweep`: parameters and objective, as
        `sweep` of POST /groups. The same group again is the same group. If one request cannot take
        all members in time, further requests follow. Raises what `QueueClient.submit` raises; the
        field of a member's fault begins with its place: `members.3.RoleArn`. `dry_run` as there.
        """
        body = body_of(name, self._prepared(members), {}, max_parallel=max_parallel, sweep=sweep)
        return self._put(body, dry_run=dry_run)

    def submit_gang(
        self,
        name: str,
        members: Iterable[Mapping[str, Any]],
        *,
        min_members: int | None = None,
        mandatory: Iterable[str] = (),
        same_pool: bool = False,
        elastic: bool = False,
        ends_with: str | None = None,
        sites: Mapping[str, str] | None = None,
        heartbeat_seconds: int | None = None,
        dry_run: bool = False,
    ) -> GroupView:
        """Put jobs into the queue that start together or not at all: all of them, or `min_members`
        with all that are `mandatory` (names); with `same_pool` in one pool. The others join while
        the gang runs, as room comes. With `elastic`, members beyond `min_members` are evicted one
        by one and join again; all then run in one pool.

        `ends_with`: the member, by name, whose end ends the gang; it also ends when too few of the
        others can still complete. `sites`: the members' names for each other, by job name.
        `heartbeat_seconds`: how long a running member that reports may be silent.

        `members` as for `submit`. Raises what that raises, and NeverFits for a gang that empty
        pools could not hold.
        """
        rules = rules_of(
            min_members=min_members,
            mandatory=mandatory,
            same_pool=same_pool,
            elastic=elastic,
            ends_with=ends_with,
            sites=sites,
            heartbeat_seconds=heartbeat_seconds,
        )
        body = body_of(name, self._prepared(members), {}, gang=rules)
        return self._put(body, dry_run=dry_run)

    def clone(
        self,
        name: str,
        new_name: str,
        *,
        priority: int | str | None = None,
        project: str | None = None,
        resume: bool = False,
    ) -> GroupView:
        """Submit a group once more under another name, with its rules: a clone of each member, as
        `jobs.clone` makes it. The member `grid-1` of `grid` becomes `other-1` in `other`. Raises
        NoSuchGroup, and what `jobs.clone` raises."""
        found = self.view(name)
        members = [job.name for job in found.jobs]
        if len(members) < found.members:
            raise InvalidRequest(
                f"group {name} has {found.members} members, and {len(members)} are left to see: "
                "the records of ended jobs expire",
                field="name",
            )
        renamed = names_of_clones(name, members, new_name, members_of(found.sweep))
        tags = settings_tags(priority=priority, project=project)
        if len(members) > _MANY:
            self._connection.say(f"slotq: reading the requests of {len(members)} jobs")
        requests = [
            with_tags(
                cloned(self._whole_request(member, resume=resume), renamed), tags, override=True
            )
            for member in members
        ]
        if found.gang is None:
            most, sweep = found.max_parallel or len(members), sweep_body_of(found.sweep)
            return self._put(body_of(new_name, requests, {}, max_parallel=most, sweep=sweep))
        rules = rules_of(
            min_members=found.gang.min_members,
            mandatory=[renamed[member] for member in found.gang.mandatory],
            same_pool=found.gang.same_pool,
            elastic=found.gang.elastic,
            ends_with=renamed.get(found.gang.ends_with or ""),
            sites={renamed[member]: site for member, site in found.gang.sites.items()},
            heartbeat_seconds=found.gang.heartbeat_seconds,
        )
        return self._put(body_of(new_name, requests, {}, gang=rules))

    def _put(self, body: bytes, *, dry_run: bool = False) -> GroupView:
        query = self._query(dry_run=dry_run)

        def submit() -> GroupView:
            found = self._read(GroupView, "POST", "/groups", query=query, body=body)
            return found if dry_run else self._with_further_members(found, {})

        return self._patiently(submit, TooManySubmissions, GroupUnfinished)

    def _with_further_members(self, first: GroupView, query: Mapping[str, str]) -> GroupView:
        """The whole group, with the members of further pages."""
        path, jobs, following = below("/groups", first.name), [*first.jobs], first.next
        while following is not None:
            page = self._read(GroupView, "GET", path, query={**query, "next": following})
            jobs += page.jobs
            following = page.next
        return first.model_copy(update={"jobs": jobs, "next": None})

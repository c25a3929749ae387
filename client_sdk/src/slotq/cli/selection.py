"""Which jobs a verb applies to: jobs named, or jobs selected by options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from slotq.cli.app import App, interrupted
from slotq.cli.exits import ExitCode
from slotq.cli.name_arguments import PoolNames, check_pool, some_names_argument
from slotq.errors import NoSuchGroup, NoSuchJob, NotAllowed, UnexpectedAnswer
from slotq.output.columns import queue_table
from slotq.output.plain_table import LIVING
from slotq_core.model.jobs import JobState

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq.jobs.rendering import JobList
    from slotq_core.wire.views.about import MeView
    from slotq_core.wire.views.jobs import JobView

MOST_SEARCHED = 100_000
"""The most jobs among which names are searched: a hundred requests."""

HANDFUL = 5
"""Up to this many selected jobs are changed without a question."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What the command line says about the jobs. Each option narrows the selection, and so do names
    beside options."""

    names: tuple[str, ...]
    states: tuple[str, ...]
    glob: str | None
    mine: bool
    submitter: str | None
    project: str | None
    pool: str | None
    group: str | None
    dry_run: bool
    yes: bool
    fit: Sequence[str]
    """States of the jobs that the verb applies to if no job is named."""

    @property
    def by_options(self) -> bool:
        wanted = (self.glob, self.submitter, self.project, self.pool, self.group)
        return self.mine or bool(self.states) or any(criterion is not None for criterion in wanted)

    @property
    def one(self) -> bool:
        """Whether the selection is one named job, which is shown as a single job."""
        return not self.by_options and len(set(self.names)) == 1

    def resolved(self, app: App, client: QueueClient, verb: str) -> list[str]:
        """The names of the selected jobs, after the user has confirmed a large selection.

        Ends the command after a dry run. Raises NoSuchJob if the options select no job, and click's
        UsageError.
        """
        self._check()
        if not self.by_options and not self.dry_run:
            return list(self.names)
        jobs = self._found(client) if self.by_options else [client.jobs.view(n) for n in self.names]
        if self.dry_run:
            from slotq_core.wire.views.jobs import queue_view

            app.answer(queue_view(jobs), queue_table(jobs))
            raise click.exceptions.Exit(int(ExitCode.OK))
        if len(jobs) > HANDFUL and not self.yes:
            _ask(app, jobs, verb)
        return [job.name for job in jobs]

    def _check(self) -> None:
        if not self.names and not self.by_options:
            raise click.UsageError(
                "say which jobs: give a NAME, or --mine, --state, --name, --project, --group, "
                "--pool or --submitter"
            )
        if self.mine and self.submitter is not None:
            raise click.UsageError("--mine and --submitter exclude each other")
        # The queue ignores an empty value, so an unset variable would select all jobs.
        for option in ("submitter", "project", "group", "pool"):
            if getattr(self, option) == "":
                raise click.UsageError(
                    f"--{option} is empty: give a value, or leave the option out"
                )

    def _found(self, client: QueueClient) -> list[JobView]:
        submitter = self._submitter(client)
        seen = self._seen(client, submitter)
        if seen.more:
            click.echo(
                f"slotq: the queue lists {len(seen):,} jobs at a time, and there may be more: "
                "select fewer, or repeat the command for the rest",
                err=True,
            )
        found = [job for job in seen if self._has(job)]
        if not found:
            check_pool(client, self.pool)
            raise NoSuchJob(self._nothing(submitter))
        return found

    def _seen(self, client: QueueClient, submitter: str | None) -> JobList:
        """The jobs in the wanted states. A group's jobs are read by name if no other option needs
        the list, because the list may lag behind and has a limit. The limit is high for a selection
        by names: the queue cannot filter by name."""
        from slotq.jobs.rendering import JobList

        states = self.states or self.fit
        alone = submitter is None and self.project is None and self.pool is None
        if self.group is not None and alone:
            with suppress(NoSuchGroup, NotAllowed, UnexpectedAnswer):
                return JobList(
                    job for job in client.groups.view(self.group).jobs if job.state in states
                )
        wanted: dict[str, Any] = {
            "submitter": submitter,
            "project": self.project,
            "pool": self.pool,
        }
        by_name = bool(self.names) or self.glob is not None or self.group is not None
        found = client.jobs(states, **wanted)
        if found.more and by_name:
            return client.jobs(states, limit=MOST_SEARCHED, **wanted)
        return found

    def _submitter(self, client: QueueClient) -> str | None:
        """The submitter whose jobs are selected; None: any submitter. Warns if several people may
        count as one person."""
        if not self.mine:
            return self.submitter
        me = who_i_am(client)
        if me.person != me.caller:
            click.echo(
                f"slotq: --mine selects the jobs of all sessions of {me.person}; `slotq whoami` "
                "says why",
                err=True,
            )
        return me.person

    def _nothing(self, submitter: str | None) -> str:
        glob = None if self.glob is None else f"'{self.glob}'"
        among = {
            "named": glob,
            "of": submitter,
            "in project": self.project,
            "of group": self.group,
            "in": self.pool,
        }
        said = "".join(f" {word} {what}" for word, what in among.items() if what is not None)
        beside = f" among {', '.join(self.names)}" if self.names else ""
        states = self.states or self.fit
        condition = "runs or waits" if states == LIVING else f"is {' or '.join(states)}"
        return f"no job{said}{beside} {condition}"

    def _has(self, job: JobView) -> bool:
        named = not self.names or job.name in self.names
        named = named and self.group in {None, job.group}
        return named and (self.glob is None or fnmatchcase(job.name, self.glob))


def who_i_am(client: QueueClient) -> MeView:
    """The caller and the person. If the queue names no person (an earlier release, or the caller
    may not ask), the caller is the person."""
    try:
        return client.service.me()
    except (NotAllowed, UnexpectedAnswer):
        from slotq_core.wire.views.about import MeView

        caller = client.service.about().caller
        return MeView(caller=caller, person=caller, why="the queue did not say")


_SAID = tuple(field.name for field in fields(Selection) if field.name != "fit")
"""The options and arguments on the command line."""


def selecting(
    fit: Sequence[str] = LIVING,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command NAME... and the selecting options, passed as one argument `chosen`.

    `fit`: the states of the jobs that the command applies to.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(*args: Any, **parameters: Any) -> None:
            said = {name: parameters.pop(name) for name in _SAID}
            command(*args, chosen=Selection(**said, fit=fit), **parameters)

        wrapped: Callable[..., None] = run
        for option in reversed([some_names_argument(fit), *_options()]):
            wrapped = option(wrapped)
        return wrapped

    return decorate


def _options() -> list[Callable[..., Any]]:
    return [
        click.option("--mine", is_flag=True, help="Select your jobs (whoami says whose)."),
        click.option(
            "--state",
            "states",
            multiple=True,
            type=click.Choice([state.value for state in JobState]),
            help="Select jobs in this state; may be given several times.",
        ),
        click.option(
            "--name", "glob", metavar="GLOB", help="Select jobs by name, as in 'ablation-*'."
        ),
        click.option("--project", help="Select jobs of this project."),
        click.option("--group", help="Select the jobs of this group."),
        click.option("--submitter", help="Select jobs of this user: an ARN, or a name in it."),
        click.option("--pool", type=PoolNames(), help="Select jobs that run or may run there."),
        click.option("--dry-run", is_flag=True, help="Show the selected jobs, and change nothing."),
        click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation."),
    ]


def _ask(app: App, jobs: Sequence[JobView], verb: str) -> None:
    """Show the jobs to a user at a terminal and ask for confirmation. Raises click's UsageError if
    there is no terminal."""
    if not app.asks():
        raise click.UsageError(
            f"{len(jobs):,} jobs are selected, and nobody can be asked here: nothing was changed. "
            f"Add --yes to {verb} them all; --dry-run shows them"
        )
    app.console(stderr=True).print(queue_table(jobs[:HANDFUL]))
    if len(jobs) > HANDFUL:
        click.echo(f"… and {len(jobs) - HANDFUL:,} more (--dry-run shows all)", err=True)
    try:
        sure = click.confirm(f"{verb.capitalize()} {len(jobs):,} jobs?", err=True)
    except click.Abort:
        raise interrupted() from None
    if not sure:
        click.echo("slotq: nothing was changed", err=True)
        raise click.exceptions.Exit(int(ExitCode.NO))

"""`slotq quota`: what users may hold of the pools, by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from slotq.cli.app import App, json_option
from slotq.cli.queue.config_command import show_changes
from slotq_core.model.reasons import units
from slotq_core.model.users import classes_of
from slotq_core.spelling import as_known

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq_core.wire.views.jobs import JobView


@click.group(invoke_without_command=True)
@click.option("--user", metavar="PERSON", help="A person, as `slotq whoami` shows it.  [you]")
@click.option("--all", "everyone", is_flag=True, help="Everybody who has limits or holds slots.")
@json_option
@click.pass_context
def quota(ctx: click.Context, user: str | None, *, everyone: bool) -> None:
    """Show what you may hold in each pool and class, and what your jobs hold.

    Only operators see what others hold.
    """
    from slotq.output.project_tables import quotas_table
    from slotq_core.wire.document.values import EVERYONE

    if ctx.invoked_subcommand is not None:
        return
    if user and everyone:
        raise click.UsageError("give --user or --all, not both")
    app = ctx.find_object(App)
    assert app is not None
    view = app.client().configuration.quotas(EVERYONE if everyone else user)
    app.answer(view, quotas_table(view))


@quota.command("set")
@click.argument("user")
@click.argument("priority_class", metavar="CLASS")
@click.argument("pool")
@click.argument("slots", type=click.IntRange(0, 1_000_000))
@click.option(
    "--enforce", is_flag=True, help="Evict the newest jobs beyond a lowered limit: they wait again."
)
@json_option
@click.pass_obj
def set_(app: App, user: str, priority_class: str, pool: str, slots: int, *, enforce: bool) -> None:
    """Let USER (a person, or a user group) hold SLOTS of CLASS in POOL.

    A class that is not named in somebody's limits for a pool is 0 there, once the user has any. A
    lowered limit evicts no jobs, unless you --enforce it. The change is recorded (`slotq config
    history`) and needs a right that only operators should have (docs/guardrails.md).
    """
    client = app.client()
    now = client.configuration.document()
    named = as_known(priority_class, classes_in(now.configuration)) or priority_class
    limit = Limit(user=user, priority_class=named, pool=pool, slots=slots)
    view = client.configuration.apply(with_limit(now.configuration, limit), revision=now.revision)
    evicted = [*_enforce(client, limit, now.configuration)] if enforce else []
    if app.json:
        app.answer(view, "")
    else:
        new = f"queue (revision {view.revision})"
        show_changes(app, view.changes, old="queue (before)", new=new)
        if not view.changes:
            click.echo(f"{user} had that limit already", err=True)
    for job in evicted:
        held = units(job.demand["slots"], "slots")
        click.echo(f"{job.name} gives {held} of {job.pool} back and waits again", err=True)


def _enforce(client: QueueClient, limit: Limit, document: Mapping[str, Any]) -> Iterator[JobView]:
    """Stop the newest attempts that the limit leaves no room for; yield their jobs."""
    from slotq_core.wire.document.values import EVERYONE

    user = EVERYONE if limit.of_group(document) else limit.user
    for quota in client.configuration.quotas(user).quotas:
        if (quota.priority_class, quota.pool) == (limit.priority_class, limit.pool):
            for name in quota.beyond:
                yield client.jobs.requeue(name)


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The slots that somebody may hold in a class and pool."""

    user: str
    """A person, or a user group."""
    priority_class: str
    pool: str
    slots: int

    def of_group(self, document: Mapping[str, Any]) -> bool:
        """Whether the limit is a user group's."""
        return any(group["name"] == self.user for group in document.get("user_groups", ()))


def classes_in(document: Mapping[str, Any]) -> list[str]:
    """The names of the document's classes; of those that every queue has, if it has none."""
    return [entry["name"] for entry in document.get("classes", ())] or [*classes_of(())]


def with_limit(document: Mapping[str, Any], limit: Limit) -> dict[str, Any]:
    """Return the document with this limit. A person who has no entry yet gets one."""
    section = "user_groups" if limit.of_group(document) else "users"
    entries = [dict(entry) for entry in document.get(section, ())]
    entry = next((entry for entry in entries if entry["name"] == limit.user), None)
    if entry is None:
        entries.append(entry := {"name": limit.user})
    limits = entry.get("limits", {})
    of_pool = {**limits.get(limit.pool, {}), limit.priority_class: limit.slots}
    entry["limits"] = {**limits, limit.pool: of_pool}
    return {**document, section: entries}

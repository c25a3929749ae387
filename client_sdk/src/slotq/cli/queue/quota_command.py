"""`slotq quota`: what users may hold of the pools, by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from slotq.cli.app import App, json_option
from slotq.cli.queue.config_command import show_changes
from slotq.client import QueueClient
from slotq.document.user_limits import Limit, with_limit
from slotq.output.quota_tables import quotas_table
from slotq_core.model.jobs import ACTIVE_STATES, JobState, Workload
from slotq_core.model.reasons import units
from slotq_core.model.users import PriorityClass, classes_of, names_by_value
from slotq_core.wire.document.values import EVERYONE
from slotq_core.wire.document.views import UserQuotaView
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
    if ctx.invoked_subcommand is not None:
        return
    if user and everyone:
        raise click.UsageError("give --user or --all, not both")
    app = ctx.find_object(App)
    assert app is not None
    view = app.client().quotas(EVERYONE if everyone else user)
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

    A class that is not named in somebody's limits for a pool is 0 there, once the user has any.
    A lowered limit evicts nobody, unless you --enforce it. The change is recorded (`slotq config
    history`) and needs a right that only operators should have (docs/guardrails.md).
    """
    client = app.client()
    limit = Limit(user=user, priority_class=priority_class, pool=pool, slots=slots)
    now = client.document()
    view = client.apply(with_limit(now.configuration, limit), revision=now.revision)
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
    whose = EVERYONE if limit.of_group(document) else limit.user
    over = [each for each in client.quotas(whose).quotas if _is_over(each, limit)]
    jobs = client.jobs(sorted(ACTIVE_STATES)) if over else []
    counted = [job for job in jobs if _class_of(job, document) == limit.priority_class]
    for quota_of_user in over:
        for job in _newest_beyond(quota_of_user, counted):
            yield client.requeue(job.name)


def _class_of(job: JobView, document: Mapping[str, Any]) -> str:
    """The class whose limit counts the job: the one that admitted it, or that of its number."""
    configured = (
        PriorityClass(name=each["name"], value=each["value"])
        for each in document.get("classes", ())
    )
    named = job.admitted_class or job.priority_class
    return named or names_by_value(classes_of(configured)).get(job.priority, "")


def _is_over(quota_of_user: UserQuotaView, limit: Limit) -> bool:
    here = (quota_of_user.priority_class, quota_of_user.pool)
    if here != (limit.priority_class, limit.pool) or quota_of_user.total is None:
        return False
    return quota_of_user.used > quota_of_user.total


def _newest_beyond(quota_of_user: UserQuotaView, jobs: Sequence[JobView]) -> Iterator[JobView]:
    """Yield the newest of the class's jobs until the rest fits; never one that may not be evicted.
    Jobs that are being stopped already count as gone."""
    here = (quota_of_user.user, quota_of_user.pool)
    counted = [job for job in jobs if (job.user, job.pool) == here]
    assert quota_of_user.total is not None
    stopping = sum(job.demand["slots"] for job in counted if job.state == JobState.STOPPING)
    over = quota_of_user.used - quota_of_user.total - stopping
    for job in sorted(counted, key=lambda job: (job.entry_time, job.name), reverse=True):
        evictable = job.preemptible and job.workload == Workload.TRAINING
        if over > 0 and job.state != JobState.STOPPING and evictable:
            over -= job.demand["slots"]
            yield job

"""`slotq reserve` and `slotq reservations`: slots of a pool for one project, for a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from slotq.cli.app import App, json_option

if TYPE_CHECKING:
    from slotq_core.wire.views.pools import PoolsView

pool_option = click.option(
    "--pool", metavar="NAME", help="The pool; needed where the queue has several."
)


@click.command
@click.argument("project")
@click.argument("slots", type=click.IntRange(1))
@click.argument("begins", metavar="FROM")
@click.argument("ends", metavar="TO")
@pool_option
@json_option
@click.pass_obj
def reserve(
    app: App, /, *, project: str, slots: int, begins: str, ends: str, pool: str | None
) -> None:
    """Set SLOTS of a pool aside for PROJECT, from FROM to TO.

    Times need a zone: '2026-12-01 20:00 Europe/Berlin' or 2026-12-01T20:00+01:00. Until then, what
    cannot be evicted starts there only if it ends before. The change is recorded (`slotq pools
    history`) and needs a right that only operators should have (docs/guardrails.md).
    """
    _show_result(app, app.client().pools.reserve(project, slots, begins, ends, pool=pool))


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def reservations(ctx: click.Context) -> None:
    """Show and cancel the reservations (`slotq reserve` makes one).

    `slotq reservations` alone is `slotq reservations list`.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@reservations.command("list")
@pool_option
@json_option
@click.pass_obj
def list_(app: App, pool: str | None = None) -> None:
    """List the reservations that have not ended, pool by pool."""
    _show_result(app, app.client().pools.view(), pool)


@reservations.command
@click.argument("project")
@click.argument("begins", metavar="[FROM]", default="")
@pool_option
@json_option
@click.pass_obj
def cancel(app: App, project: str, begins: str, pool: str | None) -> None:
    """Cancel the reservation of PROJECT that begins at FROM; without FROM its only one.

    Nothing is stopped: jobs of PROJECT go on by the rules that hold for everybody.
    """
    view = app.client().pools.cancel_reservation(project, begins or None, pool=pool)
    _show_result(app, view)


def _show_result(app: App, view: PoolsView, pool: str | None = None) -> None:
    from slotq.output.pool_tables import reservations_table
    from slotq_core.wire.views.pools import reservations_view

    found = reservations_view(view, pool)
    app.answer(found, reservations_table(found))

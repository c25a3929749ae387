"""`slotq whoami`: the person that the queue takes the caller for."""

from __future__ import annotations

import click
from rich.table import Table
from rich.text import Text

from slotq.cli.app import App, json_option
from slotq_core.wire.views.about import MembershipView, MeView


@click.command
@json_option
@click.pass_obj
def whoami(app: App, /) -> None:
    """Show the person that the queue takes you for, and why; and your role in each project.

    The person counts for limits, for --mine and for who sees a request whole. Many sessions of one
    role may be one person.
    """
    me = app.client().service.me()
    app.answer(me, _page(me))


def _page(me: MeView) -> Table:
    page = Table.grid(padding=(0, 2))
    rows = [("person", me.person), ("caller", me.caller), ("why", me.why)]
    rows += [("" if n else "projects", _role(each)) for n, each in enumerate(me.projects)]
    for name, value in rows:
        page.add_row(Text(name, style="bold"), Text(value, overflow="fold"))
    return page


def _role(membership: MembershipView) -> str:
    default = ", your default" if membership.default else ""
    return f"{membership.name} ({membership.role}{default})"

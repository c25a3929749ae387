"""`slotq timeline`."""

from __future__ import annotations

from datetime import datetime

import click

from slotq.cli.app import App, json_option
from slotq.cli.words import MomentWord
from slotq.output.timeline_text import timeline_text
from slotq_core.wire.views.usage import AttemptsPageView

IN_A_FILE = 100
"""Columns of the drawing where there is no terminal."""


@click.command(epilog="\b\nslotq timeline --since 7d --pool p5\nslotq ui /timeline")
@click.option(
    "--since", type=MomentWord(), metavar="MOMENT", help="From then on (2h, 7d, a time).  [1d]"
)
@click.option("--until", type=MomentWord(), metavar="MOMENT", help="Until before then.  [now]")
@click.option("--pool", default="", metavar="NAME", help="Only this pool.")
@json_option
@click.pass_obj
def timeline(app: App, /, *, since: datetime | None, until: datetime | None, pool: str) -> None:
    """Draw when each job held slots, with its evictions: from whom and for whom.

    A row for each job in each pool, moments in UTC. Jobs of others are drawn without names where
    you may not see them.
    """
    client = app.client()
    with app.console(stderr=True).status("reading attempts …") as status:

        def said(page: AttemptsPageView) -> None:
            if page.next is not None:
                status.update(f"reading attempts … {page.next[:10]}")

        view = client.usage.attempts(start=since, end=until, pool=pool, said=said)
    console = app.console()
    app.answer(view, timeline_text(view, console.width if console.is_terminal else IN_A_FILE))

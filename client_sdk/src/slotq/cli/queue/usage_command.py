"""`slotq usage`: what jobs have used, in hours and dollars; `slotq timeline`: when, job by job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slotq.cli.app import App, json_option, prices_option, wide_option
from slotq.cli.words import MomentWord
from slotq.cost.instance_prices import InstancePrices, prices_of
from slotq.output.timeline_text import timeline_text
from slotq_core.usage.amounts import BY

if TYPE_CHECKING:
    from slotq.cost.used import Used
    from slotq.output.json_views import UsageView
    from slotq_core.wire.views.usage import AttemptsPageView, UsagePageView


def _by(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    names = [name.strip() for text in texts for name in text.split(",")]
    for name in names:
        if name not in BY:
            raise click.BadParameter(f"'{name}' is not one of {', '.join(BY)}")
    return tuple(dict.fromkeys(names))


# click leaves text after a backspace as it is; a docstring cannot contain one.
_EXAMPLES = """\b
slotq usage --by project
slotq usage --from 2026-10-01 --to 2026-11-01 --by project,submitter --csv > october.csv"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--from",
    "start",
    type=MomentWord(),
    metavar="MOMENT",
    help="From then on (7d, a date, a time).  [the first of this month, UTC]",
)
@click.option("--to", "end", type=MomentWord(), metavar="MOMENT", help="Until before then.  [now]")
@click.option(
    "--by",
    multiple=True,
    callback=_by,
    metavar="FIELDS",
    help=f"What to group by, comma separated: {', '.join(BY)}.",
)
@prices_option
@click.option("--csv", "as_csv", is_flag=True, help="CSV instead of a table, unrounded.")
@wide_option
@json_option
@click.pass_obj
def usage(
    app: App,
    /,
    *,
    start: datetime | None,
    end: datetime | None,
    by: tuple[str, ...],
    prices: Path | None,
    as_csv: bool,
) -> None:
    """Show what jobs have used: hours, dollars, waits and evictions.

    Each attempt counts with the part that lies between --from and --to. GIVEN are own attempts
    that were evicted, TAKEN those of others that were evicted for own jobs, and LOST-H the hours
    whose work evictions threw away (≤: at most, for attempts that reported no checkpoint).
    """
    from slotq.output.usage_tables import usage_csv, usage_page

    if as_csv and app.json:
        raise click.UsageError("--csv and --json exclude each other")
    client = app.client()
    known = prices_of(client.config, prices)
    with _progress(app, "reading what was used") as said:
        used = client.usage(start=start, end=end, by=by, said=said)
    view = usage_view(used, known)
    if as_csv:
        click.echo(usage_csv(view), nl=False)
    else:
        app.answer(view, usage_page(view))


def usage_view(used: Used, prices: InstancePrices) -> UsageView:
    from slotq.cost.used import total_line, unpriced_types, usage_lines
    from slotq.output.json_views import PricesView, UsageView

    return UsageView(
        start=used.start,
        end=used.end,
        as_of=used.as_of,
        by=[*used.by],
        lines=usage_lines(used, prices),
        total=total_line(used, prices),
        prices=PricesView(
            as_of=prices.as_of,
            region=prices.region,
            source=prices.source,
            without_price=unpriced_types(used, prices),
        ),
        unreadable=used.unreadable,
    )


@contextmanager
def _progress(
    app: App, reading: str
) -> Iterator[Callable[[UsagePageView | AttemptsPageView], None]]:
    """Report the progress of a long read on a terminal."""
    console = app.console(stderr=True)
    with console.status(f"{reading} …") as status:

        def said(page: UsagePageView | AttemptsPageView) -> None:
            if page.next is not None:
                status.update(f"{reading} … {page.next[:10]}")

        yield said


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
    with _progress(app, "reading attempts") as said:
        view = client.usage.attempts(start=since, end=until, pool=pool, said=said)
    console = app.console()
    app.answer(view, timeline_text(view, console.width if console.is_terminal else IN_A_FILE))

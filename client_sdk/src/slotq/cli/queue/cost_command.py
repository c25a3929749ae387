"""`slotq cost`: what the queue costs, from measured counts. Makes no network calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

import click
from rich.table import Table

from slotq.cli.app import App, json_option
from slotq.cli.words import Amount
from slotq.cost.bill import AS_OF, ASSUMED, PRICES, Bill, Usage, bill, measured

Values = dict[str, float]


def _one_of(known: Mapping[str, object]) -> Callable[..., Values]:
    """A callback that parses NAME=VALUE options with NAME in `known`."""

    def read(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> Values:
        found = {}
        for text in texts:
            name, _equals, value = text.partition("=")
            if name not in known or not re.fullmatch(r"\d{1,12}(\.\d{1,12})?", value):
                raise click.BadParameter(
                    f"'{text}' is not NAME=VALUE with a number of 0 or more and as NAME one of "
                    f"{', '.join(known)}"
                )
            found[name] = float(value)
        return found

    return read


_AMOUNT = Amount(min=0, max=1e9)


# click leaves text after a backspace as it is; a docstring cannot contain one.
_EXAMPLES = """\b
slotq cost --jobs 5000 --evictions 0.5
slotq cost --price api_requests=3.70 --assume memory_gb=2"""


@click.command(epilog=_EXAMPLES)
@click.option("--jobs", type=_AMOUNT, default=1000, show_default=True, help="Jobs a month.")
@click.option(
    "--evictions",
    type=_AMOUNT,
    default=0.2,
    show_default=True,
    help="Evictions of a job, on average.",
)
@click.option(
    "--ahead",
    type=_AMOUNT,
    default=20,
    show_default=True,
    help="Jobs waiting ahead of a new job, on average.",
)
@click.option(
    "--watched",
    type=_AMOUNT,
    default=1,
    show_default=True,
    help="Hours that somebody watches a job, on average.",
)
@click.option(
    "--price",
    "prices",
    multiple=True,
    metavar="NAME=USD",
    callback=_one_of(PRICES),
    help="Your price, for the same number of units as in the price list.",
)
@click.option(
    "--assume",
    "assumed",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_one_of(ASSUMED),
    help="Replace an assumption.",
)
@json_option
@click.pass_obj
def cost(
    app: App,
    *,
    jobs: float,
    evictions: float,
    ahead: float,
    watched: float,
    prices: Values,
    assumed: Values,
) -> None:
    """Estimate what the queue costs a month and a job, without the training itself."""
    usage = Usage(jobs=jobs, evictions=evictions, ahead=ahead, watched=watched)
    unit_prices = {name: prices.get(name, price.usd) / price.per for name, price in PRICES.items()}
    values = {name: assumed.get(name, assumption.value) for name, assumption in ASSUMED.items()}
    made = bill(usage, measured(), prices=unit_prices, assumed=values)
    if app.json:
        click.echo(json.dumps(_as_json(made, unit_prices, values), indent=2))
        return
    app.console().print(_table(made))
    click.echo(
        f"\n{made.usd_per_job:.5f} USD a job, {made.usd_fixed:.2f} USD a month without any, "
        f"{made.usd_per_month:.2f} USD a month with {jobs:,.0f} jobs."
    )
    click.echo(f"Prices: {AS_OF}{', except yours' if prices else ''}. --json shows everything.")


def _table(made: Bill) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("WHAT", "A JOB", "USD A JOB", "A MONTH, IDLE", "USD A MONTH, IDLE"):
        table.add_column(heading, justify="left" if heading == "WHAT" else "right")
    fixed = {item.name: item for item in made.fixed}
    jobs = {item.name: item for item in made.per_job}
    for name, month in fixed.items():
        job = jobs.get(name)
        table.add_row(
            PRICES[name].unit,
            f"{job.amount:,.4g}" if job else "",
            f"{job.usd:.6f}" if job else "",
            f"{month.amount:,.4g}",
            f"{month.usd:.4f}",
        )
    return table


def _as_json(
    made: Bill, prices: Mapping[str, float], assumed: Mapping[str, float]
) -> dict[str, object]:
    return {
        "usd": {
            "per_job": round(made.usd_per_job, 9),
            "fixed_per_month": round(made.usd_fixed, 6),
            "per_month": round(made.usd_per_month, 6),
        },
        "per_job": {item.name: {"amount": item.amount, "usd": item.usd} for item in made.per_job},
        "fixed": {item.name: {"amount": item.amount, "usd": item.usd} for item in made.fixed},
        "usd_for_one": dict(prices),
        "prices_as_of": AS_OF,
        "assumed": dict(assumed),
        "counts": {name: counts.as_json() for name, counts in measured().items()},
    }

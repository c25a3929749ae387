"""`slotq whatif`: forecast what a change would do to the queue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, Unpack

import click

from slotq.cli.app import App, json_option, prices_option
from slotq.cli.exits import ExitCode
from slotq.cli.name_arguments import JobName
from slotq.cli.queue.config_command import show_changes
from slotq.cli.whatif.wanted import (
    ChangeOptions,
    WantedChange,
    change_of,
    milliseconds,
    with_new_jobs,
)
from slotq.cli.words import Amount, Pair
from slotq.errors import SlotQError

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq.cost.instance_prices import InstancePrices
    from slotq.simulate.whatif import ForecastInput
    from slotq.simulate.whatif.forecast import Runtimes


def put(
    client: QueueClient, wanted: WantedChange, document: Mapping[str, Any] | None, revision: int
) -> None:
    """Apply the configuration (None: it stays) and then each change of a job, and say so on stderr.
    Stops at the first refusal; what was done before stays. Raises what the queue refuses with."""
    from slotq.simulate.whatif.changes import steps

    done = 0
    try:
        for said, do in steps(client, wanted.change, document, revision, requests=wanted.requests):
            do()
            click.echo(said, err=True)
            done += 1
    except SlotQError:
        if done:
            click.echo("the changes above are in force; the next one was refused", err=True)
        raise


_EXAMPLES = """\b
slotq whatif --pool p5=4
slotq whatif --quota team-a=3 --hours 24 --diff
slotq whatif --set fair_share.half_life=7d
slotq whatif --submit request.json --runtime 6h
slotq whatif --priority my-job=9 --apply"""


def _runtimes(texts: tuple[str, ...]) -> Runtimes:
    """`4h`: each job; `my-job=4h`: one job."""
    from slotq.simulate.whatif.forecast import Runtimes

    every, single = None, {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if equals:
            single[name] = milliseconds(value)
        else:
            every = milliseconds(text)
    return Runtimes(every=every, of=single)


@click.command(epilog=_EXAMPLES)
@click.option(
    "--pool", "pools", type=Pair(), multiple=True, metavar="POOL=SLOTS", help="A pool's size."
)
@click.option(
    "--more", "more_", type=Pair(), multiple=True, metavar="POOL=SLOTS:TIME",
    help="A pool has more slots for a time, such as p5=2:1w; in a pool of a training plan, as "
    "another window of it.",
)  # fmt: skip
@click.option(
    "--quota", "quotas_", type=Pair(), multiple=True, metavar="PROJECT=SLOTS",
    help="A project's quota; by pool: PROJECT='{p5: 3}'.",
)  # fmt: skip
@click.option(
    "--set", "settings_", type=Pair(), multiple=True, metavar="SETTING=VALUE",
    help="A setting of the configuration: fair_share.half_life=7d, pools.p5.min_runtime=5m.",
)  # fmt: skip
@click.option(
    "--priority", "priorities_", type=Pair(), multiple=True, metavar="JOB=NUMBER|CLASS",
    help="A job's priority.",
)  # fmt: skip
@click.option(
    "--move", "moves_", type=Pair(), multiple=True, metavar="JOB=POOLS",
    help="The pools that a job accepts, comma separated.",
)  # fmt: skip
@click.option(
    "--nodes", "nodes_", multiple=True, metavar="POOL[=GPUS]",
    help="A pool keeps nodes, of the GPUs of its instances.",
)  # fmt: skip
@click.option(
    "--gpus", "gpus_", type=Pair(), multiple=True, metavar="JOB=NUMBER",
    help="A waiting job, or a group's, asks for GPUs of a node: 2, or 0.25 for a part of one.",
)  # fmt: skip
@click.option("--cancel", type=JobName(), multiple=True, metavar="JOB", help="A job is cancelled.")
@click.option("--hold", type=JobName(), multiple=True, metavar="JOB", help="A waiting job is held.")
@click.option(
    "--release", type=JobName(), multiple=True, metavar="JOB", help="A held job is released."
)
@click.option(
    "--submit", "files", type=click.File(encoding="utf-8-sig"), multiple=True, metavar="FILE",
    help="A job is submitted: a CreateTrainingJob request.",
)  # fmt: skip
@click.option(
    "--add", "added", multiple=True, metavar="KEY=VALUE,...",
    help="The same without a request: slots=2,pool=p5,priority=9. Also name, project, class, "
    "preemptible, gpus.",
)  # fmt: skip
@click.option(
    "--runtime", "runtimes", multiple=True, metavar="[JOB=]DURATION",
    help="How long jobs run in all, such as 4h.  [what they report, else MaxRuntimeInSeconds]",
)  # fmt: skip
@click.option(
    "--hours", type=Amount(min=0, max=720), default=8.0, show_default=True, help="How far to look."
)
@prices_option
@click.option(
    "--diff", is_flag=True,
    help="Print only the change of the configuration, as `slotq config diff` does.",
)  # fmt: skip
@click.option(
    "--apply", "applies", is_flag=True, help="Then put the change into force, if confirmed."
)
@click.option("--yes", is_flag=True, help="Confirmed.")
@json_option
@click.pass_obj
def whatif(
    app: App,
    *,
    files: tuple[TextIO, ...],
    added: tuple[str, ...],
    runtimes: tuple[str, ...],
    hours: float,
    prices: Path | None,
    diff: bool,
    applies: bool,
    yes: bool,
    **changes: Unpack[ChangeOptions],
) -> None:
    """Show what a change would do: what starts, waits and is evicted.

    The simulator runs the present queue, with the change and without, by the queue's own policy.
    Nothing is changed without --apply. Without any change, it shows what the queue does next.
    docs/whatif.md says what it assumes.
    """
    from slotq.cost.instance_prices import prices_of
    from slotq.simulate.whatif import ForecastInput, changed

    client, assumed, change = app.client(), _runtimes(runtimes), change_of(changes)
    queue = ForecastInput.of(client.service.scenario())
    there = [pool.name for pool in queue.settings.pools]
    wanted = with_new_jobs(client, change, files, added, pools=there)
    _check_usage(wanted, diff=diff, applies=applies)
    after = changed(queue, wanted.change)
    if diff:
        _show_diff(app, queue, after)
    else:
        given = prices_of(client.config, prices)
        _show_answer(app, wanted, queue, after, hours=hours, assumed=assumed, prices=given)
    if applies:
        _apply(app, client, wanted, queue, after, sure=yes)


def _check_usage(wanted: WantedChange, *, diff: bool, applies: bool) -> None:
    if wanted.change.more and (diff or applies):
        raise click.UsageError("--more only asks: buy the slots, then change the pool")
    change = wanted.change
    if diff and not (change.pools or change.quotas or change.settings or change.nodes):
        raise click.UsageError(
            "--diff shows a change of the configuration: give --pool, --nodes, --quota or --set"
        )
    if applies and wanted.is_nothing:
        raise click.UsageError("--apply: give a change, such as --pool p5=4")
    if applies and wanted.invented:
        raise click.UsageError("--apply: a job of --add has no request; use --submit FILE")
    if applies and wanted.change.gpus:
        raise click.UsageError(
            "--apply: --gpus is part of a job's request: cancel the job and submit it again"
        )


def _show_answer(
    app: App,
    wanted: WantedChange,
    queue: ForecastInput,
    after: ForecastInput,
    *,
    hours: float,
    assumed: Runtimes,
    prices: InstancePrices,
) -> None:
    from slotq.cli.whatif.tables import answer_tables
    from slotq.simulate.whatif import compared, forecast

    answer = compared(
        forecast(queue, hours=hours, runtimes=assumed),
        forecast(after, hours=hours, runtimes=assumed),
        touched=wanted.touched(queue),
        prices=prices,
    )
    app.answer(answer, answer_tables(answer, changes=not wanted.is_nothing))


def _show_diff(app: App, queue: ForecastInput, after: ForecastInput) -> None:
    from slotq.document.document_text import compared as compared_documents
    from slotq_core.wire.document.views import AppliedView
    from slotq_core.wire.document.writing import written

    changes = compared_documents(written(queue.settings), written(after.settings))
    if app.json:
        view = AppliedView(revision=queue.revision, dry_run=True, changes=changes)
        app.answer(view, "")
    else:
        show_changes(app, changes, old=f"queue (revision {queue.revision})", new="what if")


def _apply(
    app: App,
    client: QueueClient,
    wanted: WantedChange,
    queue: ForecastInput,
    after: ForecastInput,
    *,
    sure: bool,
) -> None:
    """Put the change into force, once the user has confirmed it."""
    from slotq_core.wire.document.writing import written

    if not sure:
        if not app.asks():
            raise click.UsageError("--apply asks before it changes anything; confirm with --yes")
        if not click.confirm("Put this into force?", err=True):
            click.echo("Nothing was changed.", err=True)
            raise click.exceptions.Exit(int(ExitCode.NO))
    configures = queue.settings != after.settings
    put(client, wanted, written(after.settings) if configures else None, queue.revision)
